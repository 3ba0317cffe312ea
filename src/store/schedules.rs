//! Recurring jobs, as a store keeps them: a text that only `job::schedule` reads, and the next moment, by which the store finds
//! the schedules that are due. A schedule is replaced by comparison, in one step with the job of a run: so each run is added
//! once, however many processes try.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{AddJob, Error, Put, Refusal, Result};
use crate::job::{JobId, ScheduleName, Timestamp};

/// A schedule as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSchedule {
    /// Its name.
    pub name: ScheduleName,
    /// The content.
    pub content: ScheduleContent,
}

/// What a store keeps for the name of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleContent {
    /// When something is to be done next; `None` if nothing is.
    pub next: Option<Timestamp>,
    /// The text, which the store does not read.
    pub text: Bytes,
}

/// Schedules that were read, and the store's clock at that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulePage {
    /// The schedules.
    pub schedules: Vec<StoredSchedule>,
    /// The present moment, by the clock that decides about moments.
    pub now: Timestamp,
    /// Of [`ScheduleStore::schedules`]: whether there are none behind these.
    pub is_last: bool,
    /// Of [`ScheduleStore::due_schedules`]: how long until the first moment after the time that was asked for.
    pub next_in: Option<Duration>,
}

/// Replaces the content of a schedule if it is as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleChange {
    /// The schedule.
    pub name: ScheduleName,
    /// What is stored; `None` if nothing is.
    pub expected: Option<ScheduleContent>,
    /// What to store in its place; `None` deletes the schedule.
    pub content: Option<ScheduleContent>,
    /// The run for which the schedule is changed.
    pub run: Option<ScheduleRun>,
}

/// A run of a schedule: a job that is added in the step that changes the schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRun {
    /// The job. Its due time is a moment, and it keeps this moment although it has passed.
    pub job: AddJob,
    /// The previous run's job, if the new one depends on it.
    pub previous: Option<PreviousRun>,
}

/// What the job of a schedule's previous run means for the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreviousRun {
    /// While it waits or is reserved, the run is left out, and the schedule gets this content.
    Skips(JobId, ScheduleContent),
    /// If it waits, it is deleted.
    GivesWay(JobId),
}

/// What a change of a schedule did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleChanged {
    /// The content was replaced, and the job of the run added, unless it was there already.
    Done {
        /// Whether the previous run's job was deleted.
        gave_way: bool,
    },
    /// The content was replaced, and the run left out because of the previous one.
    Skipped,
}

/// Why a schedule was not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleRefusal {
    /// It is not as expected.
    Differs,
    /// The run's job is not due yet by the store's clock.
    Early,
    /// The run's job was refused.
    Job(Refusal),
}

/// Result of a change of a schedule.
pub type ScheduleOutcome = std::result::Result<ScheduleChanged, ScheduleRefusal>;

/// After so many bytes [`ScheduleStore::due_schedules`] returns no more, because templates may be long. On Redis each shard has its
/// share of them.
pub const DUE_BYTES: usize = 4 << 20;

/// The schedules of a store. Expected contents and moments are compared with those of the store, inside the step.
#[async_trait]
pub trait ScheduleStore: Send + Sync {
    /// The schedule with this name, if there is one.
    async fn schedule(&self, name: &ScheduleName) -> Result<SchedulePage>;

    /// Up to `limit` schedules by name, after `after`. Those that cannot be read are left out.
    async fn schedules(&self, after: Option<&ScheduleName>, limit: usize) -> Result<SchedulePage>;

    /// How many schedules there are.
    async fn schedule_count(&self) -> Result<usize>;

    /// Schedules whose next moment comes `within` so long, or has come, the earliest first (on Redis within each shard). About
    /// `limit` at most, fewer if they are large ([`DUE_BYTES`]), but one at least if there is any. In a store of several servers
    /// those of a server that does not answer in time are left out.
    async fn due_schedules(&self, within: Duration, limit: usize) -> Result<SchedulePage>;

    /// Changes schedules, each atomic by itself, together with the job of its run. The outcomes are in the order of the changes.
    /// When the store is full, changes that have a run or that create a schedule fail as a whole with
    /// [`Error::Full`](super::Error::Full).
    async fn change_schedules(&self, changes: Vec<ScheduleChange>) -> Result<Vec<ScheduleOutcome>>;

