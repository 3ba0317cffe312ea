//! Remembered ids: what a finish or a delete leaves, and what an add finds.

use super::write_txn::WriteTxn;
use crate::{
    job::{IdEnd, RememberedId, Timestamp},
    store::{
        AddJob, Added, IfExists, Outcome, Put, Refusal, Result,
        embedded::{
            disk::disk_space::SpaceNeed,
            rows::{codec::RecordHead, db::SqlResult},
        },
    },
};

/// Lapsed ids that are removed with each new one, so that their number does not grow.
const FORGOTTEN_BESIDE: u64 = 4;
/// Most ids beyond the limit that one step removes, so that no step takes long.
const FORGOTTEN_AT_ONCE: u64 = 1_000;

/// Remembers the id of a job that ends, if its topic wants that. Without the disk space for it, the job ends all the same, and this
/// is counted.
pub(super) fn remember(txn: &mut WriteTxn<'_>, head: &RecordHead, end: IdEnd) -> SqlResult<()> {
    let Some(window) = head.spec.dedup else { return Ok(()) };
    if txn.check_space(SpaceNeed::Rewrite).is_err() {
        txn.effects.not_remembered += 1;
        return Ok(());
    }
    let remembered = RememberedId {
        id: head.id.clone(),
        topic: head.topic.clone(),
        end,
        ended_at: txn.now.rounded_down,
        until: txn.now.after(window.as_duration()),
        fingerprint: head.fingerprint,
        revision: head.spec.revision,
    };
    store(txn, &remembered)
}

/// Stores what is remembered of an id. Ids whose windows have passed make room for it, and beyond the limit those whose windows end
/// first.
fn store(txn: &mut WriteTxn<'_>, remembered: &RememberedId) -> SqlResult<()> {
    txn.db.forget_until(txn.now.rounded_down, FORGOTTEN_BESIDE)?;
    txn.db.remember(remembered)?;
    let most = txn.options.dedup_max.max(1);
    let excess = txn.db.remembered_count().saturating_sub(most).min(FORGOTTEN_AT_ONCE);
    if excess > 0 {
        txn.effects.forgotten_early += txn.db.forget_until(Timestamp::MAX, excess)?;
    }
    Ok(())
}

/// The outcome of an add whose id is remembered; `None` when the job is to be added.
pub(super) fn find_remembered(txn: &WriteTxn<'_>, job: &AddJob) -> SqlResult<Option<Outcome<Added>>> {
    if job.spec.dedup.is_none() {
        return Ok(None);
    }
    let Some(stored) = txn.db.remembered(&job.id)? else { return Ok(None) };
    if stored.until <= txn.now.rounded_down {
        return Ok(None);
    }
    let shown = RememberedId { ended_at: stored.ended_at.shifted(txn.wall_ahead_ms), ..stored };
    Ok(outcome(job, shown))
}

/// What an add finds whose id is remembered like this; `None` when the job is to be added.
fn outcome(job: &AddJob, stored: RememberedId) -> Option<Outcome<Added>> {
    if stored.topic != job.topic {
        return Some(Err(Refusal::EndedBefore(stored)));
    }
    if job.if_exists != IfExists::Keep {
        return match (job.spec.revision, stored.revision) {
            (Some(new), Some(old)) if new < old => Some(Err(Refusal::OlderRevision { stored: old })),
            (Some(new), Some(old)) if new == old => Some(match stored.end {
                IdEnd::Finished => Ok(Added::FinishedBefore(stored)),
                IdEnd::Deleted => Err(Refusal::EndedBefore(stored)),
            }),
            (Some(_) | None, _) => None,
        };
    }
    let is_repeat = stored.end == IdEnd::Finished && stored.fingerprint == job.fingerprint;
    Some(if is_repeat { Ok(Added::FinishedBefore(stored)) } else { Err(Refusal::EndedBefore(stored)) })
}

/// Whether there are as many ids as may be, and the windows of all others end later.
fn has_no_room_for(txn: &WriteTxn<'_>, remembered: &RememberedId) -> SqlResult<bool> {
    let is_full = txn.db.remembered_count() >= txn.options.dedup_max.max(1);
    Ok(is_full && txn.db.first_to_forget()?.is_some_and(|first| first >= remembered.until))
}

/// See [`crate::store::Store::put_remembered`].
pub(crate) fn put_remembered(txn: &mut WriteTxn<'_>, ids: &[RememberedId]) -> SqlResult<Result<Vec<Put>>> {
    let mut put = Vec::with_capacity(ids.len());
    for remembered in ids {
        let stored = txn.db.remembered(&remembered.id)?;
        let outcome = match stored {
            Some(stored) if stored == *remembered => Put::Exists,
            _ if remembered.until <= txn.now.rounded_down => Put::Exists,
            None if has_no_room_for(txn, remembered)? => Put::Differs,
            Some(stored) if stored.ended_at >= remembered.ended_at => Put::Differs,
            Some(_) | None => Put::Done,
        };
        if outcome == Put::Done {
            if let Err(full) = txn.check_space(SpaceNeed::Growth) {
                return Ok(Err(full));
            }
            store(txn, remembered)?;
        }
        put.push(outcome);
    }
    Ok(Ok(put))
}
