//! Lists of jobs whose ids are known, of all topics. Memory says where they stand, so that only those of the page are read.

use super::{
    list::{Candidate, Position, examine, parse_position},
    write_txn::WriteTxn,
};
use crate::{
    job::{JobId, State, Timestamp},
    store::{
        JobFilter, JobPage, ListPosition, Order,
        embedded::{
            memory::job_index::{IdHash, JobRef},
            rows::{db::SqlResult, key::RowKey},
        },
    },
};

/// Ids looked up in one step of the writer: some hundred microseconds. Tests cross many ends of steps.
pub(crate) const MAX_LOOKUPS: usize = if cfg!(test) { 3 } else { 2_000 };

/// Where a job stands in the list of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedJob {
    moment: Timestamp,
    key: RowKey,
    hash: IdHash,
    job_ref: JobRef,
}

/// The jobs in this state whose ids have the same hashes as these. Nearly all have these ids.
pub(crate) fn find_named(txn: &WriteTxn<'_>, state: State, ids: &[JobId]) -> Vec<NamedJob> {
    let index = txn.memory.job_index();
    let hashes = ids.iter().map(|id| index.hash(id.as_str().as_bytes()));
    let jobs = hashes.flat_map(|hash| index.candidates(hash).into_iter().map(move |job_ref| (hash, job_ref)));
    jobs.filter_map(|(hash, job_ref)| stand(txn, state, hash, job_ref)).collect()
}

/// Where a known job stands in the list of this state, if it is in it.
fn stand(txn: &WriteTxn<'_>, state: State, hash: IdHash, job_ref: JobRef) -> Option<NamedJob> {
    let key = job_ref.key;
    let moment = match txn.memory.lease(key) {
        Some(lease) if !job_ref.dead => lease.deadline,
        Some(_) | None => key.slot(),
    };
    (txn.memory.job_state(job_ref) == state).then_some(NamedJob { moment, key, hash, job_ref })
}

/// Those behind `after`, each once, in the order of the list.
pub(crate) fn in_order(mut jobs: Vec<NamedJob>, order: Order, after: Option<&ListPosition>) -> Vec<NamedJob> {
    jobs.sort_unstable();
    jobs.dedup();
    if order == Order::Descending {
        jobs.reverse();
    }
    let after = after.and_then(parse_position).and_then(|after| after.place());
    let is_passed = |job: &NamedJob| {
        after.is_some_and(|after| match order {
            Order::Ascending => (job.moment, job.key) <= after,
            Order::Descending => (job.moment, job.key) >= after,
        })
    };
    let passed = jobs.partition_point(is_passed);
    jobs.split_off(passed)
}

/// Reads such jobs until `limit` of them match. Those that moved since are left out.
pub(crate) fn list_named(
    txn: &mut WriteTxn<'_>,
    filter: &JobFilter,
    jobs: &[NamedJob],
    limit: usize,
) -> SqlResult<JobPage> {
    let stands = |job: &NamedJob| {
        let is_known = txn.memory.job_index().candidates(job.hash).contains(&job.job_ref);
        is_known && stand(txn, filter.state, job.hash, job.job_ref) == Some(*job)
    };
    let candidates: Vec<Candidate> = jobs
        .iter()
        .map(|job| (Position::of_key(job.moment, job.key), stands(job).then_some(job.key)))
        .collect();
    examine(txn, filter, &candidates, limit)
}
