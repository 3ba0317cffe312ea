//! Opening, closing, and what a crash leaves behind.

use std::time::Duration;

use super::fixture::*;
use crate::{
    clock::{Clock, ManualClock, SystemClock},
    job::{Pause, PausedOperations, State, Timestamp, TopicSettings, Ttr},
    store::{
        Error, JobFilter, Order, Steps, Store, TopicConfig, TopicUpdates,
        embedded::{Durability, OpenError},
    },
};

#[tokio::test]
async fn a_second_opening_of_the_directory_is_refused_and_names_it() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let refused = fixture.try_open().await.expect_err("is refused");
    assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
    assert!(refused.to_string().contains(fixture.dir.path().to_str().expect("is text")), "{refused}");
    add(&store, [job("a")]).await;
    store.close().await.expect("closes");
    assert_eq!(names(&reserve(&*fixture.open().await, 1).await), ["a"]);
}

#[tokio::test]
async fn an_unknown_format_and_foreign_files_are_refused_and_not_changed() {
    let fixture = Fixture::new();
    fixture.open().await.close().await.expect("closes");
    let path = fixture.dir.path().join("linger.db");
    let edit =
        |text: &str| rusqlite::Connection::open(&path).expect("opens").execute_batch(text).expect("runs");
    for (found, advice) in
        [(1, "drain it, or remove the data directory"), (3, "a newer one"), (0, "unknown format 0")]
    {
        edit(&format!("PRAGMA user_version = {found}"));
        let refused = fixture.try_open().await.expect_err("is refused");
        assert!(matches!(refused, OpenError::UnknownFormat { known: 2, .. }), "{refused}");
        let text = refused.to_string();
        assert!(text.contains("linger.db") && text.contains(advice), "{text}");
    }
    edit("PRAGMA user_version = 2");
    fixture.open().await.close().await.expect("closes");
    edit("PRAGMA application_id = 7");
    let refused = fixture.try_open().await.expect_err("is refused");
    assert!(matches!(refused, OpenError::NotOurs { .. }), "{refused}");
    let note = [b'x'; 5_000];
    std::fs::write(&path, note).expect("writes");
    let refused = fixture.try_open().await.expect_err("is refused");
    assert!(matches!(refused, OpenError::NotOurs { .. }), "{refused}");
    assert_eq!(std::fs::read(&path).expect("reads"), note);
}

#[tokio::test]
async fn everything_acknowledged_before_a_crash_is_there_after_it() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let one_try = crate::store::AddJob {
        spec: crate::job::JobSpec { max_attempts: 1, ..crate::job::JobSpec::default() },
        ..job("dead")
    };
    add(&store, [one_try, job("finished"), job("held"), job("ready"), job("released")]).await;
    add(&store, [delayed("soon", seconds(5)), delayed("far", seconds(40_000)), delayed("gone", seconds(1))])
        .await;
    let held = reserve(&store, 3).await;
    finish(&store, &held[1]).await;
    store.bury(ALL, &id("dead"), &held[0].receipt, None).await.expect("answers").expect("is held");
    store.delete(ALL, vec![id("gone")], DeleteRule::AnyState).await.expect("deletes");
    let pause = PausedOperations { delivery: true, intake: false };
    store.pause(&topic("t"), pause, Pause::ENDLESS).await.expect("puts");
    let settings = TopicSettings {
        ttr: Some(Ttr::new(seconds(5)).expect("valid")),
        max_attempts: Some(3),
        retry: Some(crate::job::RetrySchedule::new(vec![seconds(1), seconds(9)]).expect("valid")),
        require_receipt: true,
        ..TopicSettings::default()
    };
    store.put_settings(&topic("u"), settings.clone()).await.expect("puts");

    let crashed = fixture.crashed();
    let after = crashed.open().await;
    consistent(&after).await;
    for name in ["dead", "held", "ready", "released", "soon", "far"] {
        let was = store.get(ALL, &id(name)).await.expect("gets");
        assert_eq!(after.get(ALL, &id(name)).await.expect("gets"), was, "{name}");
        assert!(was.is_some());
    }
    for name in ["finished", "gone"] {
        assert_eq!(after.get(ALL, &id(name)).await.expect("gets"), None, "{name} does not come back");
    }
    assert_eq!(after.topic_config(&topic("t")).pause, pause.into());
    assert_eq!(*after.topic_config(&topic("u")), TopicConfig { settings, ..TopicConfig::default() });
    finish(&after, &held[2]).await;
    let stats = after.topic(&topic("t")).await.expect("reads").expect("is there");
    assert_eq!((stats.delayed, stats.ready, stats.reserved, stats.dead), (2, 2, 0, 1));
}

