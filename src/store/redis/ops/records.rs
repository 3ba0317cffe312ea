//! Whole records: reading all of them, and storing those of another store.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;

use crate::store::redis::indexed::{Indexed, all_calls, by_shard, in_order};
use crate::{
    job::{HostNumber, JobId, Outlet, RememberedId, State, Topic},
    store::{
        JobRecord, Put, RecordPage, RecordReader, Result, TopicRecord, TopicValues,
        redis::{
            codec::record::{decode_whole, encode_whole},
            connection::call::ScriptCall,
            coordination::{notifier::Notifier, settings_cache::SettingsCache, shards::Shards},
            keys::Shard,
            ops::schedules,
            reply::{Reply, unexpected},
            scripts::Script,
        },
    },
};

/// About how many ids one run of a script lists, and the most records that one run reads or stores.
const IDS: i64 = 250;
const RECORDS: usize = 200;
/// About the most bytes of records that one run stores.
const BYTES: usize = 512 * 1_024;

/// What has an id and a value in a hash of a shard.
#[derive(Debug, Clone, Copy)]
enum HashOfShard {
    Remembered(Shard),
    Jobs(Shard),
}

/// Reads all records: what is set for topics, then the schedules of one shard after the other, by name, then the remembered ids and
/// then the jobs of one shard after the other, by id. The ids of a shard are collected first, because a scan may return one twice.
pub struct ShardRecords {
    shards: Arc<Shards>,
    settings: Arc<SettingsCache>,
    has_read_topics: bool,
    /// The shards whose schedules are to be read, the next one last, and the name behind which that goes on.
    schedules_left: (Vec<Shard>, Bytes),
    /// The parts that are to be read, the next one last.
    left: Vec<HashOfShard>,
    /// The ids of the present part, the next one last.
    ids: Vec<Bytes>,
    part: HashOfShard,
}

impl ShardRecords {
    pub fn new(shards: Arc<Shards>, settings: Arc<SettingsCache>) -> Self {
        let mut all: Vec<Shard> = shards.keys.all().collect();
        all.reverse();
        let left = all
            .iter()
            .copied()
            .map(HashOfShard::Jobs)
            .chain(all.iter().copied().map(HashOfShard::Remembered))
            .collect();
        let (schedules_left, ids, part) = ((all, Bytes::new()), Vec::new(), HashOfShard::Jobs(0));
        Self { shards, settings, has_read_topics: false, schedules_left, left, ids, part }
    }

    async fn read_topics(&self) -> Result<RecordPage> {
        let mut page = RecordPage::default();
        for (name, values) in self.settings.stored_values().await? {
            let topic = Topic::parse(&name).ok();
            let values = TopicValues::new(values);
            match topic.and_then(|topic| TopicRecord::decode(topic, &values)) {
                Some(topic) => page.topics.push(topic),
                None => page.broken.push(format!("what is set for topic {name:?} cannot be read")),
            }
        }
        page.topics.sort_by(|one, other| one.topic.cmp(&other.topic));
        Ok(page)
    }

    async fn read_schedules(&mut self, shard: Shard) -> Result<RecordPage> {
        let (left, after) = &mut self.schedules_left;
        let found = schedules::read_behind(&self.shards, shard, after.clone()).await?;
        *after = match found.last() {
            Some(Ok(last)) => Bytes::copy_from_slice(last.name.as_str().as_bytes()),
            Some(Err(name)) => name.clone(),
            None => {
                left.pop();
                Bytes::new()
            }
        };
        let mut page = RecordPage::default();
        for schedule in found {
            match schedule {
                Ok(schedule) => page.schedules.push(schedule),
                Err(name) => {
                    let name = String::from_utf8_lossy(&name).into_owned();
                    page.broken.push(format!("the schedule {name:?} cannot be read"));
                }
            }
        }
        Ok(page)
    }

    /// The ids of a part, the last one first.
    async fn list_ids(&self, part: HashOfShard) -> Result<Vec<Bytes>> {
        let (mut ids, mut cursor) = (BTreeSet::new(), "0".to_owned());
        loop {
            let call = self.read(Script::ScanIds, part).arg(cursor.as_str()).arg(IDS);
            let mut reply = Reply::new(self.shards.call(call).await?)?;
            cursor = reply.text()?;
            while !reply.is_empty() {
                ids.insert(reply.bytes()?);
            }
            if cursor == "0" {
                return Ok(ids.into_iter().rev().collect());
            }
        }
    }

    async fn read_part(&mut self) -> Result<RecordPage> {
        let first = self.ids.len().saturating_sub(RECORDS);
        let call = self.ids[first..]
            .iter()
            .rev()
            .fold(self.read(Script::Records, self.part), |call, id| call.bytes_arg(id.clone()));
        let mut reply = Reply::new(self.shards.call(call).await?)?;
        if reply.is_empty() {
            return Err(unexpected("a record"));
        }
        let mut page = RecordPage::default();
        while !reply.is_empty() {
            let (raw, id) = (reply.value()?.into_bytes(), self.ids.pop());
            // A job without a record has ended since its id was listed.
            let Some((id, raw)) = id.zip(raw) else { continue };
            let name = std::str::from_utf8(&id).ok().and_then(|text| JobId::parse(text).ok());
            let text = String::from_utf8_lossy(&id);
            match self.part {
                HashOfShard::Jobs(_) => match name.and_then(|name| decode_whole(&name, &raw)) {
                    Some(job) => page.jobs.push(job),
                    None => page.broken.push(format!("the record of job {text:?} cannot be read")),
                },
                HashOfShard::Remembered(_) => match name.and_then(|name| RememberedId::decode(name, &raw)) {
                    Some(remembered) => page.remembered.push(remembered),
                    None => page.broken.push(format!("the remembered id {text:?} cannot be read")),
                },
            }
        }
        Ok(page)
    }

