//! A pause that ends by itself, on real processes that share one Redis, by its clock.

use serde_json::{Value, json};

use super::{SharedPrefix, add, get};

#[tokio::test]
async fn a_pause_ends_without_the_process_that_it_was_set_at() {
    let directory = SharedPrefix::new();
    let ((mut first, mut one), (_second, mut two)) = (directory.start(), directory.start());
    let pause = json!({"delivery": true, "reason": "a test", "until": "3s"});
    let paused = one.post("/topics/t/pause", &pause).await.expect("answers").json();
    assert_eq!(paused["pauses"]["delivery"]["by"], "127.0.0.1");
    first.kill();
    add(&mut two, json!({"topic": "t", "id": "a"})).await;
    let until = &paused["pauses"]["delivery"]["until"];
    let popped = get(&mut two, "/topics/t/pop?wait=60s").await;
    assert_eq!(popped.status, 200, "{popped:?}");
    let job = get(&mut two, "/jobs/a").await.json();
    let reserved_at = job["reserved_at"].as_str().expect("a moment");
    assert!(reserved_at >= until.as_str().expect("a moment"), "{job} was reserved during the pause {paused}");
    assert_eq!(get(&mut two, "/topics/t").await.json()["pauses"], Value::Null);
}
