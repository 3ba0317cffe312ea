//! Broken records, full file systems, and files that must not grow.

use std::sync::{Arc, atomic::Ordering};

use super::fixture::*;
use crate::{
    clock::Clock,
    job::{Body, NoteText, State, Ttr},
    store::{
        AddJob, ChangeJob, Error, FinishJob, JobChange, JobFilter, MoveKind, Order, SeenJob, Step,
        StepAction, Steps, Store, Touch,
        embedded::{
            start::Start,
            tests::snapshot::assert_consistent,
            writer::{commit::Writer, write_queue::WaitFor},
        },
    },
};

/// Damage of one record, as a decaying medium causes it.
const HEAD: &str = "UPDATE rec SET head = zeroblob(length(head)) WHERE id = ";
const BODY: &str = "UPDATE rec SET body = CAST('\"other\"' AS BLOB) WHERE id = ";

#[tokio::test]
async fn a_broken_record_is_set_aside_and_stops_nothing() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let names_of = ["a", "b", "c"].map(job);
    add(&store, names_of).await;
    sql(&store, &format!("{HEAD}'a'")).await;
    sql(&store, &format!("{BODY}'b'")).await;
    assert_eq!(names(&reserve(&store, 3).await), ["c"]);
    assert_eq!(fixture.set_aside(), 2);
    consistent(&store).await;
    assert_eq!(store.get(ALL, &id("a")).await.expect("gets"), None);
    let stats = store.topic(&topic("t")).await.expect("reads").expect("is there");
    assert_eq!((stats.ready, stats.reserved), (0, 1));
    // Its bytes are kept, and the id may be used again.
    let kept = store.run(|txn| {
        let conn = txn.db.conn();
        conn.query_row("SELECT count(*) FROM broken WHERE id IN ('a', 'b')", [], |row| row.get::<_, i64>(0))
    });
    assert_eq!(kept.await.expect("reads"), 2);
    add(&store, [job("a")]).await;
}

#[tokio::test]
async fn a_record_without_a_readable_name_is_set_aside_too() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [job("a"), job("b")]).await;
    sql(&store, "UPDATE rec SET id = 'someone else' WHERE id = 'a'").await;
    assert_eq!(names(&reserve(&store, 3).await), ["b"]);
    assert_eq!(fixture.set_aside(), 1);
    consistent(&store).await;
}

#[tokio::test]
async fn a_damaged_reservation_ends_and_its_job_is_handed_out_again() {
    for damage in [
        "deadline_ms = deadline_ms + 1",
        "since_ms = 0",
        "by = 'me'",
        "receipt = zeroblob(16)",
        "checksum = x''",
    ] {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        add(&store, [job("a"), job("b")]).await;
        let held = reserve(&store, 2).await;
        sql(&store, &format!("UPDATE lease SET {damage} WHERE key = (SELECT key FROM rec WHERE id = 'a')"))
            .await;
        store.close().await.expect("closes");
        let store = fixture.open().await;
        finish(&store, &held[1]).await;
        let again = reserve(&store, 2).await;
        assert_eq!(names(&again), ["a"], "{damage}");
        finish(&store, &again[0]).await;
        consistent(&store).await;
    }
}

#[tokio::test]
async fn without_its_mark_the_clock_is_the_systems() {
    let another_year = "value = x'000001ffffffffff'";
    for damage in [
        &format!("UPDATE meta SET {another_year} WHERE name = 'clock'"),
        "UPDATE meta SET value = 'text' WHERE name = 'clock'",
        "UPDATE meta SET name = 'clocl' WHERE name = 'clock'",
    ] {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        add(&store, [delayed("a", seconds(60)), job("b")]).await;
        sql(&store, damage).await;
        let crashed = fixture.crashed();
        let store = crashed.open().await;
        let stats = store.topic(&topic("t")).await.expect("reads").expect("is there");
        assert_eq!((stats.delayed, stats.ready), (1, 1), "{damage}");
        assert_eq!(names(&reserve(&store, 2).await), ["b"], "nothing is early");
        let faults = store.verify().await.expect("reads").faults;
        assert_eq!(faults, Vec::<String>::new(), "the mark is there again");
    }
}