    fn read(&self, script: Script, part: HashOfShard) -> ScriptCall {
        let (shard, key) = match part {
            HashOfShard::Remembered(shard) => (shard, &self.shards.keys.shard(shard).remembered),
            HashOfShard::Jobs(shard) => (shard, &self.shards.keys.shard(shard).jobs),
        };
        self.shards.read(script, &[shard], vec![key.clone()])
    }
}

#[async_trait]
impl RecordReader for ShardRecords {
    async fn next(&mut self) -> Result<Option<RecordPage>> {
        if !self.has_read_topics {
            self.has_read_topics = true;
            return self.read_topics().await.map(Some);
        }
        if let Some(shard) = self.schedules_left.0.last() {
            return self.read_schedules(*shard).await.map(Some);
        }
        while self.ids.is_empty() {
            let Some(part) = self.left.pop() else { return Ok(None) };
            (self.ids, self.part) = (self.list_ids(part).await?, part);
        }
        self.read_part().await.map(Some)
    }
}

/// Stores whole records.
pub async fn put(shards: &Shards, notifier: &Notifier, jobs: Vec<JobRecord>) -> Result<Vec<Put>> {
    let count = jobs.len();
    let parts = by_shard(&shards.keys, jobs, |job| &job.job.id);
    let puts = parts.into_iter().map(|(shard, jobs)| async move {
        let (mut done, mut rest) = (Vec::with_capacity(jobs.len()), &jobs[..]);
        while !rest.is_empty() {
            let (part, others) = rest.split_at(part_length(rest));
            let put = put_on(shards, notifier, shard, part).await;
            done.extend(put.map_err(|error| error.after(done.len()))?);
            rest = others;
        }
        Ok(done)
    });
    Ok(in_order(count, all_calls(puts).await?))
}

async fn put_on(
    shards: &Shards,
    notifier: &Notifier,
    shard: Shard,
    jobs: &[(usize, JobRecord)],
) -> Result<Indexed<Put>> {
    let outlet = |job: &JobRecord| Outlet { topic: job.job.topic.clone(), host: host(shards, job) };
    let outlets: BTreeSet<Outlet> = jobs.iter().map(|(_, job)| outlet(job)).collect();
    let known: Vec<&Outlet> = outlets.iter().collect();
    let slot = shards.replay_slots.acquire(shard);
    let call = shards.with_remembered(shards.change(Script::Put, shard, Some(&slot), &known), shard);
    let call = jobs.iter().fold(call, |call, (_, job)| {
        let record = encode_whole(job, host(shards, job), rand::random());
        call.arg(job.job.id.as_str()).bytes_arg(record)
    });
    let mut reply = Reply::new(shards.call_acknowledged(call).await?)?;
    shards.report_set_aside(shard, reply.count()?);
    let mut put = Vec::with_capacity(jobs.len());
    for (index, job) in jobs {
        let outcome = decode_outcome(reply.int()?)?;
        if outcome == Put::Done && job.job.state() == State::Ready {
            notifier.ready_on(&outlet(job), shard);
        }
        put.push((*index, outcome));
    }
    // The next promotion finds the earliest deadline of the others.
    notifier.due_in(std::time::Duration::ZERO);
    Ok(put)
}

/// Remembers ids as they are remembered in another store.
pub async fn put_remembered(shards: &Shards, ids: Vec<RememberedId>) -> Result<Vec<Put>> {
    let count = ids.len();
    let parts = by_shard(&shards.keys, ids, |remembered| &remembered.id);
    let puts = parts.into_iter().map(|(shard, ids)| async move {
        let mut put = Vec::with_capacity(ids.len());
        for slice in ids.chunks(RECORDS) {
            let slot = shards.replay_slots.acquire(shard);
            let call = shards.change(Script::PutRemembered, shard, Some(&slot), &[]);
            let call = shards.with_remembered(call, shard).arg(shards.most_remembered());
            let call = slice.iter().fold(call, |call, (_, remembered)| {
                call.arg(remembered.id.as_str()).bytes_arg(remembered.encode())
            });
            let reply = shards.call_acknowledged(call).await;
            let mut reply = Reply::new(reply.map_err(|error| error.after(put.len()))?)?;
            shards.context().metrics.ids_not_kept(0, reply.count()?);
            for (index, _) in slice {
                put.push((*index, decode_outcome(reply.int()?)?));
            }
        }
        Ok(put)
    });
    Ok(in_order(count, all_calls(puts).await?))
}

/// The host of a job's own callback.
fn host(shards: &Shards, job: &JobRecord) -> Option<HostNumber> {
    job.job.spec.callback.as_ref().map(|callback| shards.host_number(callback.url.origin()))
}

/// How many of these jobs, which are at least one, fit in one call.
fn part_length(jobs: &[(usize, JobRecord)]) -> usize {
    let mut bytes = 0;
    let fits = |(_, job): &&(usize, JobRecord)| {
        bytes += job.job.body.as_bytes().len();
        bytes <= BYTES
    };
    jobs.iter().take(RECORDS).take_while(fits).count().max(1)
}

/// The outcome in a reply of `scripts/put.lua`.
fn decode_outcome(code: i64) -> Result<Put> {
    match code {
        1 => Ok(Put::Done),
        2 => Ok(Put::Exists),
        3 => Ok(Put::Differs),
        _ => Err(unexpected("the outcome of a put")),
    }
}
