//! Verification: every shard is held against itself by `scripts/verify.lua`, in as many runs as its size
//! needs, and the keys that exist against those that there should be. Only reads.

use std::collections::{BTreeMap, BTreeSet};

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value},
};

use crate::store::redis::{
    Engine,
    connection::error::Fault,
    keys::{Place, Shard},
    reply::Reply,
    scripts::Op,
};
use crate::{
    job::{JobId, Topic},
    store::{Result, Verified},
};

/// Most faults that are told; more say no more.
const FAULTS_TOLD: usize = 100;
/// How many keys the server looks at in one go.
const KEYS_PAGE: i64 = 1_000;

/// What verification has found so far.
#[derive(Default)]
struct Finding {
    verified: Verified,
    /// Topics with a key of their own, by shard: lists may be left that no count tells of.
    topics: BTreeMap<Shard, BTreeSet<Topic>>,
}

impl Finding {
    fn fault(&mut self, fault: String) {
        if self.verified.faults.len() < FAULTS_TOLD {
            self.verified.faults.push(fault);
        }
    }
}

impl Engine {
    pub async fn verify_all(&self) -> Result<Verified> {
        let mut finding = Finding::default();
        for node in self.routes.nodes() {
            let connection = node.connection().map_err(|error| Fault::sort(&error).into_error())?;
            self.list_keys(connection.client(), &mut finding).await?;
        }
        for shard in self.keys.shards() {
            self.verify_shard(shard, &mut finding).await?;
        }
        self.unreadable_configs().await?.into_iter().for_each(|fault| finding.fault(fault));
        Ok(finding.verified)
    }

    /// Walks the keys of a server: the topics that have any, and those keys of ours that should not be.
    async fn list_keys(&self, client: &Client, finding: &mut Finding) -> Result<()> {
        let mut cursor = "0".to_owned();
        loop {
            let scan = CustomCommand::new_static("SCAN", ClusterHash::Random, false);
            let args: Vec<Value> = vec![
                cursor.into(),
                "MATCH".into(),
                self.keys.pattern().into(),
                "COUNT".into(),
                KEYS_PAGE.into(),
            ];
            let answer: Value =
                client.custom(scan, args).await.map_err(|error| Fault::sort(&error).into_error())?;
            let mut answer = Reply::new(answer)?;
            cursor = answer.text()?;
            let mut keys = answer.list()?;
            while !keys.is_empty() {
                let key = keys.bytes()?;
                match self.keys.place(&key) {
                    Place::Topic(shard, topic) => {
                        finding.topics.entry(shard).or_default().insert(topic);
                    }
                    Place::Unknown => {
                        finding.fault(format!("key {}: it is none of ours", String::from_utf8_lossy(&key)));
                    }
                    Place::Shard | Place::Foreign => {}
                }
            }
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    async fn verify_shard(&self, shard: Shard, finding: &mut Finding) -> Result<()> {
        let mut topics: Vec<Topic> = finding.topics.remove(&shard).into_iter().flatten().collect();
        let (mut step, mut cursor) = (1, "0".to_owned());
        while step > 0 {
            let mut reply = Reply::new(self.verify_part(shard, step, &cursor, &topics).await?)?;
            let next = (reply.int()?, reply.text()?);
            let (jobs, stale, set_aside) = (reply.count()?, reply.count()?, reply.count()?);
            let (faults, ids, mut strangers) = (reply.list()?, reply.list()?, reply.list()?);
            if !strangers.is_empty() {
                while !strangers.is_empty() {
                    topics.push(strangers.name()?);
                }
                continue;
            }
            (step, cursor) = next;
            finding.verified.jobs += jobs;
            finding.verified.stale += stale;
            finding.verified.set_aside += set_aside;
            self.take_in(shard, faults, ids, finding)?;
        }
        Ok(())
    }

    async fn verify_part(&self, shard: Shard, step: i64, cursor: &str, topics: &[Topic]) -> Result<Value> {
        let keys = self.keys.shard(shard);
        let all = [&keys.pool, &keys.bucket, &keys.counts, &keys.lanes, &keys.graves, &keys.broken];
        let mut all: Vec<_> = all.into_iter().cloned().collect();
        all.extend(topics.iter().flat_map(|topic| [keys.ready(topic), keys.dead(topic)]));
        let mut call = self.read(Op::Verify, &[shard], all).arg(step).arg(cursor);
        for topic in topics {
            call = call.arg(topic.as_str());
        }
        self.call(call).await
    }

    fn take_in(&self, shard: Shard, mut faults: Reply, mut ids: Reply, finding: &mut Finding) -> Result<()> {
        while !faults.is_empty() {
            let fault = faults.bytes()?;
            finding.fault(format!("shard {shard}: {}", String::from_utf8_lossy(&fault)));
        }
        while !ids.is_empty() {
            let raw = ids.bytes()?;
            let id = std::str::from_utf8(&raw).ok().and_then(|text| JobId::parse(text).ok());
            if id.is_none_or(|id| self.keys.shard_of(&id) != shard) {
                let id = String::from_utf8_lossy(&raw);
                finding.fault(format!("shard {shard}: job {id}: it does not belong to this shard"));
            }
        }
        Ok(())
    }
}