#[tokio::test]
async fn a_missing_row_is_noticed() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [job("a"), job("b")]).await;
    sql(&store, "DELETE FROM rec WHERE id = 'a'").await;
    assert_eq!(names(&reserve(&store, 3).await), ["b"]);
    assert_eq!(fixture.set_aside(), 1);
    consistent(&store).await;
}

#[tokio::test]
async fn broken_records_never_stop_the_timer() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, ["held-bad", "held"].map(job)).await;
    reserve(&store, 2).await;
    add(&store, ["far-bad", "far-1", "far-2", "far-3", "far-4"].map(|name| delayed(name, seconds(4_000))))
        .await;
    sql(&store, &format!("{HEAD}'held-bad'; {HEAD}'far-bad'; {BODY}'far-3'")).await;
    fixture.clock.advance(seconds(4_000));
    let promoted = store.promote(100).await.expect("promotes");
    assert_eq!((fixture.set_aside(), promoted.more), (1, false), "only a reservation that timed out is read");
    let moves: Vec<_> = promoted.moves.iter().map(|moved| moved.kind).collect();
    assert_eq!(moves.iter().filter(|kind| **kind == MoveKind::TimedOut).count(), 1);
    assert_eq!(moves.iter().filter(|kind| **kind == MoveKind::Ready).count(), 5);
    let granted = reserve(&store, 10).await;
    let mut granted = names(&granted);
    granted.sort_unstable();
    assert_eq!(
        granted,
        ["far-1", "far-2", "far-4", "held"],
        "a broken record is found before it is delivered"
    );
    assert_eq!(fixture.set_aside(), 3);
    consistent(&store).await;
}

#[tokio::test]
async fn broken_records_are_found_when_the_store_is_opened() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, ["a", "b", "c", "d", "e", "f", "g"].map(job)).await;
    let held = reserve(&store, 7).await;
    for grant in &held[4..] {
        store.bury(ALL, &grant.job.id, &grant.receipt, None).await.expect("answers").expect("is held");
    }
    sql(&store, &format!("{HEAD}'a'")).await;
    sql(&store, "UPDATE dead SET topic = 'u' WHERE id = 'f'").await;
    store.close().await.expect("closes");
    let store = fixture.open().await;
    assert_eq!(fixture.set_aside(), 2);
    consistent(&store).await;
    let stats = store.topic(&topic("t")).await.expect("reads").expect("is there");
    assert_eq!((stats.reserved, stats.dead), (3, 2));
    assert_eq!(store.topic(&topic("u")).await.expect("reads"), None);
}

#[tokio::test]
async fn a_broken_dead_letter_is_neither_read_nor_requeued() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, ["a", "b", "c"].map(job)).await;
    for grant in reserve(&store, 3).await {
        store.bury(ALL, &grant.job.id, &grant.receipt, None).await.expect("answers").expect("is held");
    }
    let listed = async || {
        let filter = JobFilter { topic: Some(topic("t")), ..JobFilter::all(State::Dead) };
        store.list(&filter, Order::Ascending, None, 10).await.expect("lists").jobs
    };
    sql(&store, "UPDATE dead SET body = zeroblob(3) WHERE id = 'a'").await;
    assert_eq!(store.get(ALL, &id("a")).await.expect("gets"), None);
    assert_eq!(fixture.set_aside(), 1);
    sql(&store, "UPDATE dead SET head = zeroblob(3) WHERE id = 'b'").await;
    let left = listed().await;
    assert_eq!(left.iter().map(|listed| listed.job.id.as_str()).collect::<Vec<_>>(), ["c"]);
    let requeue = JobChange::Requeue(crate::job::Due::default().into());
    let changed =
        store.change(vec![ChangeJob { seen: SeenJob::new(&left[0].job), change: requeue }], None).await;
    assert_eq!(changed.expect("answers"), [true]);
    assert_eq!(names(&reserve(&store, 3).await), ["c"]);
    consistent(&store).await;
}

