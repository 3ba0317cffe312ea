//! Adding jobs.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Buf, Bytes};
use futures_util::future::try_join_all;

use crate::store::redis::indexed::{by_shard, in_order, join, split};
use crate::{
    job::{History, HostNumber, Job, JobState, Outlet, State, Timestamp, Topic},
    store::{
        AddJob, Added, Outcome, Refusal, Result,
        redis::{
            codec::record,
            coordination::{
                batch::{BatchCall, CallBatcher},
                notifier::Notifier,
                shards::Shards,
            },
            keys::Shard,
            reply::{Reply, unexpected},
            scripts::Script,
        },
    },
};

/// Adds jobs.
pub struct Adder {
    shards: Arc<Shards>,
    batcher: CallBatcher<AddCall>,
}

impl Adder {
    pub fn new(shards: Arc<Shards>, notifier: Arc<Notifier>) -> Self {
        let (context, count) = (shards.context().clone(), shards.keys.count());
        let call = AddCall { shards: shards.clone(), notifier };
        Self { shards, batcher: CallBatcher::new(call, context, count) }
    }

    pub async fn add(&self, jobs: Vec<AddJob>) -> Result<Vec<Outcome<Added>>> {
        let count = jobs.len();
        let shards = by_shard(&self.shards.keys, jobs, |job| &job.id);
        let adds = shards.into_iter().map(|(shard, jobs)| async move {
            let (indexes, jobs) = split(jobs);
            Ok(join(indexes, self.batcher.submit(shard, jobs).await?))
        });
        Ok(in_order(count, try_join_all(adds).await?))
    }
}

/// The call that adds jobs on one shard.
struct AddCall {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
}

#[async_trait]
impl BatchCall for AddCall {
    type Item = AddJob;
    type Outcome = Outcome<Added>;

    fn weight(job: &AddJob) -> usize {
        job.body.as_bytes().len()
    }

    async fn call(&self, shard: Shard, jobs: Vec<AddJob>, since_us: i64) -> Result<Vec<Outcome<Added>>> {
        let hosts: Vec<Option<HostNumber>> = jobs.iter().map(|job| self.host(job)).collect();
        let outlets = distinct_outlets(&jobs, &hosts);
        let known: Vec<&Outlet> = outlets.iter().collect();
        let slot = self.shards.replay_slots.acquire(shard);
        let mut call = self.shards.change(Script::Add, shard, Some(&slot), &known);
        for (job, host) in jobs.iter().zip(&hosts) {
            let record = record::encode_new(job, *host, rand::random());
            call = call.arg(job.id.as_str()).bytes_arg(record);
        }
        let mut reply = Reply::new(self.shards.call_acknowledged(call.started_at(since_us)).await?)?;
        self.shards.report_set_aside(shard, reply.count()?);
        let added =
            jobs.into_iter().map(|job| decode_outcome(job, &reply.bytes()?)).collect::<Result<Vec<_>>>()?;
        self.notify(shard, added.iter().zip(hosts));
        Ok(added)
    }
}

impl AddCall {
    /// The host of a job's own callback.
    fn host(&self, job: &AddJob) -> Option<HostNumber> {
        job.spec.callback.as_ref().map(|callback| self.shards.host_number(callback.url.origin()))
    }

    /// Notifies the listener of ready and due jobs, once for each outlet.
    fn notify<'a>(
        &self,
        shard: Shard,
        added: impl Iterator<Item = (&'a Outcome<Added>, Option<HostNumber>)>,
    ) {
        let mut ready: Vec<(&Topic, Option<HostNumber>)> = Vec::new();
        let mut shortest_delay = None;
        for (added, host) in added {
            let Ok(Added::Created(job)) = added else { continue };
            if job.state() == State::Ready && !ready.contains(&(&job.topic, host)) {
                ready.push((&job.topic, host));
            }
            let delay = job.next_deadline().map(|deadline| deadline.since(job.created_at));
            shortest_delay = shortest_delay.into_iter().chain(delay).min();
        }
        for (topic, host) in ready {
            self.notifier.ready_on(&Outlet { topic: topic.clone(), host }, shard);
        }
        if let Some(delay) = shortest_delay {
            self.notifier.due_in(delay);
        }
    }
}

/// The outlets of some jobs, each once. A batch has many jobs of few outlets, so no name is copied for each job.
fn distinct_outlets(jobs: &[AddJob], hosts: &[Option<HostNumber>]) -> Vec<Outlet> {
    let mut outlets: Vec<_> = jobs.iter().map(|job| &job.topic).zip(hosts).collect();
    outlets.sort_unstable();
    outlets.dedup();
    outlets.into_iter().map(|(topic, host)| Outlet { topic: topic.clone(), host: *host }).collect()
}

/// Decodes the outcome of one add.
fn decode_outcome(job: AddJob, reply: &Bytes) -> Result<Outcome<Added>> {
    let mut rest = reply.slice(1.min(reply.len())..);
    let moment = |rest: &mut Bytes| -> Result<Timestamp> {
        if rest.len() < 6 {
            return Err(unexpected("a moment"));
        }
        Ok(Timestamp::from_millis(i64::try_from(rest.get_uint(6)).expect("48 bits fit an i64")))
    };
    match reply.first() {
        Some(b'C') => {
            let (created_at, due_at) = (moment(&mut rest)?, moment(&mut rest)?);
            Ok(Ok(Added::Created(created_job(job, created_at, due_at))))
        }
        Some(b'R') => {
            let job = record::decode(&job.id, &rest).ok_or_else(|| unexpected("a record"))?;
            Ok(Ok(Added::Replayed(job)))
        }
        Some(b'E') if !rest.is_empty() => {
            let state = record::decode_state(rest.get_u8()).ok_or_else(|| unexpected("a state"))?;
            let due_at = moment(&mut rest)?;
            let topic = std::str::from_utf8(&rest).ok().and_then(|name| Topic::parse(name).ok());
            Ok(Err(Refusal::Exists { topic: topic.ok_or_else(|| unexpected("a topic"))?, state, due_at }))
        }
        Some(b'X') => Ok(Err(Refusal::ExpiresFirst)),
        Some(b'P') => Ok(Err(Refusal::IntakePaused)),
        _ => Err(unexpected("the outcome of an add")),
    }
}

/// The job as it was stored.
fn created_job(job: AddJob, created_at: Timestamp, due_at: Timestamp) -> Job {
    let expires_at = job.spec.expiry.map(|expiry| expiry.resolve(due_at, job.due.kind()).moment);
    Job {
        id: job.id,
        topic: job.topic,
        state: if due_at <= created_at { JobState::Ready } else { JobState::Delayed },
        created_at,
        due_at,
        expires_at,
        spec: job.spec,
        attempts: 0,
        reason: None,
        history: History::default(),
        body: job.body,
    }
}
