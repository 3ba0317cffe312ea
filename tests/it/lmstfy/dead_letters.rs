//! Jobs that used up their tries.

use serde_json::json;

use super::{Engine, Site, on_each_engine};
use crate::harness::wait::TimeLimit;

on_each_engine! {
    a_job_without_tries_is_a_dead_letter,
    dead_letters_are_respawned_oldest_first,
    dead_letters_are_deleted_oldest_first,
}

const NONE: &str = r#"{"deadletter_head":"","deadletter_size":0,"namespace":"n","queue":"q"}"#;

/// Publishes jobs, and buries each. Returns their ids.
fn kill<const N: usize>(site: &Site) -> [String; N] {
    std::array::from_fn(|_| {
        let id = site.publish("n/q", "x");
        let popped = site.native("GET", "/topics/n:q/pop", "", 200);
        let receipt = popped["receipt"].as_str().expect("a receipt");
        assert_eq!(popped["id"], id);
        site.native("POST", &format!("/jobs/{id}/bury?receipt={receipt}"), "", 200);
        id
    })
}

fn a_job_without_tries_is_a_dead_letter(engine: Engine) {
    let site = Site::new(engine);
    assert_eq!(site.expect(200, "GET", "n/q/deadletter", ""), NONE);
    assert_eq!(site.expect(200, "PUT", "n/q/deadletter?limit=9", ""), r#"{"count":0,"msg":"respawned"}"#);
    let id = site.publish("n/q?tries=2", "x");
    let time_limit = TimeLimit::new();
    let mut tries = Vec::new();
    while site.server.job(&id)["state"] != "dead" {
        time_limit.check(|| site.server.job(&id).to_string());
        // On a busy machine a reservation of a second may end before it is delivered.
        let consumed = site.call("GET", "n/q?ttr=1&timeout=1", "");
        if consumed.status() == 200 {
            let consumed: serde_json::Value = serde_json::from_str(&consumed.body).expect("is JSON");
            assert_eq!(consumed["job_id"], id);
            tries.push(consumed["remain_tries"].as_u64().expect("is a number"));
        }
    }
    assert!([&[1, 0][..], &[1], &[0], &[]].contains(&&*tries), "{tries:?}");
    assert_eq!(
        site.expect(200, "GET", "n/q/deadletter", ""),
        format!(r#"{{"deadletter_head":"{id}","deadletter_size":1,"namespace":"n","queue":"q"}}"#)
    );
    assert_eq!(site.size("n/q/deadletter/size"), 1);
    assert_eq!(site.size("n/q/size"), 0);
}

fn dead_letters_are_respawned_oldest_first(engine: Engine) {
    let site = Site::new(engine);
    let [first, second] = kill(&site);
    assert_eq!(site.expect(200, "PUT", "n/q/deadletter?ttl=0", ""), r#"{"count":1,"msg":"respawned"}"#);
    let job = site.consume("n/q");
    assert_eq!((&job["job_id"], &job["ttl"]), (&json!(first), &json!(0)));
    assert_eq!(
        site.expect(200, "PUT", "n/q/deadletter?limit=5&ttl=3600", ""),
        r#"{"count":1,"msg":"respawned"}"#
    );
    let job = site.consume("n/q");
    assert_eq!((&job["job_id"], job["ttl"].as_u64().is_some_and(|ttl| ttl > 0)), (&json!(second), true));
    assert_eq!(site.server.job(&second)["on_expiry"], "delete");
    assert_eq!(site.expect(200, "GET", "n/q/deadletter", ""), NONE);
}

fn dead_letters_are_deleted_oldest_first(engine: Engine) {
    let site = Site::new(engine);
    let [first, second, third] = kill(&site);
    site.expect(204, "DELETE", "n/q/deadletter", "");
    assert_eq!(site.server.job(&first), json!(null));
    assert_eq!(site.size("n/q/deadletter/size"), 2);
    site.expect(204, "DELETE", "n/q/deadletter?limit=100", "");
    for id in [second, third] {
        assert_eq!(site.server.job(&id), json!(null));
    }
}
