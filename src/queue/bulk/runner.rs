//! The task of a bulk operation: walks the list of its jobs and changes them slice by slice.

use std::{collections::HashSet, sync::Arc, time::Duration};

use xxhash_rust::xxh3::xxh3_64;

use super::{
    super::{
        ended::{EndKind, Ended, EndedJobs},
        error::Error,
    },
    operation::{Operation, OperationState},
};
use crate::{
    clock::Clock,
    job::{Actor, Job, JobId, State, Timestamp},
    metrics::{Event, QueueMetrics},
    store::{self, ChangeJob, JobChange, ListPosition, ListedJob, Minute, Span, Steps, Store},
};

/// Jobs listed by one step, which changes them in parts of at most [`PART_BYTES`], so that other operations are not delayed
/// for long.
pub(in crate::queue) const SLICE: usize = 100;
/// About how many bytes of bodies one change writes at most.
const PART_BYTES: u64 = 4 << 20;
/// Jobs counted by one step.
const COUNT_SLICE: usize = 1_000;
/// How many jobs a dry run shows.
const EXAMPLES: usize = 10;

/// Runs one operation.
pub(super) struct Runner {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub metrics: QueueMetrics,
    pub ended: Arc<EndedJobs>,
    pub operation: Arc<Operation>,
}

/// Ends an operation whose task panics, so that it does not seem to run for ever.
struct EndOnDrop<'a>(&'a Runner);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        let Runner { operation, clock, .. } = self.0;
        if operation.is_running() {
            let error = "the operation failed because of an internal error".to_owned();
            operation.end(OperationState::Failed, Some(error), clock.wall_now());
        }
    }
}

/// How far the walk has come.
#[derive(Default)]
struct Walk {
    position: Option<ListPosition>,
    /// Hashes of the ids that were changed, if the walk may meet them again: some 20 bytes a job. Two ids share one with a
    /// probability of 3 in a million among ten million jobs; the second one would then be left alone.
    changed: HashSet<u64>,
}

impl Runner {
    pub async fn run(self) {
        let request = &self.operation.request;
        let (id, action, by) = (self.operation.id.as_str(), request.action.as_str(), &*request.by);
        let topic = request.filter.topic.as_ref().map(|topic| topic.as_str());
        if !request.is_dry_run() {
            let state = request.filter.state.as_str();
            tracing::info!(
                operation = id,
                action,
                by,
                topic,
                state,
                limit = request.limit,
                "a bulk operation begins"
            );
        }
        let _end = EndOnDrop(&self);
        let (state, error) = match self.walk().await {
            Ok(state) => (state, None),
            Err(error) => (OperationState::Failed, Some(error)),
        };
        let progress = self.operation.progress();
        if !request.is_dry_run() {
            let (changed, skipped, state) = (progress.changed, progress.skipped, state.as_str());
            let error = error.as_ref().map(tracing::field::display);
            tracing::info!(
                operation = id,
                action,
                by,
                topic,
                changed,
                skipped,
                state,
                error,
                "a bulk operation ended"
            );
        }
        // The cause is for the log; callers see the same text as in the response of any other call.
        let error = error.map(|error| Error::from(error).to_string());
        self.operation.end(state, error, self.clock.wall_now());
    }

    async fn walk(&self) -> store::Result<OperationState> {
        if self.operation.request.is_dry_run() && self.count_at_once().await? {
            return Ok(OperationState::Done);
        }
        let mut walk = Walk::default();
        loop {
            if self.operation.stop_token().is_cancelled() {
                return Ok(OperationState::Stopped);
            }
            let start_us = self.clock.now_micros();
            if self.step(&mut walk).await? {
                return Ok(OperationState::Done);
            }
            // As long as the step took, so that the operation uses at most half of the store's time.
            let took_us = self.clock.now_micros().saturating_sub(start_us).unsigned_abs();
            tokio::select! {
                () = self.operation.stop_token().cancelled() => {}
                () = self.clock.sleep(Duration::from_micros(took_us)) => {}
            }
        }
    }

    /// One slice. Returns whether it was the last.
    async fn step(&self, walk: &mut Walk) -> store::Result<bool> {
        let request = &self.operation.request;
        let left = request.limit.map(|limit| limit - self.operation.progress().changed);
        let slice = left.map_or(COUNT_SLICE, |left| SLICE.min(usize::try_from(left).unwrap_or(SLICE)));
        let page = self.store.list(&request.filter, request.order(), walk.position.as_ref(), slice).await?;
        let jobs: Vec<ListedJob> =
            page.jobs.into_iter().filter(|listed| !walk.changed.contains(&hash(&listed.job.id))).collect();
        self.operation.update(|progress| progress.matched += jobs.len() as u64);
        match left {
            None => self.show(&jobs),
            Some(_) => {
                for part in parts_of(&jobs) {
                    self.change(walk, part).await?;
                }
            }
        }
        walk.position = page.next;
        let is_full = request.limit.is_some_and(|limit| self.operation.progress().changed >= limit);
        Ok(walk.position.is_none() || is_full)
    }

