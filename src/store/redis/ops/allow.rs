//! The rates of calls of the topics, over all processes.

use std::{sync::Arc, time::Duration};

use crate::{
    job::{CallRate, Topic},
    store::{
        Allowed, Result,
        redis::{connection::call::ScriptCall, coordination::shards::Shards, reply::Reply, scripts::Script},
    },
};

/// Takes calls of a rate.
pub struct RateLimiter {
    shards: Arc<Shards>,
}

impl RateLimiter {
    pub fn new(shards: Arc<Shards>) -> Self {
        Self { shards }
    }

    pub async fn allow(&self, topic: &Topic, rate: CallRate, want: usize) -> Result<Allowed> {
        let keys = &self.shards.keys;
        let call =
            ScriptCall::new(Script::Allow, keys.slot, vec![keys.rate_limits.clone()], Vec::with_capacity(5))
                .arg(self.shards.now_arg())
                .arg(topic.as_str())
                .arg(i64::from(rate.as_milli()))
                .arg(i64::try_from(want).unwrap_or(i64::MAX))
                .deadline();
        let mut reply = Reply::new(self.shards.call(call).await?)?;
        let granted = usize::try_from(reply.count()?).unwrap_or(usize::MAX);
        Ok(Allowed { granted, next_in: Duration::from_micros(reply.count()?) })
    }
}
