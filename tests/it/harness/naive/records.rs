//! Whole records of the model.

use async_trait::async_trait;
use linger::{
    job::{Attributes, State},
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
        let jobs = content.jobs.values().map(|entry| JobRecord {
            job: entry.job.clone(),
            fingerprint: entry.fingerprint,
            receipt: entry.receipt.clone(),
            other: entry.other.clone(),
        });
        let schedules = content.schedules.iter();
        let schedules =
            schedules.map(|(name, content)| StoredSchedule { name: name.clone(), content: content.clone() });
        AllRecords(Some(RecordPage {
            topics: topics.collect(),
            schedules: schedules.collect(),
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
        let entry = Entry { job, fingerprint, receipt, ready_at: now, arrival: content.arrivals, other };
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
