//! One primary of a Cluster is emptied: its jobs are refused until the loss is accepted, and all others are served.

use fred::util::redis_keyslot;
use serde_json::json;
use xxhash_rust::xxh3::xxh3_64;

use super::serve;
use crate::harness::{
    cluster::Cluster,
    process::{Server, run, stderr},
    redis::fresh_prefix,
    wait::TimeLimit,
};

fn add(server: &Server, id: &str) -> u16 {
    let job = json!({"topic": "t", "id": id, "delay": "1h"});
    server.call("POST", "/jobs", &job.to_string()).status
}

fn misses_a_part(server: &Server) -> bool {
    let answer = server.call("GET", "/readyz?verbose", "");
    answer.status != 200 || answer.body.contains("replaced")
}

#[test]
fn an_emptied_primary_is_a_loss_of_its_jobs_until_it_is_accepted() {
    let (cluster, home, prefix) =
        (Cluster::start(5_000), tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server = serve(&cluster, &prefix, "", home.path());
    let ids: Vec<String> = (0..60).map(|n| format!("job-{n}")).collect();
    assert!(ids.iter().all(|id| add(&server, id) == 201));
    let owner = |tag: &str| cluster.owner_of(redis_keyslot(tag.as_bytes()), 0);
    let of_layout = owner(&prefix);
    let another = (0..3).find(|n| *n != of_layout).expect("there are three primaries");
    assert_eq!(server.call("PUT", "/topics/s", r#"{"ttr":"77s"}"#).status, 200);
    for victim in [another, of_layout] {
        let is_lost = |id: &String| owner(&format!("{prefix}:{}", xxh3_64(id.as_bytes()) % 16)) == victim;
        let (lost, kept): (Vec<&String>, Vec<&String>) = ids.iter().partition(|id| is_lost(id));
        cluster.node(victim).call(&["FLUSHALL"]);
        let time_limit = TimeLimit::new();
        while !misses_a_part(&server) {
            time_limit.check(|| server.log());
            time_limit.pause_thread();
        }
        server.wait_for_metric("linger_store_replaced", 1.0);
        assert_eq!(server.call("GET", "/readyz", "").status, 200, "the other jobs are served");
        // The look at the parts that has found one may have begun before the others were emptied: the next one finds them all.
        for id in &lost {
            while server.call("GET", &format!("/jobs/{id}"), "").status == 404 {
                time_limit.check(|| format!("{id} counts as gone"));
                time_limit.pause_thread();
            }
        }
        for (ids, status) in [(&lost, 503), (&kept, 200)] {
            assert!(!ids.is_empty());
            for id in ids {
                let answer = server.call("GET", &format!("/jobs/{id}"), "");
                assert_eq!(answer.status, status, "{id}: {}", answer.body);
            }
        }
        assert!(lost.iter().all(|id| add(&server, id) == 503), "nothing goes into the empty shards");
        let later = (0..).map(|n| format!("{victim}-{n}")).find(|id| !is_lost(id)).expect("one is elsewhere");
        let job = json!({"topic": "s", "id": later}).to_string();
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
        assert_eq!(server.job(&later)["ttr"], 77, "the settings are known");
        let accepted = run(&["store", "accept", "--config", "settings.toml"], home.path());
        assert!(accepted.status.success(), "{}", stderr(&accepted));
        while misses_a_part(&server) {
            time_limit.check(|| server.log());
            time_limit.pause_thread();
        }
        assert_eq!(server.metric("linger_store_replaced"), Some(0.0));
        assert!(lost.iter().all(|id| add(&server, id) == 201), "they are gone");
        assert!(kept.iter().all(|id| add(&server, id) == 200), "they are as they were");
    }
}
