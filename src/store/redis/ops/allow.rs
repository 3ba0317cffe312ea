//! The rates of calls of the topics, over all processes.

use std::time::Duration;

use crate::{
    job::{CallRate, Topic},
    store::{
        Allowed, Result,
        redis::{connection::call::ScriptCall, coordination::shards::Shards, reply::Reply, scripts::Script},
    },
};

/// Takes calls of a rate.
pub async fn allow(shards: &Shards, topic: &Topic, rate: CallRate, want: usize) -> Result<Allowed> {
    let keys = &shards.keys;
    let call =
        ScriptCall::new(Script::Allow, keys.slot, vec![keys.rate_limits.clone()], Vec::with_capacity(5))
            .arg(shards.now_arg())
            .arg(topic.as_str())
            .arg(i64::from(rate.as_milli()))
            .arg(i64::try_from(want).unwrap_or(i64::MAX))
            .deadline();
    let mut reply = Reply::new(shards.call(call).await?)?;
    let granted = usize::try_from(reply.count()?).unwrap_or(usize::MAX);
    let next_in = Duration::from_micros(reply.count()?);
    Ok(Allowed { granted, next_in, rate, stored: reply.int()?.into() })
}

/// Gives calls of a rate back. Not repeated after a fault: the next call is then later than it could be.
pub async fn give_back(shards: &Shards, topic: &Topic, allowed: Allowed, unused: usize) -> Result<()> {
    let keys = &shards.keys;
    let keys_of_call = vec![keys.rate_limits.clone()];
    let call = ScriptCall::new(Script::GiveBackCalls, keys.slot, keys_of_call, Vec::with_capacity(5))
        .without_retry()
        .arg(topic.as_str())
        .arg(i64::from(allowed.rate.as_milli()))
        .arg(i64::try_from(unused).unwrap_or_default())
        .arg(i64::try_from(allowed.stored).unwrap_or_default())
        .deadline();
    shards.call(call).await.map(drop)
}
