//! A pass of a move: makes a target, which no other process changes, equal to what a source has at the moment.

use std::mem;

use super::{
    compare::{Contents, job_digest, remembered_digest, schedule_digest, topic_digest},
    copy::BATCH,
    file::TransferError,
    watcher::Watcher,
};
use crate::{
    job::{Attributes, JobId, RememberedId, ScheduleName, Topic},
    store::{
        self, JobRecord, Movable, Put, RecordReader, ScheduleContent, ScheduleUpdates, StoredSchedule,
        TopicConfig, TopicRecord, TopicUpdates,
    },
};

/// What a pass found and did. Topics are those for which something is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PassReport {
    /// Jobs of the source.
    pub jobs: u64,
    /// Topics of the source.
    pub topics: u64,
    /// Schedules of the source.
    pub schedules: u64,
    /// Remembered ids of the source.
    pub remembered: u64,
    /// Jobs that the target lacked, or had as they were before.
    pub copied: u64,
    /// Jobs that only the target had.
    pub deleted: u64,
    /// Topics for which something else was set in the target.
    pub set: u64,
    /// Schedules that were replaced in the target, or deleted there.
    pub schedules_set: u64,
    /// Ids that the target remembers now as the source does.
    pub remembered_set: u64,
    /// Records of the source that could not be read, and were not copied.
    pub broken: u64,
    /// A job, a schedule or a topic that differed, in words.
    pub example: Option<String>,
}

impl PassReport {
    /// Whether the target was equal to the source already.
    #[must_use]
    pub fn changed_nothing(&self) -> bool {
        [self.copied, self.deleted, self.set, self.schedules_set, self.remembered_set] == [0; 5]
    }
}

/// Copies what differs and deletes what the source does not have. Names the records of the source that cannot be read; if there
/// are any, nothing is deleted unless they are to be left behind: the target may have them as they were.
///
/// # Errors
/// Why the target is not equal; a second pass continues.
pub async fn copy_differences<R>(
    source: impl FnOnce() -> R,
    target: &dyn Movable,
    without_broken: bool,
    watcher: &mut dyn Watcher,
) -> Result<PassReport, TransferError>
where
    R: Future<Output = store::Result<Box<dyn RecordReader>>>,
{
    let unread = |error: store::Error| TransferError::Failed(format!("the source cannot be read: {error}"));
    let records = target.records().await.map_err(|error| unwritten(&error))?;
    let there = Contents::read(records).await?;
    let mut pass = Pass {
        target,
        there,
        done: PassReport::default(),
        schedules: Vec::new(),
        remembered: Vec::new(),
        replaced: Vec::new(),
        batch: Vec::new(),
        bytes: 0,
    };
    // Not before: while the source is being read, the log of the embedded engine grows.
    let mut source = source().await.map_err(unread)?;
    while let Some(page) = source.next().await.map_err(unread)? {
        pass.done.broken += page.broken.len() as u64;
        page.broken.iter().for_each(|sentence| watcher.named(sentence));
        for topic in page.topics {
            pass.take_topic(topic).await?;
        }
        for schedule in page.schedules {
            if let Err(why) = pass.take_schedule(schedule).await? {
                pass.done.broken += 1;
                watcher.named(&why);
            }
        }
        for remembered in page.remembered {
            pass.take_remembered(remembered).await?;
        }
        watcher.advanced(page.jobs.len() as u64);
        for job in page.jobs {
            if let Err(why) = pass.take_job(job).await? {
                pass.done.broken += 1;
                watcher.named(&why);
            }
        }
    }
    pass.flush().await?;
    if pass.done.broken == 0 || without_broken {
        pass.delete_rest().await?;
    }
    Ok(pass.done)
}

/// A pass under way.
struct Pass<'a> {
    target: &'a dyn Movable,
    /// What the target has and the source was not seen to have.
    there: Contents,
    done: PassReport,
    /// Schedules to replace.
    schedules: Vec<(ScheduleName, Option<ScheduleContent>)>,
    /// Ids to remember. One that only the target remembers stays: it is forgotten when its window has passed.
    remembered: Vec<RememberedId>,
    /// Of the batch, the jobs that the target has as they were before.
    replaced: Vec<JobId>,
    batch: Vec<JobRecord>,
    /// Of the bodies in the batch and of the texts of the schedules.
    bytes: usize,
}

