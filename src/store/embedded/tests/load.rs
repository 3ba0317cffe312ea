//! Loading: what is on disk comes into memory whole, however many records, and nothing that it should not trust.

use super::fixture::*;
use crate::{
    job::{Receipt, Timestamp, Topic},
    store::embedded::{
        memory::{
            job_index::Ids,
            state::{State, snapshot::assert_consistent},
        },
        recovery::load::{Unsound, read},
        rows::{
            codec::{Broken, Lease, Record},
            key::Key,
            records::{Db, Table},
            schema,
        },
    },
};

/// More than are handed over at once.
const JOBS: i64 = 5_000;
const TOPICS: i64 = 7;

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(START_MS + 1_000 * second)
}

fn put(db: &mut Db, table: Table, name: &str, second: i64) -> Key {
    let key = db.free_key(table, at(second)).expect("finds a key");
    let mut record: Record = record(name, at(second));
    record.head.topic = Topic::parse(&format!("topic-{}", second / (JOBS / TOPICS))).expect("a topic");
    record.head.dead_at = (table == Table::Dead).then(|| at(second));
    db.insert(table, key, &record).expect("inserts");
    key
}

fn lease(second: i64) -> Lease {
    Lease { deadline: at(second), receipt: Receipt::generate(), attempts: 1 }
}

fn loaded(ids: Ids, db: &Db) -> (State, Unsound) {
    let mut state = State::new(ids, Key::first_after(at(60)));
    let unsound = read(&mut state, db, at(9)).expect("reads");
    state.commit(|_, _| ());
    (state, unsound)
}

#[test]
fn every_record_of_many_comes_into_memory_also_when_all_hashes_collide() {
    for (ids, jobs) in [(Ids::new(), JOBS), (Ids::colliding(), 300)] {
        let mut db = Db::new(schema::in_memory());
        let keys: Vec<Key> = (0..jobs).map(|n| put(&mut db, Table::Live, &format!("live-{n}"), n)).collect();
        for n in 0..jobs / 2 {
            put(&mut db, Table::Dead, &format!("dead-{n}"), n);
        }
        db.put_lease(keys[5], &lease(30)).expect("reserves");
        let damaged = keys[keys.len() - 2];
        db.conn().execute("UPDATE rec SET head = x'00' WHERE key = ?1", [damaged.to_row()]).expect("updates");
        let (state, unsound) = loaded(ids, &db);
        assert_eq!(unsound.broken, [(Table::Live, damaged, Broken::HeadSum)]);
        assert!(unsound.stray_leases.is_empty(), "{unsound:?}");
        db.conn().execute("DELETE FROM rec WHERE key = ?1", [damaged.to_row()]).expect("deletes");
        assert_eq!(state.ids().len() + 1, keys.len() + keys.len() / 2);
        assert_eq!(state.lease(keys[5]).map(|lease| lease.deadline), Some(at(30)));
        let ready = state.topics().by_name(None).map(|topic| topic.ready.len()).sum::<usize>();
        assert_eq!(ready, 9, "ten were due when the clock was last seen, and one of them is reserved");
        assert_consistent(&state, &db, crate::job::Now { down: at(9), up: at(9) });
    }
}

#[test]
fn of_two_records_with_one_id_the_second_is_set_aside_and_its_reservation_void() {
    for ids in [Ids::new(), Ids::colliding()] {
        let mut db = Db::new(schema::in_memory());
        let first = put(&mut db, Table::Live, "twin", 1);
        for n in 2..100 {
            put(&mut db, Table::Live, &format!("job-{n}"), n);
        }
        let second = put(&mut db, Table::Live, "twin", 100);
        let dead = put(&mut db, Table::Dead, "twin", 100);
        db.put_lease(second, &lease(130)).expect("reserves");
        let (state, unsound) = loaded(ids, &db);
        let twins = [(Table::Live, second, Broken::Twin), (Table::Dead, dead, Broken::Twin)];
        assert_eq!(unsound.broken, twins);
        assert_eq!(unsound.stray_leases, [second]);
        assert_eq!(state.ids().len(), 99);
        assert!(state.ids().find_key(first, false).is_some());
    }
}
