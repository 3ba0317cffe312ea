//! Copies of memory and of the rows to compare, and a verification that must find nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    job::{Now, Timestamp},
    store::{
        Totals,
        embedded::{
            memory::{
                job_index::{IdHash, JobRef},
                state::Memory,
                topics::{DelayedJobs, OutletNumber, OutletState},
            },
            rows::{
                codec::Lease,
                db::{Db, Table},
                key::RowKey,
            },
            verify::{findings::Findings, online::verify_all},
        },
    },
};

/// The whole content of memory, sorted.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    ids: Vec<(IdHash, JobRef)>,
    outlets: Vec<OutletState>,
    delayed: DelayedJobs,
    leases: Vec<(RowKey, OutletNumber, Lease)>,
    deadlines: BTreeSet<(Timestamp, RowKey)>,
    totals: Totals,
    earliest_death: Option<Timestamp>,
}

pub fn snapshot(memory: &Memory) -> Snapshot {
    let mut ids: Vec<_> = (0..).map_while(|shard| memory.job_index().in_shard(shard)).flatten().collect();
    ids.sort();
    let mut leases: Vec<_> = memory.leases().map(|(key, topic, lease)| (key, topic, lease.clone())).collect();
    leases.sort_by_key(|(key, _, _)| *key);
    Snapshot {
        ids,
        outlets: memory.topics().outlets().map(|(_, state)| state.clone()).collect(),
        delayed: memory.delayed().clone(),
        leases,
        deadlines: memory.deadlines().clone(),
        totals: memory.totals(),
        earliest_death: memory.earliest_death(),
    }
}

/// Every record on disk as `(key, dead) -> (id, topic)`.
pub fn rows(db: &Db) -> BTreeMap<(RowKey, bool), (String, String)> {
    let mut rows = BTreeMap::new();
    for table in [Table::Live, Table::Dead] {
        db.scan(table, (RowKey::START, RowKey::END), usize::MAX, |key, columns| {
            let columns = columns.expect("sound columns");
            columns.verify_and_read_parts().expect("a sound record");
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("is text");
            rows.insert((key, table == Table::Dead), (text(columns.id), text(columns.topic)));
        })
        .expect("scans");
    }
    rows
}

/// Asserts that a verification finds nothing, and that no change is pending.
pub fn assert_consistent(memory: &Memory, db: &Db, now: Now) {
    let mut faults = Findings::default();
    verify_all(memory, db, now, &mut faults);
    assert_eq!(faults.into_sentences(), [""; 0]);
    assert!(!memory.has_pending_changes(), "nothing is pending");
    for (_, state) in memory.topics().outlets() {
        assert!(!state.is_forgettable(), "{} should be forgotten", state.outlet);
    }
}
