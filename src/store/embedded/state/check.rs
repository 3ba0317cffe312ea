//! For tests: holds memory against the disk, and shows all of it for comparing.

use std::collections::BTreeMap;

use super::*;
use crate::store::embedded::{
    db::{Db, Table},
    topics::TopicState,
};

/// All that memory holds, in an order of its own.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    ids: Vec<(IdHash, Located)>,
    topics: Vec<TopicState>,
    window: Window,
    leases: Vec<(Key, TopicIx, Lease)>,
    deadlines: BTreeSet<(Timestamp, Key)>,
    delayed: u64,
    dead_since: Option<Timestamp>,
}

pub fn snapshot(state: &State) -> Snapshot {
    let mut ids: Vec<_> = (0..).map_while(|shard| state.ids.in_shard(shard)).flatten().collect();
    ids.sort();
    let mut leases: Vec<_> =
        state.leases.iter().map(|(key, (topic, lease))| (*key, *topic, lease.clone())).collect();
    leases.sort_by_key(|(key, _, _)| *key);
    Snapshot {
        ids,
        topics: state.topics.by_name(None).cloned().collect(),
        window: state.window.clone(),
        leases,
        deadlines: state.deadlines.clone(),
        delayed: state.delayed,
        dead_since: state.dead_since,
    }
}

/// Every row of the disk as `(key, dead) -> (id, topic)`.
pub fn rows(db: &Db) -> BTreeMap<(Key, bool), (String, String)> {
    let mut rows = BTreeMap::new();
    for table in [Table::Live, Table::Dead] {
        db.scan(table, (Key::from_bits(0), Key::END), usize::MAX, |key, columns| {
            let columns = columns.expect("sound columns");
            columns.verify().expect("a sound record");
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("is text");
            rows.insert((key, table == Table::Dead), (text(columns.id), text(columns.topic)));
        })
        .expect("scans");
    }
    rows
}

/// Memory says of every job what the disk says, and the window shows exactly what it should.
pub fn assert_consistent(state: &State, db: &Db) {
    let rows = rows(db);
    assert_eq!(state.ids.len(), rows.len(), "as many jobs in memory as on disk");
    let mut counts: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    let (mut delayed, mut seen) = (0, 0);
    for ((key, dead), (id, topic)) in &rows {
        let hash = state.ids.hash(id.as_bytes());
        let found = state.ids.candidates(hash).into_iter().find(|at| at.key == *key && at.dead == *dead);
        let at = found.unwrap_or_else(|| panic!("{id} at {key:?} is on disk but not in memory"));
        let of = state.topics.get(at.topic);
        assert_eq!(of.name.as_str(), topic, "{id}");
        let job_state = state.job_state(at);
        counts.entry(topic).or_default()[job_state as usize] += 1;
        let shown = of.soon.contains(key) && !dead;
        assert_eq!(
            shown,
            job_state == JobState::Delayed && *key < state.window.frontier(),
            "{id} in the window"
        );
        delayed += u64::from(job_state == JobState::Delayed);
        seen += u64::from(shown);
    }
    assert_eq!((state.delayed, state.window.len() as u64), (delayed, seen));
    for topic in state.topics.by_name(None) {
        let [delayed, ready, reserved, dead] = counts.remove(topic.name.as_str()).unwrap_or_default();
        assert_eq!(
            (topic.delayed, topic.ready.len() as u64, topic.reserved, topic.dead),
            (delayed, ready, reserved, dead),
            "{}",
            topic.name
        );
        assert!(!topic.is_forgettable(), "{} should be forgotten", topic.name);
    }
    assert!(counts.is_empty());
    let heads = state.topics.by_name(None).filter_map(|topic| topic.soon.first().copied());
    assert_eq!(state.window.head().map(|(key, _)| key), heads.min(), "the head is the first of all");
    let leases: BTreeMap<Key, Lease> = db.leases().expect("reads").into_iter().collect();
    let held: BTreeMap<Key, Lease> =
        state.leases.iter().map(|(key, (_, lease))| (*key, lease.clone())).collect();
    assert_eq!(held, leases);
    let deadlines: BTreeSet<_> = held.iter().map(|(key, lease)| (lease.deadline, *key)).collect();
    assert_eq!(state.deadlines, deadlines);
    assert!(state.journal.is_empty() && state.maybe_empty.is_empty(), "nothing is pending");
}
