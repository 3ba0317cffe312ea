//! Promotions that the writer makes by itself: at each deadline, and between groups of operations.

use std::{sync::Arc, time::Duration};

use rusqlite::Connection;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::fixture::*;
use crate::{
    clock::{Clock, SystemClock},
    job::{Outlet, State},
    store::{
        Listener, Move, MoveKind, Store,
        embedded::{EmbeddedStore, open},
    },
};

#[derive(Debug, PartialEq)]
enum Event {
    Ready,
    DueIn(Duration),
    Promoted(Vec<MoveKind>),
}

struct Sender(UnboundedSender<Event>);

impl Sender {
    fn send(&self, event: Event) {
        self.0.send(event).expect("the test receives until the store is closed");
    }
}

impl Listener for Sender {
    fn ready(&self, _: &Outlet) {
        self.send(Event::Ready);
    }

    fn due_in(&self, after: Duration) {
        self.send(Event::DueIn(after));
    }

    fn promoted(&self, moves: &[Move]) {
        self.send(Event::Promoted(moves.iter().map(|moved| moved.kind).collect()));
    }
}

/// Opens a store that promotes by itself from now on, `limit` jobs at a time.
async fn open_promoting(
    fixture: &Fixture,
    clock: Arc<dyn Clock>,
    limit: usize,
) -> (Arc<EmbeddedStore>, UnboundedReceiver<Event>) {
    let (sender, events) = unbounded_channel();
    let mut options = fixture.options.clone();
    options.promotes_by_itself = true;
    // Maintenance does not end the waits.
    options.idle_after = seconds(3_600);
    let metrics = fixture.metrics.engine.clone();
    let store = open(options, clock, Arc::new(Sender(sender)), metrics).await.expect("opens");
    let promoted = store.promote(limit).await.expect("promotes");
    assert_eq!(promoted.next_in, None);
    (store, events)
}

async fn ready(store: &EmbeddedStore) -> u64 {
    store.topic(&topic("t")).await.expect("reads").expect("is there").ready
}

#[tokio::test]
async fn an_idle_writer_promotes_at_each_deadline() {
    let (fixture, clock) = (Fixture::new(), Arc::new(SystemClock::new()));
    let (store, mut events) = open_promoting(&fixture, clock.clone(), 100).await;
    for (name, delay_ms) in [("a", 300), ("b", 20)] {
        add(&store, [delayed(name, Duration::from_millis(delay_ms))]).await;
    }
    for _ in 0..2 {
        // The store gets no call meanwhile.
        let promoted = async { (events.recv().await, events.recv().await) };
        let promoted = tokio::select! {
            promoted = promoted => promoted,
            () = clock.sleep(seconds(90)) => panic!("the writer does not promote"),
        };
        assert_eq!(promoted, (Some(Event::Ready), Some(Event::Promoted(vec![MoveKind::Ready]))));
    }
    store.close().await.expect("closes");
}

#[tokio::test]
async fn a_busy_writer_promotes_one_batch_before_each_group() {
    let fixture = Fixture::new();
    let (store, _events) = open_promoting(&fixture, fixture.clock.clone(), 2).await;
    add(&store, ["a", "b", "c", "d", "e"].map(|name| delayed(name, seconds(3_600)))).await;
    assert_eq!(ready(&store).await, 0);
    // Noticed only by the groups, because the writer waits in real time.
    fixture.clock.advance(seconds(3_600));
    assert_eq!(ready(&store).await, 2, "operations do not wait for all due jobs");
    assert!(ready(&store).await >= 4);
    assert_eq!(ready(&store).await, 5);
    consistent(&store).await;
    store.close().await.expect("closes");
}

#[tokio::test]
async fn after_a_failed_promotion_the_writer_waits_for_a_call() {
    let fixture = Fixture::new();
    let (store, mut events) = open_promoting(&fixture, fixture.clock.clone(), 100).await;
    add(&store, [job("a")]).await;
    reserve(&store, 1).await;
    sql(&store, "PRAGMA busy_timeout = 0").await;
    let state = async || store.get(ALL, &id("a")).await.expect("reads").expect("is there").state();
    let other = Connection::open(fixture.dir.path().join("linger.db")).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("locks");
    fixture.clock.advance(seconds(3_600));
    assert!(store.add(vec![job("b")]).await.is_err(), "nothing can be written");
    assert_eq!(events.try_recv(), Ok(Event::Ready), "of the add");
    assert_eq!(events.try_recv(), Ok(Event::DueIn(Duration::ZERO)));
    other.execute_batch("ROLLBACK").expect("unlocks");
    assert_eq!(state().await, State::Reserved);
    store.promote(100).await.expect("promotes");
    assert_eq!(state().await, State::Ready);
    reserve(&store, 1).await;
    fixture.clock.advance(seconds(3_600));
    assert_eq!(state().await, State::Ready, "it promotes by itself again");
    assert_eq!(events.try_recv(), Ok(Event::Ready), "of the call");
    assert_eq!(events.try_recv(), Ok(Event::Ready));
    assert_eq!(events.try_recv(), Ok(Event::Promoted(vec![MoveKind::TimedOut])));
    store.close().await.expect("closes");
}
