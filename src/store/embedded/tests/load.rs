//! Loading: all sound records get into memory, however many, and no unsound one does.

use super::fixture::*;
use crate::{
    job::{DueKind, Receipt, Timestamp, Topic},
    store::embedded::{
        memory::{job_index::JobIndex, state::Memory},
        recovery::load::{UnsoundRows, read},
        rows::{
            codec::{Lease, Record, RecordError},
            db::{Db, Table},
            key::RowKey,
            schema,
        },
        tests::snapshot::assert_consistent,
    },
};

/// More than one batch.
const JOBS: i64 = 5_000;
const TOPICS: i64 = 7;

fn second_after_start(second: i64) -> Timestamp {
    Timestamp::from_millis(START_MS + 1_000 * second)
}

fn put(db: &mut Db, table: Table, name: &str, second: i64) -> RowKey {
    let key = db.free_key(table, second_after_start(second), DueKind::Elapsed).expect("finds a key");
    let mut record: Record = record(name, second_after_start(second));
    record.head.topic = Topic::parse(&format!("topic-{}", second / (JOBS / TOPICS))).expect("a topic");
    record.head.dead_at = (table == Table::Dead).then(|| second_after_start(second));
    db.insert(table, key, &record).expect("inserts");
    key
}

fn lease(second: i64) -> Lease {
    let (deadline, since) = (second_after_start(second), second_after_start(0));
    Lease { deadline, receipt: Receipt::generate(), attempts: 1, since, by: Box::default() }
}

fn loaded(ids: JobIndex, db: &Db) -> (Memory, UnsoundRows) {
    let mut memory = Memory::new(ids);
    let unsound = read(&mut memory, db, second_after_start(9), second_after_start(9)).expect("reads");
    memory.commit(|_, _| ());
    (memory, unsound)
}

#[test]
fn every_record_of_many_comes_into_memory_also_when_all_hashes_collide() {
    for (ids, jobs) in [(JobIndex::new(), JOBS), (JobIndex::colliding(), 300)] {
        let mut db = Db::new(schema::in_memory());
        let keys: Vec<RowKey> =
            (0..jobs).map(|n| put(&mut db, Table::Live, &format!("live-{n}"), n)).collect();
        for n in 0..jobs / 2 {
            put(&mut db, Table::Dead, &format!("dead-{n}"), n);
        }
        db.set_lease(keys[5], &lease(30)).expect("reserves");
        let damaged = keys[keys.len() - 2];
        db.conn().execute("UPDATE rec SET head = x'00' WHERE key = ?1", [damaged.to_row()]).expect("updates");
        let (memory, unsound) = loaded(ids, &db);
        assert_eq!(unsound.broken, [(Table::Live, damaged, RecordError::HeadSum)]);
        assert!(unsound.stray_leases.is_empty(), "{unsound:?}");
        db.conn().execute("DELETE FROM rec WHERE key = ?1", [damaged.to_row()]).expect("deletes");
        assert_eq!(memory.job_index().len() + 1, keys.len() + keys.len() / 2);
        assert_eq!(memory.lease(keys[5]).map(|lease| lease.deadline), Some(second_after_start(30)));
        let ready = memory.topics().by_name().map(|(_, topic)| topic.ready.len()).sum::<usize>();
        assert_eq!(ready, 9, "ten were due when the clock was last seen, and one of them is reserved");
        assert_consistent(
            &memory,
            &db,
            crate::job::Now { rounded_down: second_after_start(9), rounded_up: second_after_start(9) },
        );
    }
}

#[test]
fn of_two_records_with_one_id_the_second_is_set_aside_and_its_reservation_void() {
    for ids in [JobIndex::new(), JobIndex::colliding()] {
        let mut db = Db::new(schema::in_memory());
        let first = put(&mut db, Table::Live, "twin", 1);
        for n in 2..100 {
            put(&mut db, Table::Live, &format!("job-{n}"), n);
        }
        let second = put(&mut db, Table::Live, "twin", 100);
        let dead = put(&mut db, Table::Dead, "twin", 100);
        db.set_lease(second, &lease(130)).expect("reserves");
        let (memory, unsound) = loaded(ids, &db);
        let twins =
            [(Table::Live, second, RecordError::DuplicateId), (Table::Dead, dead, RecordError::DuplicateId)];
        assert_eq!(unsound.broken, twins);
        assert_eq!(unsound.stray_leases, [second]);
        assert_eq!(memory.job_index().len(), 99);
        assert!(memory.job_index().find_by_key(first, false).is_some());
    }
}
