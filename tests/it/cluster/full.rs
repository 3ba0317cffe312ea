//! The memory of one primary of a Cluster is full: a batch over several primaries does not say that nothing of it happened.

use serde_json::{Value, json};

use super::serve;
use crate::harness::{cluster::Cluster, process::Server, redis::fresh_prefix};

/// Adds jobs in one batch.
fn add(server: &Server, ids: &[&str]) -> (u16, Value) {
    let jobs: Vec<Value> = ids.iter().map(|id| json!({"topic": "t", "id": id, "delay": "1h"})).collect();
    let answer = server.call("POST", "/batch/jobs", &json!({ "jobs": jobs }).to_string());
    (answer.status, answer.json()["code"].clone())
}

#[test]
fn a_batch_of_which_a_part_does_not_fit_is_not_refused_as_a_whole() {
    let (cluster, home, prefix) =
        (Cluster::start(5_000), tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server = serve(&cluster, &prefix, "", home.path());
    let owner = |id: &String| {
        let tag = format!("{prefix}:{}", xxhash_rust::xxh3::xxh3_64(id.as_bytes()) % 16);
        cluster.owner_of(fred::util::redis_keyslot(tag.as_bytes()), 0)
    };
    let ids: Vec<String> = (0..60).map(|n| format!("job-{n}")).collect();
    let full = owner(&ids[0]);
    let (refused, elsewhere): (Vec<&String>, Vec<&String>) = ids.iter().partition(|id| owner(id) == full);
    cluster.node(full).call(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(add(&server, &[refused[0], refused[1]]), (507, json!("store_full")));
    assert_eq!(add(&server, &[refused[0], elsewhere[0]]), (503, json!("store_unavailable")));
    assert_eq!(server.call("GET", &format!("/jobs/{}", refused[0]), "").status, 404);
    assert_eq!(server.call("GET", &format!("/jobs/{}", elsewhere[0]), "").status, 200);
    cluster.node(full).call(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(add(&server, &[refused[0], elsewhere[0]]).0, 200, "a repeat completes it");
}
