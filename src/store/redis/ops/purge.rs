//! Purging a topic: deleting all its jobs, slice by slice.

use crate::{
    job::{Outlet, Topic},
    store::{
        PurgeCursor, PurgeSlice, Result,
        redis::{coordination::shards::Shards, keys::Shard, reply::Reply, scripts::Script},
    },
};

/// Most jobs that one run of the script checks, so that none blocks Redis for long.
const SLICE: usize = 500;

/// Scans the pools one after the other. The cursor is the shard and the cursor of its scan (`scripts/scan.lua`), which
/// returns every job that is there from start to end.
pub async fn purge_slice(
    shards: &Shards,
    topic: &Topic,
    cursor: Option<PurgeCursor>,
    limit: usize,
) -> Result<PurgeSlice> {
    // An invalid cursor starts over, which deletes no less.
    let (shard, at) = cursor.as_ref().and_then(|cursor| parse_cursor(shards, cursor)).unwrap_or((0, "0"));
    let mut outlets = vec![Outlet::plain(topic.clone())];
    let (next_at, deleted) = loop {
        let slot = shards.replay_slots.acquire(shard);
        let known: Vec<&Outlet> = outlets.iter().collect();
        let call = shards
            .change(Script::Purge, shard, Some(&slot), &known)
            .arg(topic.as_str())
            .arg(at)
            .arg(i64::try_from(limit.clamp(1, SLICE)).expect("a slice is small"));
        let mut reply = Reply::new(shards.call_acknowledged(call).await?)?;
        let (next_at, deleted, mut unknown) = (reply.text()?, reply.count()?, reply.list()?);
        if unknown.is_empty() {
            break (next_at, deleted);
        }
        // A topic has at most 257 outlets, and each run names new ones.
        while !unknown.is_empty() {
            outlets.push(unknown.name()?);
        }
    };
    let next = match next_at.as_str() {
        "0" => shards.keys.all().find(|other| *other > shard).map(|other| format!("{other}:0")),
        next_at => Some(format!("{shard}:{next_at}")),
    };
    Ok(PurgeSlice { deleted: usize::try_from(deleted).unwrap_or(usize::MAX), next: next.map(PurgeCursor) })
}

fn parse_cursor<'a>(shards: &Shards, cursor: &'a PurgeCursor) -> Option<(Shard, &'a str)> {
    let (shard, at) = cursor.0.split_once(':')?;
    let shard: Shard = shard.parse().ok()?;
    shards.keys.all().any(|known| known == shard).then_some((shard, at))
}