#[tokio::test]
async fn adds_stop_before_the_disk_is_full_and_everything_else_goes_on() {
    let (fixture, free) = Fixture::on_a_small_disk();
    let store = fixture.open().await;
    add(&store, ["a", "b", "c"].map(job)).await;
    let held = reserve(&store, 2).await;
    free.store(499, Ordering::Relaxed);
    let refused = store.add(vec![job("d")]).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    finish(&store, &held[0]).await;
    store.bury(ALL, &id("b"), &held[1].receipt, None).await.expect("answers").expect("is held");
    store.delete(ALL, vec![id("c")], DeleteRule::AnyState).await.expect("deletes");
    store.check().await.expect("takes writes");
    free.store(500, Ordering::Relaxed);
    add(&store, [job("d")]).await;
    consistent(&store).await;
}

/// A heartbeat matters more than its note.
#[tokio::test]
async fn on_a_full_disk_a_touch_extends_and_leaves_the_note_as_it_is() {
    let (fixture, free) = Fixture::on_a_small_disk();
    let store = fixture.open().await;
    add(&store, ["a", "b"].map(job)).await;
    let held = reserve(&store, 2).await;
    let noting = |text| Touch { ttr: Ttr::new(seconds(600)).ok(), note: NoteText::new(text) };
    let touched = async |text| {
        let step = |held: &crate::store::Reservation| {
            Step::unscoped(held.job.id.clone(), StepAction::Touch(held.receipt.clone(), noting(text)), None)
        };
        let jobs = store.hold(held.iter().map(step).collect()).await.expect("answers").into_iter();
        jobs.map(|job| job.expect("is held")).collect::<Vec<_>>()
    };
    let first = touched("there was room").await;
    assert!(first.iter().all(|job| job.note.is_some()));
    // Below min_free, and then below all that a rewrite needs.
    for bytes in [499, 124] {
        free.store(bytes, Ordering::Relaxed);
        fixture.clock.advance(seconds(60));
        for (job, before) in touched("there is none").await.iter().zip(&first) {
            assert_eq!(job.note, before.note, "at {bytes}");
            let until = fixture.clock.now().after(seconds(600));
            assert_eq!(job.reserved_until(), Some(until), "at {bytes}");
        }
    }
    free.store(500, Ordering::Relaxed);
    assert!(touched("there is again").await.iter().zip(&first).all(|(job, before)| job.note != before.note));
    consistent(&store).await;
}

/// A promotion must fit into the log, however large the jobs are.
#[tokio::test]
async fn promotions_of_many_large_jobs_are_bounded_in_bytes() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let large = |n: usize| {
        let body = Body::from_stored(format!("\"{}\"", "x".repeat(250_000)).into());
        AddJob { body, ..job(&format!("large-{n}")) }
    };
    add(&store, (0..60).map(large)).await;
    assert_eq!(reserve(&store, 60).await.len(), 60);
    fixture.clock.advance(seconds(3_600));
    let first = store.promote(1_000).await.expect("promotes");
    assert!((10..30).contains(&first.moves.len()) && first.more, "{} at once", first.moves.len());
    let mut moved = first.moves.len();
    while moved < 60 {
        moved += store.promote(1_000).await.expect("promotes").moves.len();
    }
    consistent(&store).await;
}

fn bulky(n: usize) -> AddJob {
    let body = Body::from_stored(format!("\"{}\"", "x".repeat(4_000)).into());
    AddJob { body, ..job(&format!("bulky-{n}")) }
}

