//! Jobs that used up their tries.

use serde_json::json;

use super::{Engine, Site, on_each_engine};

on_each_engine! {
    a_job_without_tries_is_a_dead_letter,
    dead_letters_are_respawned_oldest_first,
    dead_letters_are_deleted_oldest_first,
}

const NONE: &str = r#"{"deadletter_head":"","deadletter_size":0,"namespace":"n","queue":"q"}"#;

/// Publishes jobs with one try, and lets the time of each to run end. Returns their ids.
fn kill<const N: usize>(site: &Site) -> [String; N] {
    std::array::from_fn(|_| {
        let id = site.publish("n/q", "x");
        assert_eq!(site.consume("n/q?ttr=1")["remain_tries"], 0);
        site.server.wait_for_state(&id, &"dead".into());
        id
    })
}

/// A TTR of 0 is a second here.
fn a_job_without_tries_is_a_dead_letter(engine: Engine) {
    let site = Site::new(engine);
    assert_eq!(site.expect(200, "GET", "n/q/deadletter", ""), NONE);
    assert_eq!(site.expect(200, "PUT", "n/q/deadletter?limit=9", ""), r#"{"count":0,"msg":"respawned"}"#);
    let id = site.publish("n/q?tries=2", "x");
    assert_eq!(site.consume("n/q?ttr=0")["remain_tries"], 1);
    let again = site.consume("n/q?ttr=0&timeout=60");
    assert_eq!((&again["remain_tries"], &again["job_id"]), (&json!(0), &json!(id)));
    site.server.wait_for_state(&id, &"dead".into());
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
        site.expect(200, "PUT", "n/q/deadletter?limit=5&ttl=60", ""),
        r#"{"count":1,"msg":"respawned"}"#
    );
    let job = site.consume("n/q");
    assert_eq!((&job["job_id"], job["ttl"].as_u64()), (&json!(second), Some(60)));
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