#[tokio::test]
async fn a_log_that_is_missing_after_a_crash_is_refused() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let copy = fixture.crashed();
    std::fs::remove_file(copy.dir.path().join("linger.db-wal")).expect("removes");
    // Also before the first change: the file itself is marked as in use.
    let refused = copy.try_open().await.expect_err("is refused");
    assert!(matches!(refused, OpenError::Incomplete { .. }), "{refused}");
    assert!(refused.to_string().contains("linger.db-wal"), "{refused}");
    assert!(copy.try_open().await.is_err(), "and stays refused");
    add(&store, [job("a")]).await;
    let emptied = fixture.crashed();
    std::fs::write(emptied.dir.path().join("linger.db-wal"), b"").expect("empties");
    assert!(matches!(emptied.try_open().await, Err(OpenError::Incomplete { .. })));
    // A clean stop needs no log.
    store.close().await.expect("closes");
    std::fs::remove_file(fixture.dir.path().join("linger.db-wal")).expect("removes");
    assert_eq!(names(&reserve(&*fixture.open().await, 1).await), ["a"]);
    // A log without its file does not make a new store.
    let crashed = fixture.crashed();
    std::fs::remove_file(crashed.dir.path().join("linger.db")).expect("removes");
    let refused = crashed.try_open().await.expect_err("is refused");
    assert!(matches!(refused, OpenError::Incomplete { .. }), "{refused}");
}

#[tokio::test]
async fn a_first_start_that_was_cut_short_is_begun_again() {
    let fixture = Fixture::new();
    std::fs::write(fixture.dir.path().join("linger.db"), b"").expect("writes");
    let store = fixture.open().await;
    add(&store, [job("a")]).await;
}

#[tokio::test]
async fn dropping_without_closing_neither_hangs_nor_loses() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [job("a")]).await;
    drop(store);
    let store = fixture.open().await;
    assert_eq!(names(&reserve(&store, 5).await), ["a"]);
    store.close().await.expect("closes");
    store.close().await.expect("and again");
    assert!(matches!(store.add(vec![job("b")]).await, Err(Error::Unavailable(_))));
    assert!(matches!(store.check().await, Err(Error::Unavailable(_))));
    assert!(matches!(
        store.list(&JobFilter::all(State::Dead), Order::Ascending, None, 1).await,
        Err(Error::Unavailable(_))
    ));
}

#[tokio::test]
async fn what_is_queued_when_it_is_closed_is_still_done() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let gate = Gate::close(&store).await;
    let all = tokio::join!(store.add(vec![job("a")]), store.close(), async {
        tokio::task::yield_now().await;
        gate.open().await;
    });
    assert_eq!((all.0.expect("adds").len(), all.1.is_ok()), (1, true));
    assert_eq!(names(&reserve(&*fixture.open().await, 5).await), ["a"]);
}

#[tokio::test]
async fn time_does_not_go_backwards_over_a_restart() {
    let mut fixture = Fixture::new();
    let store = fixture.open().await;
    fixture.clock.advance(seconds(1_000));
    add(&store, [job("a")]).await;
    let was = fixture.clock.now();
    drop(store);
    fixture.clock = ManualClock::new(Timestamp::from_millis(START_MS));
    let store = fixture.open().await;
    assert_eq!(fixture.clock.now(), was);
    let job = store.get(ALL, &id("a")).await.expect("gets").expect("is there");
    let shown = Timestamp::from_millis(START_MS);
    assert_eq!((job.state(), job.due_at), (State::Ready, shown), "by the machine's clock");
}

/// How many syncs have been measured.
fn syncs(fixture: &Fixture) -> u64 {
    let text = fixture.metrics.encode();
    let line = text.lines().find(|line| line.starts_with("linger_store_sync_duration_seconds_count"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("the figure is there")
}

#[tokio::test]
async fn an_interval_syncs_the_log_by_itself() {
    let mut fixture = Fixture::new();
    // The default of `embedded.sync_interval`.
    fixture.options.durability = Durability::Interval(Duration::from_millis(50));
    let store = fixture.open().await;
    for round in 1..=2 {
        add(&store, [job(&format!("job-{round}"))]).await;
        let clock = SystemClock::new();
        let synced = async {
            while syncs(&fixture) < round {
                clock.sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(seconds(20), synced).await.expect("the log is synced, and after each change");
    }
    store.close().await.expect("closes");
}

#[tokio::test]
async fn an_interval_syncs_the_log_at_the_end() {
    let mut fixture = Fixture::new();
    // Longer than any test, so that only the stop can be what syncs.
    fixture.options.durability = Durability::Interval(seconds(3_600));
    let store = fixture.open().await;
    add(&store, [job("a")]).await;
    assert_eq!(store.info().durability, "interval 3600000ms");
    assert_eq!(syncs(&fixture), 0);
    store.close().await.expect("closes");
    assert_eq!(syncs(&fixture), 1);
    fixture.options.durability = Durability::Always;
    let store = fixture.open().await;
    add(&store, [job("b")]).await;
    add(&store, [job("c")]).await;
    assert_eq!(syncs(&fixture), 3, "one a group");
}