    /// The id of a run's job: `stem` and the smallest suffix `.0`, `.1` ... with which the store keeps the job beside the
    /// schedule. An id stays beside its schedule in every store whose number of shards is a power of two.
    fn run_id(&self, name: &ScheduleName, stem: &str) -> JobId {
        run_id_beside(name, stem, 1)
    }
}

/// Whole schedules, as imports and moves store them.
pub trait ScheduleUpdates {
    /// Stores schedules as they are in another store. Results are in the order of `schedules`. One that is there already, or
    /// another one with its name, stays as it is.
    fn put_schedules(&self, schedules: Vec<StoredSchedule>) -> impl Future<Output = Result<Vec<Put>>> + Send;

    /// Replaces the content of schedules, whatever it is; `None` deletes.
    fn replace_schedules(
        &self,
        contents: Vec<(ScheduleName, Option<ScheduleContent>)>,
    ) -> impl Future<Output = Result<()>> + Send;
}

impl<S: ScheduleStore + ?Sized> ScheduleUpdates for S {
    async fn put_schedules(&self, schedules: Vec<StoredSchedule>) -> Result<Vec<Put>> {
        let put = |StoredSchedule { name, content }: &StoredSchedule| ScheduleChange {
            name: name.clone(),
            expected: None,
            content: Some(content.clone()),
            run: None,
        };
        let outcomes = self.change_schedules(schedules.iter().map(put).collect()).await?;
        let mut puts = Vec::with_capacity(schedules.len());
        for (schedule, outcome) in schedules.iter().zip(outcomes) {
            puts.push(match outcome {
                Ok(_) => Put::Done,
                Err(_) if self.schedule(&schedule.name).await?.schedules.contains(schedule) => Put::Exists,
                Err(_) => Put::Differs,
            });
        }
        Ok(puts)
    }

    async fn replace_schedules(&self, contents: Vec<(ScheduleName, Option<ScheduleContent>)>) -> Result<()> {
        let mut changes = Vec::with_capacity(contents.len());
        for (name, content) in contents {
            let stored = self.schedule(&name).await?.schedules.pop().map(|stored| stored.content);
            changes.push(ScheduleChange { name, expected: stored, content, run: None });
        }
        let names: Vec<ScheduleName> = changes.iter().map(|change| change.name.clone()).collect();
        let outcomes = self.change_schedules(changes).await?;
        match names.iter().zip(outcomes).find(|(_, outcome)| outcome.is_err()) {
            Some((name, _)) => Err(Error::Unavailable(format!("schedule {name} was changed meanwhile"))),
            None => Ok(()),
        }
    }
}

/// Hashes of ids are compared by their remainders of this number, so that they agree for all its divisors.
const MOST_SHARDS: u64 = 256;

/// See [`ScheduleStore::run_id`], in a store with so many shards, chosen by the hash of the id.
pub(crate) fn run_id_beside(name: &ScheduleName, stem: &str, shards: u16) -> JobId {
    let shards = u64::from(shards.max(1));
    let modulus = if MOST_SHARDS.is_multiple_of(shards) { MOST_SHARDS } else { shards };
    let place = |text: &str| xxhash_rust::xxh3::xxh3_64(text.as_bytes()) % modulus;
    let wanted = place(name.as_str());
    let ids = (0_u32..).map(|suffix| format!("{stem}.{suffix}"));
    let id = ids.into_iter().find(|id| place(id) == wanted).expect("hashes are spread evenly");
    JobId::parse(&id).expect("a stem of a name and a moment is short")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_beside_its_schedule_whatever_the_number_of_shards() {
        let name = ScheduleName::parse("daily-report").expect("valid");
        let stem = "cron:daily-report:20261126T083000Z";
        let shard = |id: &str, count: u64| xxhash_rust::xxh3::xxh3_64(id.as_bytes()) % count;
        let id = run_id_beside(&name, stem, 1);
        for count in [1, 2, 16, 64, 256] {
            assert_eq!(shard(id.as_str(), count), shard(name.as_str(), count), "{count}");
            assert_eq!(run_id_beside(&name, stem, u16::try_from(count).expect("is small")), id);
        }
        let of_twelve = run_id_beside(&name, stem, 12);
        assert_eq!(shard(of_twelve.as_str(), 12), shard(name.as_str(), 12));
        let longest = ScheduleName::parse(&"n".repeat(ScheduleName::MAX_LEN)).expect("valid");
        run_id_beside(&longest, &format!("cron:{longest}:20261126T083000Z"), 251);
    }
}
