//! Notices of several processes.

use linger::store::{NoticeContent, NoticeKind, TopicUpdates};

use super::{Process, Raw, options};
use crate::harness::{jobs::*, redis::shared, wait::TimeLimit};

async fn watch(process: &Process) {
    let nothing = NoticeContent::new("").expect("is empty");
    process.store.notices().put(NoticeKind::Watch, "", nothing).await.expect("writes");
}

/// Reads the settings, as the sweep does. Returns whether the listener heard of a viewer.
async fn hears_of_viewer(process: &Process) -> bool {
    process.events.take_watched();
    process.store.read_topic_config(&topic("t")).await.expect("reads");
    process.events.take_watched() > 0
}

#[tokio::test]
async fn every_process_hears_of_a_viewer_for_ten_seconds() {
    let options = options();
    let one = Process::start(&options).await;
    let two = Process::with_clock_of(&one, &options).await;
    assert!(!hears_of_viewer(&one).await && !hears_of_viewer(&two).await);
    watch(&one).await;
    assert!(hears_of_viewer(&one).await && hears_of_viewer(&two).await);
    one.clock.advance(millis(9_999));
    two.events.take_watched();
    let time_limit = TimeLimit::new();
    while two.events.take_watched() == 0 {
        time_limit.check(|| "the sweep did not notify the listener".to_owned());
        time_limit.pause().await;
    }
    one.clock.advance(millis(1));
    // A sweep may have read the notice just before.
    while hears_of_viewer(&two).await {
        time_limit.check(|| "the listener still hears of a viewer".to_owned());
        time_limit.pause().await;
    }
}

#[tokio::test]
async fn processes_without_viewers_and_operations_leave_no_notice() {
    let options = options();
    let process = Process::start(&options).await;
    add(process.store(), job("a")).await;
    for _ in 0..10 {
        assert!(!hears_of_viewer(&process).await);
    }
    let raw = Raw::connect(&shared().url()).await;
    let key = format!("{{{}}}:notices", options.prefix);
    assert_eq!(raw.send(&["EXISTS", &key]).await.as_i64(), Some(0));
    watch(&process).await;
    assert_eq!(raw.send(&["EXISTS", &key]).await.as_i64(), Some(1));
}

#[tokio::test]
async fn damaged_notices_disturb_nothing_else() {
    let options = options();
    let process = Process::start(&options).await;
    let raw = Raw::connect(&shared().url()).await;
    let key = format!("{{{}}}:notices", options.prefix);
    for field in ["w", "oshort"] {
        raw.send(&["HSET", &key, field, "5"]).await;
    }
    assert!(!hears_of_viewer(&process).await);
    let notices = process.store.notices();
    assert_eq!(notices.get(NoticeKind::Operation, "short").await.expect("reads"), None);
    assert_eq!(notices.list(NoticeKind::Operation).await.expect("reads"), []);
    let text = || NoticeContent::new("text").expect("is short");
    for n in 0..64 {
        notices.put(NoticeKind::Operation, &format!("n-{n}"), text()).await.expect("writes");
    }
    assert_eq!(
        notices.list(NoticeKind::Operation).await.expect("reads").len(),
        64,
        "the damaged one went first"
    );
    raw.send(&["DEL", &key]).await;
    raw.send(&["SET", &key, "of another type"]).await;
    assert!(!hears_of_viewer(&process).await, "settings are still read");
    assert!(notices.put_new(NoticeKind::Operation, "a", text()).await.is_err());
    add(process.store(), job("a")).await;
    let verified = process.store.verify().await.expect("verifies");
    assert_eq!(verified.faults, [""; 0]);
    assert_eq!(raw.send(&["GET", &key]).await.as_str().as_deref(), Some("of another type"));
}
