//! Setting the clock of a store back, when it once went by a clock that was far ahead. Serves nothing.

use std::{collections::HashMap, time::Duration};

use super::open::StoreOpener;
use crate::{
    clock::Clock,
    job::{DueKind, RememberedId, Timestamp},
    metrics::Metrics,
    store::embedded::{
        disk::{commit_mark::CommitMark, data_dir::DataDir},
        options::{OpenError, Options},
        rows::{
            codec::Lease,
            db::{Db, SqlResult, Table},
            key::RowKey,
            meta::RunState,
        },
    },
};

/// What [`accept_clock`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedClock {
    /// By how much the store's clock was set back; zero if it was not ahead.
    pub set_back: Duration,
    /// The jobs whose due time was moved with it, so that they keep their remaining time.
    pub jobs: u64,
}

/// Sets the clock of the store in `options.data_dir` back to `clock`, in one transaction. Whatever waits for time to elapse
/// keeps its remaining time: delays, reservations, the retention of dead letters, and the windows of remembered ids.
///
/// # Errors
/// Why the store is unchanged; [`OpenError::Locked`] while a process serves it.
pub fn accept_clock(options: &Options, clock: &dyn Clock) -> Result<AcceptedClock, OpenError> {
    let metrics = Metrics::new().engine;
    let opener = StoreOpener::existing(options, clock, &metrics)?;
    let data_dir = DataDir::lock(&options.data_dir)?;
    let mut db = opener.open_db(&data_dir)?;
    let now = clock.read().rounded_up;
    let mark = db.clock_mark().map_err(|error| opener.sqlite(error))?;
    let Some(mark) = mark.filter(|mark| *mark > now) else {
        return Ok(AcceptedClock { set_back: Duration::ZERO, jobs: 0 });
    };
    let set_back = mark.since(now);
    let jobs = set_back_rows(&mut db, now, set_back).map_err(|error| opener.sqlite(error))?;
    let stored = CommitMark::after_commit(db.store_head(), options.durability).write(data_dir.lock_file());
    stored.map_err(|source| OpenError::Io { path: options.data_dir.clone(), source })?;
    Ok(AcceptedClock { set_back, jobs })
}

fn set_back_rows(db: &mut Db, now: Timestamp, set_back: Duration) -> SqlResult<u64> {
    let shift_ms = -i64::try_from(set_back.as_millis()).unwrap_or(i64::MAX);
    let shift = |moment: Timestamp| if moment > now { moment.shifted(shift_ms).max(now) } else { moment };
    db.begin()?;
    // The next start expects the log of this transaction.
    db.set_run_state(RunState::Open)?;
    let mut leases = HashMap::<RowKey, Lease>::new();
    for (key, lease) in db.leases()? {
        leases.extend(lease.map(|lease| {
            (key, Lease { deadline: shift(lease.deadline), since: shift(lease.since), ..lease })
        }));
    }
    let mut jobs = 0;
    for table in [Table::Live, Table::Dead] {
        for key in keys_after(db, table, now)? {
            // A record that cannot be read is set aside at the next start.
            let Ok(mut record) = db.read(table, key)? else { continue };
            if record.head.expiry().is_some_and(|expires_at| expires_at.kind == DueKind::Elapsed) {
                record.head.expires_at = record.head.expires_at.map(shift);
            }
            let waits = key.kind() == DueKind::Elapsed && key.slot() > now;
            let moment = match table {
                // Only its expiry moves.
                _ if !waits => key.slot(),
                Table::Live => {
                    record.head.set_due(shift(record.head.due_at), DueKind::Elapsed);
                    record.head.due_at
                }
                Table::Dead => {
                    record.head.dead_at = record.head.dead_at.map(shift);
                    shift(key.slot())
                }
            };
            db.delete(table, key)?;
            let moved = if waits { db.free_key(table, moment, DueKind::Elapsed)? } else { key };
            db.insert(table, moved, &record)?;
            // A dead letter may have the key of a reserved job: each table has its own.
            if table == Table::Live
                && let Some(lease) = leases.remove(&key)
            {
                db.delete_lease(key)?;
                leases.insert(moved, lease);
            }
            jobs += 1;
        }
    }
    for (key, lease) in &leases {
        db.set_lease(*key, lease)?;
    }
    set_back_remembered(db, shift)?;
    db.commit(now)?;
    Ok(jobs)
}

/// Ids are remembered for the rest of their windows, and not until the moment that the wrong clock would have shown.
fn set_back_remembered(db: &mut Db, shift: impl Fn(Timestamp) -> Timestamp) -> SqlResult<()> {
    let mut moved = Vec::new();
    db.for_each_remembered(b"", |remembered| {
        if let Ok(old) = remembered {
            let new = RememberedId { ended_at: shift(old.ended_at), until: shift(old.until), ..old.clone() };
            moved.extend((new != old).then_some(new));
        }
        true
    })?;
    moved.iter().try_for_each(|remembered| db.remember(remembered))
}

/// The keys of jobs that wait, or expire, when time has elapsed until after `now`.
fn keys_after(db: &Db, table: Table, now: Timestamp) -> SqlResult<Vec<RowKey>> {
    let is_after = |moment: Timestamp, kind| kind == DueKind::Elapsed && moment > now;
    let mut keys = Vec::new();
    db.scan(table, (RowKey::START, RowKey::END), usize::MAX, |key, columns| {
        let parts = columns.and_then(|columns| columns.verify_and_read_parts());
        let expires_at = parts.ok().and_then(|parts| parts.expires_at);
        let expires_later = expires_at.is_some_and(|expires_at| is_after(expires_at.moment, expires_at.kind));
        keys.extend((is_after(key.slot(), key.kind()) || expires_later).then_some(key));
    })?;
    Ok(keys)
}
