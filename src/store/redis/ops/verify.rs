//! Verification: `scripts/verify.lua` compares the records, indexes and counts of every shard, in as many runs as its
//! size needs; the engine compares the schedules with the agenda, and the existing keys with the expected ones. Only reads.

use std::collections::{BTreeMap, BTreeSet};

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value},
};

use crate::{
    job::{JobId, Outlet},
    store::{
        Result, Verified,
        redis::{
            connection::error::CallFault,
            coordination::{
                settings_cache::SettingsCache,
                shards::{Shards, outlet_arg},
            },
            keys::{KeyOwner, Shard},
            ops::schedules,
            reply::Reply,
            scripts::Script,
        },
    },
};

/// Most faults that are reported; more would not help.
const FAULTS_LIMIT: usize = 100;
/// How many keys the server scans at once.
const KEYS_PAGE: i64 = 1_000;

/// The result so far.
#[derive(Default)]
struct VerifyProgress {
    verified: Verified,
    /// The outlets with keys of their own, by shard: there may be lists that no count mentions.
    outlets: BTreeMap<Shard, BTreeSet<Outlet>>,
}

impl VerifyProgress {
    fn add_fault(&mut self, fault: String) {
        if self.verified.faults.len() < FAULTS_LIMIT {
            self.verified.faults.push(fault);
        }
    }
}

/// Verifies all shards.
pub async fn verify(shards: &Shards, settings: &SettingsCache) -> Result<Verified> {
    let mut progress = VerifyProgress::default();
    for node in shards.router().open_nodes() {
        let connection = node.connection().map_err(|error| CallFault::classify(&error).into_error())?;
        scan_keys(shards, connection.client(), &mut progress).await?;
    }
    for shard in shards.keys.all() {
        verify_shard(shards, shard, &mut progress).await?;
        for fault in schedules::faults(shards, shard).await? {
            progress.add_fault(format!("shard {shard}: {fault}"));
        }
    }
    settings.faults().await?.into_iter().for_each(|fault| progress.add_fault(fault));
    Ok(progress.verified)
}

/// Scans the keys of a server: collects the outlets, and reports keys that should not exist.
async fn scan_keys(shards: &Shards, client: &Client, progress: &mut VerifyProgress) -> Result<()> {
    let mut cursor = "0".to_owned();
    loop {
        let scan = CustomCommand::new_static("SCAN", ClusterHash::Random, false);
        let args: Vec<Value> = vec![
            cursor.into(),
            "MATCH".into(),
            shards.keys.pattern().into(),
            "COUNT".into(),
            KEYS_PAGE.into(),
        ];
        let reply: Value =
            client.custom(scan, args).await.map_err(|error| CallFault::classify(&error).into_error())?;
        let mut reply = Reply::new(reply)?;
        cursor = reply.text()?;
        let mut keys = reply.list()?;
        while !keys.is_empty() {
            let key = keys.bytes()?;
            match shards.keys.owner(&key) {
                KeyOwner::Outlet(shard, outlet) => {
                    progress.outlets.entry(shard).or_default().insert(outlet);
                }
                KeyOwner::Unknown => {
                    let key = String::from_utf8_lossy(&key);
                    progress.add_fault(format!("key {key}: it is not of this engine"));
                }
                KeyOwner::Shard | KeyOwner::Foreign => {}
            }
        }
        if cursor == "0" {
            return Ok(());
        }
    }
}

async fn verify_shard(shards: &Shards, shard: Shard, progress: &mut VerifyProgress) -> Result<()> {
    let mut outlets: Vec<Outlet> = progress.outlets.remove(&shard).into_iter().flatten().collect();
    let (mut step, mut cursor, mut found) = (1, "0".to_owned(), Verified::default());
    while step > 0 {
        let mut reply = Reply::new(verify_part(shards, shard, step, &cursor, &outlets).await?)?;
        let (next, begins) = ((reply.int()?, reply.text()?), reply.int()? == 1);
        let (jobs, stale, set_aside) = (reply.count()?, reply.count()?, reply.count()?);
        let (faults, ids, mut unknown) = (reply.list()?, reply.list()?, reply.list()?);
        if !unknown.is_empty() {
            while !unknown.is_empty() {
                outlets.push(unknown.name()?);
            }
            continue;
        }
        (step, cursor) = next;
        if begins {
            found = Verified::default();
        }
        found.jobs += jobs;
        found.stale += stale;
        found.set_aside += set_aside;
        found.faults.extend(faults_of(shards, shard, faults, ids)?);
        found.faults.truncate(FAULTS_LIMIT);
    }
    progress.verified.jobs += found.jobs;
    progress.verified.stale += found.stale;
    progress.verified.set_aside += found.set_aside;
    found.faults.into_iter().for_each(|fault| progress.add_fault(fault));
    Ok(())
}

async fn verify_part(
    shards: &Shards,
    shard: Shard,
    step: i64,
    cursor: &str,
    outlets: &[Outlet],
) -> Result<Value> {
    let keys = shards.keys.shard(shard);
    let mut all: Vec<_> = keys.of_scripts().cloned().collect();
    all.extend(outlets.iter().flat_map(|outlet| [keys.ready(outlet), keys.dead(&outlet.topic)]));
    let call = shards.read(Script::Verify, &[shard], all).arg(step).arg(cursor);
    let call = outlets.iter().fold(call, |call, outlet| call.arg(outlet_arg(outlet)));
    shards.call(call).await
}

/// The faults that a part found, and the jobs that belong to another shard.
fn faults_of(shards: &Shards, shard: Shard, mut faults: Reply, mut ids: Reply) -> Result<Vec<String>> {
    let mut all = Vec::new();
    while !faults.is_empty() {
        all.push(format!("shard {shard}: {}", String::from_utf8_lossy(&faults.bytes()?)));
    }
    while !ids.is_empty() {
        let raw = ids.bytes()?;
        let id = std::str::from_utf8(&raw).ok().and_then(|text| JobId::parse(text).ok());
        if id.is_none_or(|id| shards.keys.shard_of(&id) != shard) {
            let id = String::from_utf8_lossy(&raw);
            all.push(format!("shard {shard}: job {id}: it does not belong to this shard"));
        }
    }
    Ok(all)
}
