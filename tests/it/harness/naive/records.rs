//! Whole records of the model.

use async_trait::async_trait;
use linger::{
    job::{Attributes, Job, Receipt, State, Tag},
    store::{JobRecord, Put, RecordPage, RecordReader, Result, StoredSchedule, TopicRecord},
};

use super::{Content, Entry, Naive};

/// Everything on one page.
pub struct AllRecords(Option<RecordPage>);

#[async_trait]
impl RecordReader for AllRecords {
    async fn next(&mut self) -> Result<Option<RecordPage>> {
        Ok(self.0.take())
    }
}

impl Naive {
    pub(super) fn all_records(&self) -> AllRecords {
        let content = self.content();
        let topics = content.topics.iter().map(|(topic, config)| TopicRecord {
            topic: topic.clone(),
            config: config.clone(),
            other: Attributes::default(),
        });
        let jobs = content.jobs.values().map(|entry| {
            let mut other = entry.other.clone();
            let timed_out = entry.timed_out.as_ref();
            other.set_timed_out(timed_out.map(|receipt| (receipt, ended_attempts(&entry.job))));
            JobRecord {
                job: entry.job.clone(),
                fingerprint: entry.fingerprint,
                receipt: entry.receipt.clone(),
                other,
            }
        });
        let schedules = content.schedules.iter();
        let schedules =
            schedules.map(|(name, content)| StoredSchedule { name: name.clone(), content: content.clone() });
        AllRecords(Some(RecordPage {
            topics: topics.collect(),
            schedules: schedules.collect(),
            remembered: content.remembered.values().cloned().collect(),
            jobs: jobs.collect(),
            broken: Vec::new(),
        }))
    }

    pub(super) fn put_one(&self, content: &mut Content, record: JobRecord) -> Put {
        if let Some(entry) = content.jobs.get(&record.job.id) {
            let same = entry.fingerprint == record.fingerprint
                && entry.job.topic == record.job.topic
                && entry.job.created_at == record.job.created_at;
            return if same { Put::Exists } else { Put::Differs };
        }
        let now = self.clock.now();
        content.arrivals += 1;
        let JobRecord { job, fingerprint, receipt, other } = record;
        let timed_out = other.get(Tag::TIMED_OUT).and_then(<[u8]>::split_last_chunk::<4>);
        let timed_out = timed_out
            .filter(|(_, attempts)| u32::from_be_bytes(**attempts) == ended_attempts(&job))
            .and_then(|(receipt, _)| Some(Receipt::from_bytes(receipt.try_into().ok()?)));
        let arrival = content.arrivals;
        let entry = Entry { job, fingerprint, receipt, timed_out, ready_at: now, arrival, other };
        match (entry.job.state(), self.deadline(&entry)) {
            (State::Ready, _) => self.announce(self.outlet(&entry.job)),
            (State::Delayed | State::Reserved | State::Dead, Some(deadline)) => {
                self.listener.due_in(deadline.since(now));
            }
            (State::Delayed | State::Reserved | State::Dead, None) => {}
        }
        content.jobs.insert(entry.job.id.clone(), entry);
        Put::Done
    }
}

/// The reservations of a job that have ended.
fn ended_attempts(job: &Job) -> u32 {
    job.attempts - u32::from(job.state() == State::Reserved)
}
