//! Pauses: each change keeps the other flags, also when several are made at once.

use linger::{
    job::{Actor, Reason, Timestamp},
    store::{TopicConfig, TopicUpdates},
};

use crate::harness::{
    jobs::*,
    stores::{START, StoreFixture},
};

super::on_every_engine! {
    a_change_of_a_pause_leaves_the_rest_alone,
    a_pause_says_who_why_and_until_when,
    a_pause_that_is_over_is_forgotten_by_the_next_change,
    changes_side_by_side_are_all_kept,
    what_is_resumed_completely_is_forgotten,
}

const DELIVERY: PausedOperations = PausedOperations { delivery: true, intake: false };
const INTAKE: PausedOperations = PausedOperations { delivery: false, intake: true };

async fn pause(fixture: &StoreFixture, operations: PausedOperations) -> PausedOperations {
    let now = fixture.store.pause(&topic("t"), operations, Pause::ENDLESS).await.expect("pauses");
    assert_known(fixture, now)
}

async fn resume(fixture: &StoreFixture, operations: PausedOperations) -> PausedOperations {
    let now = fixture.store.resume(&topic("t"), operations).await.expect("resumes");
    assert_known(fixture, now)
}

fn assert_known(fixture: &StoreFixture, now: TopicPause) -> PausedOperations {
    let known = &fixture.store.topic_config(&topic("t")).pause;
    assert_eq!(*known, now, "the process that changed it knows at once");
    PausedOperations { delivery: now.delivery.is_some(), intake: now.intake.is_some() }
}

async fn a_change_of_a_pause_leaves_the_rest_alone(mut fixture: StoreFixture) {
    let (none, all) = (PausedOperations::NONE, PausedOperations::ALL);
    assert_eq!(pause(&fixture, none).await, none);
    assert_eq!(pause(&fixture, DELIVERY).await, DELIVERY);
    assert_eq!(pause(&fixture, INTAKE).await, all);
    assert_eq!(pause(&fixture, INTAKE).await, all, "what is paused stays paused");
    assert_eq!(pause(&fixture, none).await, all);
    fixture.reopen().await;
    assert_eq!(resume(&fixture, DELIVERY).await, INTAKE);
    assert_eq!(resume(&fixture, INTAKE).await, none);
    assert_eq!(pause(&fixture, DELIVERY).await, DELIVERY);
    assert_eq!(resume(&fixture, all).await, none);
    assert_eq!(resume(&fixture, all).await, none);
}

fn start() -> Timestamp {
    Timestamp::parse(START).expect("is a timestamp")
}

/// A pause by this author, for this reason, that ends so many seconds after the start of the test.
fn described(by: &str, reason: &str, until_s: i64) -> Pause {
    Pause {
        since: Some(start()),
        by: Some(Actor::parse(by).expect("valid")),
        reason: Reason::new(reason),
        until: Some(Timestamp::from_millis(start().as_millis() + until_s * 1_000)),
    }
}

async fn a_pause_says_who_why_and_until_when(mut fixture: StoreFixture) {
    let (first, other) = (described("ann", "the bank is down", 60), described("bo", "still down", 90));
    fixture.store.pause(&topic("t"), DELIVERY, first.clone()).await.expect("pauses");
    fixture.reopen().await;
    let stats = fixture.store.topic(&topic("t")).await.expect("reads").expect("has a pause");
    assert_eq!(stats.config.pause, TopicPause { delivery: Some(first), intake: None });
    let later = Pause { since: Some(Timestamp::from_millis(start().as_millis() + 9)), ..other.clone() };
    let paused =
        fixture.store.pause(&topic("t"), PausedOperations::ALL, later.clone()).await.expect("pauses");
    let expected = TopicPause { delivery: Some(other), intake: Some(later) };
    assert_eq!(paused, expected, "the delivery is paused since the first call");
}

async fn a_pause_that_is_over_is_forgotten_by_the_next_change(fixture: StoreFixture) {
    let [short, long] = [60, 90].map(|until_s| described("ann", "", until_s));
    fixture.store.pause(&topic("t"), DELIVERY, short).await.expect("pauses");
    fixture.store.pause(&topic("t"), INTAKE, long).await.expect("pauses");
    fixture.clock.advance(seconds(60) - millis(1));
    assert_eq!(resume(&fixture, PausedOperations::NONE).await, PausedOperations::ALL);
    fixture.clock.advance(millis(1));
    assert_eq!(resume(&fixture, PausedOperations::NONE).await, INTAKE, "at its end it is over");
}

/// Two callers each change one flag at the same time, on many topics.
async fn changes_side_by_side_are_all_kept(fixture: StoreFixture) {
    let names: Vec<_> = (0..40).map(|n| topic(&n.to_string())).collect();
    for (pauses, end) in [(true, PausedOperations::ALL), (false, PausedOperations::NONE)] {
        let mut tasks = tokio::task::JoinSet::new();
        for name in &names {
            for flag in [DELIVERY, INTAKE] {
                let (store, name) = (fixture.store.clone(), name.clone());
                tasks.spawn(async move {
                    let now = match pauses {
                        true => store.pause(&name, flag, Pause::ENDLESS).await,
                        false => store.resume(&name, flag).await,
                    };
                    (flag, now.expect("changes"))
                });
            }
        }
        for (flag, now) in tasks.join_all().await {
            let kept = if flag.delivery { &now.delivery } else { &now.intake };
            assert_eq!(kept.is_some(), pauses, "the answer shows the caller's own change: {now:?}");
        }
        for name in &names {
            assert_eq!(fixture.store.topic_config(name).pause, end.into(), "{name}");
            let stats = fixture.store.topic(name).await.expect("reads").unwrap_or_default();
            assert_eq!(stats.config, TopicConfig { pause: end.into(), ..TopicConfig::default() }, "{name}");
        }
    }
}

async fn what_is_resumed_completely_is_forgotten(fixture: StoreFixture) {
    pause(&fixture, PausedOperations::ALL).await;
    assert_eq!(fixture.store.topics(ALL, None, 10).await.expect("reads").len(), 1);
    resume(&fixture, PausedOperations::ALL).await;
    assert_eq!(fixture.store.topics(ALL, None, 10).await.expect("reads"), []);
    assert_eq!(fixture.store.topic(&topic("t")).await.expect("reads"), None);
}
