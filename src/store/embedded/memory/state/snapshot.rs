//! For tests: all that memory holds, for comparing, and a verification that must find nothing.

use std::collections::BTreeMap;

use super::*;
use crate::{
    job::Now,
    store::embedded::{
        memory::topics::TopicState,
        rows::records::{Db, Table},
        verify::online::{Faults, everything},
    },
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
        db.scan(table, (Key::START, Key::END), usize::MAX, |key, columns| {
            let columns = columns.expect("sound columns");
            columns.verify().expect("a sound record");
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("is text");
            rows.insert((key, table == Table::Dead), (text(columns.id), text(columns.topic)));
        })
        .expect("scans");
    }
    rows
}

/// A verification finds nothing, and nothing is pending.
pub fn assert_consistent(state: &State, db: &Db, now: Now) {
    let mut faults = Faults::default();
    everything(state, db, now, &mut faults);
    assert_eq!(faults.into_sentences(), [""; 0]);
    assert!(state.journal.is_empty() && state.maybe_empty.is_empty(), "nothing is pending");
    for topic in state.topics.by_name(None) {
        assert!(!topic.is_forgettable(), "{} should be forgotten", topic.name);
    }
}