    async fn change(&self, walk: &mut Walk, jobs: &[ListedJob]) -> store::Result<()> {
        let request = &self.operation.request;
        let changes: Vec<ChangeJob> = jobs.iter().map(|listed| request.change(listed)).collect();
        let by = Actor::abridged(&request.by);
        let results = self.store.change(changes.clone(), by.as_ref()).await?;
        let (mut changed, mut skipped) = (0, 0);
        for ((listed, change), is_changed) in jobs.iter().zip(&changes).zip(results) {
            if !is_changed {
                skipped += 1;
                continue;
            }
            changed += 1;
            self.count_event(&listed.job, change, by.as_ref());
            if request.may_meet_again() {
                walk.changed.insert(hash(&change.seen.id));
            }
        }
        self.operation.update(|progress| {
            progress.changed += changed;
            progress.skipped += skipped;
        });
        Ok(())
    }

    /// Counts the change of a job as the same change of that job alone is counted.
    fn count_event(&self, job: &Job, ChangeJob { seen, change }: &ChangeJob, by: Option<&Actor>) {
        let topic = seen.topic.as_str();
        let is_revoked = matches!(change, JobChange::Revoke { .. });
        // The reservation was of an older version, which is gone.
        if is_revoked && job.waits_for_older() {
            return;
        }
        if is_revoked && job.spec.has_used_all_attempts(job.attempts) {
            self.metrics.count(Event::Buried, topic, 1);
        } else if change.makes_due(self.store.now()) {
            self.metrics.count(Event::Due, topic, 1);
        }
        let event = match change {
            JobChange::Delete => {
                let ended = Ended { how: EndKind::Deleted, at: self.clock.wall_now(), by: by.cloned() };
                self.ended.push(seen.id.clone(), seen.topic.clone(), ended);
                Event::Deleted
            }
            JobChange::Requeue(_) => Event::Requeued,
            JobChange::Revoke { .. } => Event::Released,
            JobChange::Reschedule(_) => return,
        };
        self.metrics.count(event, topic, 1);
    }

    /// Keeps the first jobs, to show them.
    fn show(&self, jobs: &[ListedJob]) {
        self.operation.update(|progress| {
            let missing = EXAMPLES.saturating_sub(progress.examples.len());
            if missing > 0 {
                progress.examples =
                    progress.examples.iter().chain(jobs.iter().take(missing)).cloned().collect();
            }
        });
    }

    /// Counts the jobs of a dry run by the counts that the store keeps, if they tell. Returns whether they did.
    async fn count_at_once(&self) -> store::Result<bool> {
        let filter = &self.operation.request.filter;
        if filter.examines_jobs() {
            return Ok(false);
        }
        let matched = match (filter.from, filter.to) {
            (None, None) => {
                let any = Span::new(Minute::containing(self.clock.now()), 1, 1).expect("a minute is a span");
                self.store.timeline(filter.topic.as_ref(), any).await?.totals.count(filter.state)
            }
            (Some(from), Some(to)) if filter.state == State::Delayed => {
                let Some(span) = whole_minutes(from, to) else { return Ok(false) };
                self.store.timeline(filter.topic.as_ref(), span).await?.counts.iter().sum()
            }
            // The timeline does not tell how its other jobs divide into earlier and later ones.
            _ => return Ok(false),
        };
        let order = self.operation.request.order();
        let first = self.store.list(filter, order, None, EXAMPLES).await?;
        self.operation.update(|progress| progress.matched = matched);
        self.show(&first.jobs);
        Ok(true)
    }
}

/// The time between two moments as one step of a timeline, if both begin a minute and it is not too long.
fn whole_minutes(from: Timestamp, to: Timestamp) -> Option<Span> {
    let (first, end) = (Minute::containing(from), Minute::containing(to));
    let are_whole = first.start() == from && end.start() == to;
    let minutes = end.0.checked_sub(first.0).filter(|_| are_whole)?;
    Span::new(first, minutes, 1)
}

/// Divides jobs so that the bodies of each part have at most [`PART_BYTES`], or it is a single job.
pub(in crate::queue) fn parts_of(jobs: &[ListedJob]) -> Vec<&[ListedJob]> {
    let (mut parts, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, listed) in jobs.iter().enumerate() {
        if index > start && bytes + listed.body_bytes > PART_BYTES {
            parts.push(&jobs[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += listed.body_bytes;
    }
    parts.extend((start < jobs.len()).then(|| &jobs[start..]));
    parts
}

fn hash(id: &JobId) -> u64 {
    xxh3_64(id.as_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, JobState, Timestamp};

    fn listed(body_bytes: u64) -> ListedJob {
        let now = Timestamp::from_millis(0);
        let job = Job { id: JobId::generate(), ..Job::sample(JobState::Dead(now), now) };
        ListedJob { job, body_bytes }
    }

    #[test]
    fn a_change_writes_a_bounded_number_of_bytes() {
        let lengths = |sizes: &[u64]| {
            let jobs: Vec<ListedJob> = sizes.iter().map(|bytes| listed(*bytes)).collect();
            parts_of(&jobs).into_iter().map(<[ListedJob]>::len).collect::<Vec<_>>()
        };
        let half = PART_BYTES / 2;
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[0; 100]), [100]);
        assert_eq!(lengths(&[half, half, 1, half]), [2, 2]);
        assert_eq!(lengths(&[PART_BYTES + 1, PART_BYTES + 1, 1]), [1, 1, 1]);
    }
}
