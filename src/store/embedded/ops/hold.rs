//! What the holder of a reservation does: finish, release, touch, bury, and the taking back of grants that
//! no client has seen.

use super::write_txn::{Found, Work};
use crate::{
    job::{Delay, JobId, Reason, Receipt, State, TopicFilter, Ttr},
    store::{
        FinishJob, Finished, Held, NotHeld, Release, Result,
        embedded::{
            disk::disk_space::Need,
            memory::{
                job_index::{IdHash, Located},
                state::Place,
            },
            rows::{
                codec::{Lease, Record},
                records::{Sql, Table},
            },
        },
    },
};

/// See [`crate::store::Store::finish`].
pub(in crate::store::embedded) fn finish(
    work: &mut Work<'_>,
    scope: &TopicFilter,
    jobs: &[FinishJob],
) -> Sql<Vec<Finished>> {
    jobs.iter().map(|job| finish_one(work, scope, job)).collect()
}

fn finish_one(work: &mut Work<'_>, scope: &TopicFilter, job: &FinishJob) -> Sql<Finished> {
    let held = job.receipt.as_ref().and_then(|receipt| held_under(work, scope, &job.id, receipt));
    let (hash, at) = match (held, &job.receipt) {
        (Some((hash, at, _)), _) => (hash, at),
        (None, receipt) => {
            let Some(found) = work.find_head(scope, &job.id)? else { return Ok(Finished::Gone) };
            if receipt.is_some() {
                return Ok(Finished::Lost);
            }
            if found.content.require_receipt {
                return Ok(Finished::ReceiptRequired);
            }
            if work.state.job_state(found.at) != State::Reserved {
                return Ok(Finished::NotReserved);
            }
            (found.hash, found.at)
        }
    };
    let topic = work.state.topics().get(at.topic).name.clone();
    work.take_out(hash, at)?;
    Ok(Finished::Done { topic })
}

/// See [`crate::store::Store::cancel`].
pub(in crate::store::embedded) fn cancel(work: &mut Work<'_>, grants: &[(JobId, Receipt)]) -> Sql<()> {
    for (id, receipt) in grants {
        // The record holds the attempts without this one, and its key its old place in the order.
        if let Some((_, at, _)) = held_under(work, &TopicFilter::ALL, id, receipt) {
            work.db.delete_lease(at.key)?;
            work.shift(at, Place::Ready { since: work.now.down });
        }
    }
    Ok(())
}

/// See [`crate::store::Store::release`]. The job is written anew.
pub(in crate::store::embedded) fn release(
    work: &mut Work<'_>,
    scope: &TopicFilter,
    id: &JobId,
    receipt: &Receipt,
    release: &Release,
) -> Sql<Result<Held>> {
    let (found, lease) = match find_held(work, scope, id, receipt)? {
        Ok(held) => held,
        Err(not_held) => return Ok(Ok(Err(not_held))),
    };
    if let Some(full) = work.no_room_for(Need::Rewrite) {
        return Ok(Err(full));
    }
    if found.content.head.is_used_up(lease.attempts) {
        return die(work, found, lease.attempts, release.reason.clone(), Reason::ATTEMPTS_USED).map(Ok);
    }
    let Found { hash, at, content: mut record } = found;
    let step = record.head.retry.after_release(lease.attempts);
    record.head.due_at = work.now.after(release.delay.map_or(step, Delay::as_duration));
    record.head.attempts = lease.attempts;
    record.head.reason = release.reason.clone();
    work.take_out(hash, at)?;
    let at = work.put_waiting(hash, at.topic, &record)?;
    Ok(Ok(Ok(work.to_job(at, &record))))
}

/// See [`crate::store::Store::touch`].
pub(in crate::store::embedded) fn touch(
    work: &mut Work<'_>,
    scope: &TopicFilter,
    id: &JobId,
    receipt: &Receipt,
    ttr: Option<Ttr>,
) -> Sql<Held> {
    let (found, lease) = match find_held(work, scope, id, receipt)? {
        Ok(held) => held,
        Err(not_held) => return Ok(Err(not_held)),
    };
    let ttr = ttr.unwrap_or(found.content.head.ttr);
    work.put_lease(found.at, Lease { deadline: work.now.after(ttr.as_duration()), ..lease })?;
    Ok(Ok(work.to_job(found.at, &found.content)))
}

/// See [`crate::store::Store::bury`]. The job is written anew.
pub(in crate::store::embedded) fn bury(
    work: &mut Work<'_>,
    scope: &TopicFilter,
    id: &JobId,
    receipt: &Receipt,
    reason: &Option<Reason>,
) -> Sql<Result<Held>> {
    let (found, lease) = match find_held(work, scope, id, receipt)? {
        Ok(held) => held,
        Err(not_held) => return Ok(Ok(Err(not_held))),
    };
    if let Some(full) = work.no_room_for(Need::Rewrite) {
        return Ok(Err(full));
    }
    die(work, found, lease.attempts, reason.clone(), Reason::BURIED).map(Ok)
}

fn die(
    work: &mut Work<'_>,
    found: Found<Record>,
    attempts: u32,
    reason: Option<Reason>,
    otherwise: &str,
) -> Sql<Held> {
    let Found { hash, at, content: mut record } = found;
    record.head.attempts = attempts;
    record.head.reason = reason.or_else(|| Reason::new(otherwise));
    work.take_out(hash, at)?;
    let at = work.put_dead(hash, at.topic, &mut record)?;
    Ok(Ok(work.to_job(at, &record)))
}

/// The job in `scope` reserved under `receipt`, from memory alone: 128 random bits and the hash of the id prove it as
/// well as the record's own id would.
fn held_under(
    work: &Work<'_>,
    scope: &TopicFilter,
    id: &JobId,
    receipt: &Receipt,
) -> Option<(IdHash, Located, Lease)> {
    let hash = work.state.ids().hash(id.as_str().as_bytes());
    work.state.ids().candidates(hash).into_iter().find_map(|at| {
        let lease = work.state.lease(at.key).filter(|lease| !at.dead && lease.receipt == *receipt)?;
        work.is_in(scope, at).then(|| (hash, at, lease.clone()))
    })
}

/// The record reserved under `receipt`; a broken one is set aside, and gone.
fn find_held(
    work: &mut Work<'_>,
    scope: &TopicFilter,
    id: &JobId,
    receipt: &Receipt,
) -> Sql<std::result::Result<(Found<Record>, Lease), NotHeld>> {
    let Some((hash, at, lease)) = held_under(work, scope, id, receipt) else {
        let exists = work.find_head(scope, id)?.is_some();
        return Ok(Err(if exists { NotHeld::Lost } else { NotHeld::Gone }));
    };
    match work.db.read(Table::Live, at.key)? {
        Ok(content) => Ok(Ok((Found { hash, at, content }, lease))),
        Err(why) => {
            work.set_aside(at.key, false, why)?;
            Ok(Err(NotHeld::Gone))
        }
    }
}