/// Length of `linger.db` before and after a backlog of about 20 MB was worked off and the writer was idle.
#[tokio::test]
async fn space_is_used_again_and_handed_back_when_idle() {
    const JOBS: usize = 5_000;
    let mut fixture = Fixture::new();
    // On a busy machine the writer may wait for this test for so long that it would count as idle.
    let idle_after = std::mem::replace(&mut fixture.options.idle_after, seconds(3_600));
    let store = fixture.open().await;
    let round = async |part: usize| {
        for n in 0..JOBS / 100 {
            add(&store, (n * 100..n * 100 + 100).map(|n| bulky(n + part * JOBS))).await;
        }
        loop {
            let held = reserve(&store, 100).await;
            if held.is_empty() {
                break;
            }
            let finish = |held: &crate::store::Reservation| FinishJob {
                id: held.job.id.clone(),
                receipt: Some(held.receipt.clone()),
            };
            store.finish(ALL, held.iter().map(finish).collect()).await.expect("finishes");
        }
    };
    round(0).await;
    let pages =
        || store.run(|txn| txn.db.conn().pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0)));
    let after_one = pages().await.expect("reads");
    assert!(after_one > 5_000, "the backlog took room: {after_one} pages");
    round(1).await;
    let after_two = pages().await.expect("reads");
    assert!(
        after_two <= after_one + after_one / 10,
        "the room is used again: {after_one}, {after_two} pages"
    );
    store.close().await.expect("closes");
    drop(store);
    let before = length(fixture.dir.path(), "linger.db");
    fixture.options.idle_after = idle_after;
    let mut writer = writer(&fixture);
    // The maintenance of an idle writer.
    let mut steps = 0;
    loop {
        match writer.do_maintenance() {
            WaitFor::Forever => break,
            WaitFor::None => steps += 1,
            WaitFor::AtMost(_) => std::thread::yield_now(),
        }
    }
    assert!(steps > 10, "in small steps: {steps}");
    let after = length(fixture.dir.path(), "linger.db");
    assert!(before > 20 << 20 && after < 4 << 20, "{before} bytes before, {after} after");
    assert_consistent(&writer.memory, &writer.db, fixture.clock.read());
}

#[tokio::test]
async fn the_log_starts_over_while_it_is_written_to() {
    let fixture = Fixture::new();
    let mut writer = writer(&fixture);
    for n in 0..200 {
        // About a megabyte a group. Wait for the checkpoint thread, as on a machine that is not overloaded.
        let change = |txn: &mut crate::store::embedded::ops::write_txn::WriteTxn<'_>| {
            crate::store::embedded::ops::add(txn, &(n * 200..n * 200 + 200).map(bulky).collect::<Vec<_>>())
        };
        writer.transact(change).expect("writes").0.expect("there is room");
        writer.after_group();
        while writer.checkpoints.is_working() {
            std::thread::yield_now();
        }
    }
    let wal = length(fixture.dir.path(), "linger.db-wal");
    assert!(wal < 24 << 20, "about 160 MB went through a log of {wal} bytes");
    assert_consistent(&writer.memory, &writer.db, fixture.clock.read());
}

/// Each group writes more than the writer copies by itself while the log is short, and no group waits for the checkpoint
/// thread: while that copies, the log grows.
#[tokio::test]
async fn no_load_makes_the_log_grow_without_bound() {
    const MIB: u64 = 1 << 20;
    let fixture = Fixture::new();
    let mut writer = writer(&fixture);
    let large = |n: usize| {
        let body = Body::from_stored(format!("\"{}\"", "x".repeat(1_000_000)).into());
        AddJob { body, ..job(&format!("large-{n}")) }
    };
    for group in 0..24 {
        let jobs: Vec<AddJob> = (group * 8..group * 8 + 8).map(large).collect();
        writer
            .transact(|txn| crate::store::embedded::ops::add(txn, &jobs))
            .expect("writes")
            .0
            .expect("is room");
        writer.after_group();
        let wal = length(fixture.dir.path(), "linger.db-wal");
        assert!(wal < 160 * MIB, "a log of {} MiB after {} MiB", wal / MIB, (group + 1) * 8);
    }
    assert_consistent(&writer.memory, &writer.db, fixture.clock.read());
}

/// A writer on the test's own thread.
fn writer(fixture: &Fixture) -> Writer {
    let start = Start {
        options: Arc::new(fixture.options.clone()),
        clock: fixture.clock.clone(),
        listener: Arc::new(NoopListener),
        metrics: fixture.metrics.engine.clone(),
    };
    start.open().expect("opens").0
}
