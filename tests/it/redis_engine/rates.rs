//! Rates of calls that several processes share, and what they leave behind.

use fred::types::Value;
use linger::{job::CallRate, store::Allowed};

use super::{Process, Raw, options};
use crate::harness::{jobs::*, redis::shared};

async fn take(process: &Process, name: &str) -> Allowed {
    let rate = CallRate::new(0.01).expect("valid");
    process.store.allow(&topic(name), rate, 5).await.expect("answers")
}

#[tokio::test]
async fn a_call_that_one_process_gives_back_is_for_the_others() {
    let options = options();
    let one = Process::start(&options).await;
    let other = Process::with_clock_of(&one, &options).await;
    let taken = take(&one, "t").await;
    assert_eq!((taken.granted, take(&other, "t").await.granted), (1, 0));
    one.store.give_back_calls(&topic("t"), taken, 1).await.expect("answers");
    assert_eq!((take(&other, "t").await.granted, take(&one, "t").await.granted), (1, 0));
}

#[tokio::test]
async fn topics_that_make_no_calls_are_forgotten() {
    let options = options();
    let process = Process::start(&options).await;
    for n in 0..50 {
        take(&process, &format!("t{n}")).await;
    }
    process.clock.advance(seconds(101));
    let raw = Raw::connect(&shared().url()).await;
    let key = format!("{{{}}}:rate_limits", options.prefix);
    assert_eq!(raw.send(&["HLEN", &key]).await, Value::from(50));
    // Each looks at two topics, which are chosen at random.
    for n in 0..500 {
        take(&process, &format!("new{}", n % 10)).await;
        process.clock.advance(seconds(20));
    }
    let Value::Integer(left) = raw.send(&["HLEN", &key]).await else { panic!("a number") };
    assert!(left < 25, "{left}");
    assert_eq!(take(&process, "new9").await.granted, 0, "a topic that makes calls is not forgotten");
}
