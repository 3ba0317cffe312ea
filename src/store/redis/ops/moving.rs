//! The mark and the fences of a move.

use fred::types::{Key, Value};

use crate::store::{
    ClockOffsets, Error, MoveMark, Result, ServerSet,
    redis::{
        connection::{all_servers, call::ScriptCall},
        coordination::shards::Shards,
        indexed::all_calls,
        keys,
        reply::{Reply, unexpected},
        scripts::Script,
    },
};

/// Identifies what is stored under the prefix, wherever it is.
pub fn store_id(shards: &Shards) -> String {
    let seed = shards.context().layout.host_seed();
    format!("{:032x}", u128::from_be_bytes(seed))
}

pub async fn clock_offsets(shards: &Shards) -> Result<ClockOffsets> {
    all_servers::clock_offsets(shards.router(), &shards.context().clock).await
}

pub async fn mark(shards: &Shards) -> Result<Option<MoveMark>> {
    let (meta, slot) = meta(shards);
    let call = ScriptCall::new(Script::GetLayout, slot, vec![meta], Vec::new());
    let mut reply = Reply::new(shards.call(call).await?)?;
    for _ in ["format", "shards", "seed"] {
        reply.value()?;
    }
    let Some(mark) = reply.value()?.into_bytes() else { return Ok(None) };
    let unreadable = || Error::Damaged("the mark of a move cannot be read".to_owned());
    MoveMark::decode(&mark).map(Some).ok_or_else(unreadable)
}

pub async fn set_mark(shards: &Shards, was: Option<&MoveMark>, mark: &MoveMark) -> Result<bool> {
    let (meta, slot) = meta(shards);
    let call = ScriptCall::new(Script::SetMoveMark, slot, vec![meta], Vec::new())
        .wait_with_mark(shards.keys.mark.clone())
        .arg(was.map(MoveMark::encode).unwrap_or_default())
        .arg(mark.encode())
        .deadline();
    is_done(shards, call).await
}

/// Once a fence is set, the server itself refuses what others send, however late it arrives.
pub async fn set_fence(shards: &Shards, number: u64, closed: bool) -> Result<bool> {
    let keys = &shards.keys;
    let of_shards = keys.all().map(|shard| {
        let of_shard = keys.shard(shard);
        (of_shard.slot, of_shard.counts.clone(), of_shard.mark.clone(), shards.origin(shard))
    });
    let settings = (keys.slot, keys.settings.clone(), keys.mark.clone(), shards.process().into());
    let set = |(slot, key, mark, origin): (u16, Key, Key, Value)| {
        let origin = if closed { origin } else { "".into() };
        let call =
            ScriptCall::new(Script::SetFence, slot, vec![key], vec![number.to_string().into(), origin]);
        is_done(shards, call.wait_with_mark(mark).deadline())
    };
    let set = all_calls(of_shards.chain([settings]).map(set)).await?;
    Ok(set.into_iter().all(|set| set))
}

async fn is_done(shards: &Shards, call: ScriptCall) -> Result<bool> {
    let done = shards.call_acknowledged(call).await?.as_i64();
    done.map(|done| done == 1).ok_or_else(|| unexpected("whether it was done"))
}

pub async fn servers(shards: &Shards) -> Result<ServerSet> {
    all_servers::servers(shards.router(), slots(shards).map(|(slot, _)| slot)).await
}

/// Waits for the replicas of each server.
pub async fn wait_for_replicas(shards: &Shards) -> Result<()> {
    // Less than the time after which a connection without a reply is given up.
    let wait = shards.context().options.command_timeout / 2;
    for (slot, mark) in slots(shards) {
        all_servers::wait_for_all_replicas(shards.router(), slot, mark, wait).await?;
    }
    Ok(())
}

/// Slots of all servers, each with a key in it that every process may write, even when the store is fenced.
fn slots(shards: &Shards) -> impl Iterator<Item = (u16, &Key)> {
    let keys = &shards.keys;
    let of_groups = shards.groups().into_iter().filter_map(|group| group.first().copied());
    of_groups.map(|shard| (keys.shard(shard).slot, &keys.shard(shard).mark)).chain([(keys.slot, &keys.mark)])
}

fn meta(shards: &Shards) -> (Key, u16) {
    keys::meta(&shards.context().options.prefix)
}
