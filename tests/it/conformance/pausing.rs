//! Pauses: each change keeps the other flags, also when several are made at once.

use linger::store::{TopicConfig, TopicUpdates};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    a_change_of_a_pause_leaves_the_rest_alone,
    changes_side_by_side_are_all_kept,
    what_is_resumed_completely_is_forgotten,
}

const DELIVERY: TopicPause = TopicPause { delivery: true, intake: false };
const INTAKE: TopicPause = TopicPause { delivery: false, intake: true };

async fn change(fixture: &StoreFixture, set: TopicPause, clear: TopicPause) -> TopicPause {
    let now = fixture.store.change_pause(&topic("t"), set, clear).await.expect("changes");
    assert_eq!(
        fixture.store.topic_config(&topic("t")).pause,
        now,
        "the process that changed it knows at once"
    );
    now
}

async fn a_change_of_a_pause_leaves_the_rest_alone(mut fixture: StoreFixture) {
    let (none, all) = (TopicPause::NONE, TopicPause::ALL);
    assert_eq!(change(&fixture, none, none).await, none);
    assert_eq!(change(&fixture, DELIVERY, none).await, DELIVERY);
    assert_eq!(change(&fixture, INTAKE, none).await, all);
    assert_eq!(change(&fixture, INTAKE, none).await, all, "what is paused stays paused");
    assert_eq!(change(&fixture, none, none).await, all);
    fixture.reopen().await;
    assert_eq!(change(&fixture, none, DELIVERY).await, INTAKE);
    assert_eq!(change(&fixture, DELIVERY, INTAKE).await, DELIVERY);
    assert_eq!(change(&fixture, none, all).await, none);
    assert_eq!(change(&fixture, none, all).await, none);
}

/// Two callers each change one flag at the same time, on many topics.
async fn changes_side_by_side_are_all_kept(fixture: StoreFixture) {
    let names: Vec<_> = (0..40).map(|n| topic(&n.to_string())).collect();
    for (set, clear, end) in [(true, false, TopicPause::ALL), (false, true, TopicPause::NONE)] {
        let part = |pause: TopicPause, on: bool| if on { pause } else { TopicPause::NONE };
        let mut tasks = tokio::task::JoinSet::new();
        for name in &names {
            for flag in [DELIVERY, INTAKE] {
                let (store, name) = (fixture.store.clone(), name.clone());
                tasks.spawn(async move {
                    let now = store.change_pause(&name, part(flag, set), part(flag, clear)).await;
                    (flag, now.expect("changes"))
                });
            }
        }
        for (flag, now) in tasks.join_all().await {
            let kept = if flag.delivery { now.delivery } else { now.intake };
            assert_eq!(kept, set, "the answer shows the caller's own change: {now:?}");
        }
        for name in &names {
            assert_eq!(fixture.store.topic_config(name).pause, end, "{name}");
            let stats = fixture.store.topic(name).await.expect("reads").unwrap_or_default();
            assert_eq!(stats.config, TopicConfig { pause: end, ..TopicConfig::default() }, "{name}");
        }
    }
}

async fn what_is_resumed_completely_is_forgotten(fixture: StoreFixture) {
    change(&fixture, TopicPause::ALL, TopicPause::NONE).await;
    assert_eq!(fixture.store.topics(ALL, None, 10).await.expect("reads").len(), 1);
    change(&fixture, TopicPause::NONE, TopicPause::ALL).await;
    assert_eq!(fixture.store.topics(ALL, None, 10).await.expect("reads"), []);
    assert_eq!(fixture.store.topic(&topic("t")).await.expect("reads"), None);
}