impl Pass<'_> {
    async fn take_topic(&mut self, topic: TopicRecord) -> Result<(), TransferError> {
        self.done.topics += 1;
        if self.there.topics.remove(&topic.topic) == Some(topic_digest(&topic)) {
            return Ok(());
        }
        self.done.set += 1;
        self.done.example.get_or_insert_with(|| format!("topic {}", topic.topic));
        self.target.replace_topic(topic).await.map_err(|error| unwritten(&error))
    }

    /// Why the schedule is broken, in the inner result.
    async fn take_schedule(&mut self, schedule: StoredSchedule) -> Result<Result<(), String>, TransferError> {
        let StoredSchedule { name, content } = &schedule;
        let digest = match schedule_digest(&schedule) {
            Ok(digest) => digest,
            Err(why) => return Ok(Err(format!("the schedule {:?} is broken: {why}", name.as_str()))),
        };
        self.done.schedules += 1;
        if self.there.schedules.remove(name) == Some(digest) {
            return Ok(Ok(()));
        }
        self.done.example.get_or_insert_with(|| format!("schedule {name}"));
        self.bytes += content.text.len();
        self.schedules.push((schedule.name, Some(schedule.content)));
        self.flush_if_full().await.map(Ok)
    }

    async fn take_remembered(&mut self, remembered: RememberedId) -> Result<(), TransferError> {
        self.done.remembered += 1;
        if self.there.remembered.remove(&remembered.id) == Some(remembered_digest(&remembered)) {
            return Ok(());
        }
        self.remembered.push(remembered);
        self.flush_if_full().await
    }

    /// Why the record is broken, in the inner result.
    async fn take_job(&mut self, record: JobRecord) -> Result<Result<(), String>, TransferError> {
        let id = &record.job.id;
        let digest = match job_digest(&record) {
            Ok(digest) => digest,
            Err(why) => return Ok(Err(format!("the record of job {:?} is broken: {why}", id.as_str()))),
        };
        self.done.jobs += 1;
        match self.there.jobs.remove(id) {
            Some(there) if there == digest => return Ok(Ok(())),
            Some(_) => self.replaced.push(id.clone()),
            None => {}
        }
        self.done.example.get_or_insert_with(|| format!("job {id}"));
        self.bytes += record.job.body.as_bytes().len();
        self.batch.push(record);
        self.flush_if_full().await.map(Ok)
    }

    async fn flush_if_full(&mut self) -> Result<(), TransferError> {
        let count = self.schedules.len() + self.remembered.len() + self.batch.len();
        let is_full = count >= BATCH.0 || self.bytes >= BATCH.1;
        if is_full { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), TransferError> {
        self.bytes = 0;
        let schedules = mem::take(&mut self.schedules);
        self.replace_schedules(schedules).await?;
        let remembered = mem::take(&mut self.remembered);
        if !remembered.is_empty() {
            let put = self.target.put_remembered(remembered).await.map_err(|error| unwritten(&error))?;
            self.done.remembered_set += put.iter().filter(|put| **put == Put::Done).count() as u64;
        }
        let (replaced, batch) = (mem::take(&mut self.replaced), mem::take(&mut self.batch));
        self.delete(replaced).await?;
        if batch.is_empty() {
            return Ok(());
        }
        let (count, ids) =
            (batch.len() as u64, batch.iter().map(|job| job.job.id.clone()).collect::<Vec<_>>());
        let put = self.target.put(batch).await.map_err(|error| unwritten(&error))?;
        if let Some((id, _)) = ids.iter().zip(put).find(|(_, put)| *put != Put::Done) {
            return Err(TransferError::Failed(format!("job {id} appeared in the target during the move")));
        }
        self.done.copied += count;
        Ok(())
    }

    /// Deletes what the source does not have.
    async fn delete_rest(&mut self) -> Result<(), TransferError> {
        let mut gone = mem::take(&mut self.there.jobs).into_keys();
        loop {
            let batch: Vec<JobId> = gone.by_ref().take(BATCH.0).collect();
            if batch.is_empty() {
                break;
            }
            self.done.deleted += batch.len() as u64;
            self.delete(batch).await?;
        }
        let gone = mem::take(&mut self.there.schedules).into_keys().map(|name| (name, None));
        self.replace_schedules(gone.collect()).await?;
        for topic in mem::take(&mut self.there.topics).into_keys() {
            self.done.set += 1;
            self.target.replace_topic(nothing_set(topic)).await.map_err(|error| unwritten(&error))?;
        }
        Ok(())
    }

    async fn replace_schedules(
        &mut self,
        contents: Vec<(ScheduleName, Option<ScheduleContent>)>,
    ) -> Result<(), TransferError> {
        if contents.is_empty() {
            return Ok(());
        }
        self.done.schedules_set += contents.len() as u64;
        self.target.replace_schedules(contents).await.map_err(|error| unwritten(&error))
    }

    async fn delete(&self, ids: Vec<JobId>) -> Result<(), TransferError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.target.delete(ids).await.map_err(|error| unwritten(&error))
    }
}

fn nothing_set(topic: Topic) -> TopicRecord {
    TopicRecord { topic, config: TopicConfig::default(), other: Attributes::default() }
}

fn unwritten(error: &store::Error) -> TransferError {
    TransferError::Failed(format!("not everything is in the target: {error}; run the command again"))
}
