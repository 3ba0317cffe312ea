//! Parts of the embedded engine for the component benchmarks.

use super::{
    memory::{
        job_index::{JobIndex, JobRef},
        topics::{DelayedJobs, OutletNumber, Topics},
    },
    rows::{
        codec::{Record, RecordColumns, RecordHead},
        key::RowKey,
    },
};
use crate::job::{Attributes, Body, DueKind, Fingerprint, History, JobId, JobSpec, Outlet, Timestamp, Topic};

/// The codec of records, with a record to write and to read.
#[derive(Debug)]
pub struct Codec {
    key: RowKey,
    record: Record,
    head: Vec<u8>,
}

impl Codec {
    /// With a job of this id, topic and body.
    #[must_use]
    pub fn new(id: JobId, topic: Topic, body: Body) -> Self {
        let key = RowKey::from_bits(7);
        let head = RecordHead {
            id,
            topic,
            due_at: Timestamp::from_millis(1_800_000_000_000),
            created_at: Timestamp::from_millis(1_800_000_000_000),
            expires_at: None,
            spec: JobSpec::default(),
            attempts: 0,
            fingerprint: Fingerprint([7; 16]),
            reason: None,
            dead_at: None,
            history: History::default(),
            host: None,
            other: Attributes::default(),
        };
        let record = Record { head, body };
        let head = record.encode_head(key);
        Self { key, record, head }
    }

    /// Writes the record; how long its head is.
    #[must_use]
    pub fn encode(&self) -> usize {
        self.record.encode_head(self.key).len()
    }

    /// Reads the record, its checksums included; how many attempts it has had.
    ///
    /// # Panics
    /// When what was written does not read back.
    #[must_use]
    pub fn decode(&self) -> u32 {
        let (id, topic) = (self.record.head.id.as_str(), self.record.head.topic.as_str());
        let columns =
            RecordColumns { key: self.key, id: id.as_bytes(), topic: topic.as_bytes(), head: &self.head };
        columns.decode_record(self.record.body.as_bytes()).expect("reads back").head.attempts
    }
}

/// The index of jobs by their ids.
#[derive(Debug)]
pub struct IdMap {
    ids: JobIndex,
    jobs: u64,
}

impl IdMap {
    /// With this many jobs, whose ids are their numbers.
    #[must_use]
    pub fn with_jobs(jobs: u64) -> Self {
        let mut map = Self { ids: JobIndex::new(), jobs };
        (0..jobs).for_each(|number| map.insert(number));
        map
    }

    fn insert(&mut self, number: u64) {
        let job_ref =
            JobRef { key: RowKey::from_bits(number), outlet: OutletNumber::from_bits(0), dead: false };
        self.ids.insert(self.ids.hash(&number.to_le_bytes()), job_ref);
    }

    /// Whether there is a job with this number.
    #[must_use]
    pub fn find(&self, number: u64) -> bool {
        !self.ids.candidates(self.ids.hash(&number.to_le_bytes())).is_empty()
    }

    /// Adds the next job, and removes the oldest one.
    pub fn turn_over(&mut self) {
        let first = self.jobs - self.ids.len() as u64;
        self.insert(self.jobs);
        self.jobs += 1;
        self.ids.remove(self.ids.hash(&first.to_le_bytes()), RowKey::from_bits(first), false);
    }
}

/// The delayed jobs by due time.
#[derive(Debug)]
pub struct DueOrder {
    delayed: DelayedJobs,
    topics: Topics,
    next: u64,
}

impl DueOrder {
    /// With this many jobs in this many topics, one per millisecond.
    ///
    /// # Panics
    /// When there are no topics.
    #[must_use]
    pub fn with_jobs(jobs: u64, topics: usize) -> Self {
        let mut this = Self { delayed: DelayedJobs::default(), topics: Topics::default(), next: jobs };
        let topics: Vec<_> = (0..topics)
            .map(|number| {
                this.topics
                    .find_or_add(&Outlet::plain(Topic::parse(&format!("t{number}")).expect("is a name")))
            })
            .collect();
        for (number, topic) in (0..jobs).zip(topics.iter().cycle()) {
            this.delayed.insert(&mut this.topics, Self::key(number), *topic);
        }
        this
    }

    fn key(number: u64) -> RowKey {
        RowKey::first_at(Timestamp::from_millis(i64::try_from(number).expect("fits")))
    }

    /// Removes the job that is due first, and adds one to its topic that is due last.
    ///
    /// # Panics
    /// When there are no jobs.
    pub fn turn_over(&mut self) {
        let (key, topic) = self.delayed.first(DueKind::Elapsed).expect("has jobs");
        self.delayed.remove(&mut self.topics, key, topic);
        self.delayed.insert(&mut self.topics, Self::key(self.next), topic);
        self.next += 1;
    }
}
