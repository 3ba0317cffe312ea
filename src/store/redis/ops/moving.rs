//! The mark and the fences of a move.

use std::sync::Arc;

use fred::types::{Key, Value};
use futures_util::future::try_join_all;

use crate::store::{
    Error, MoveMark, Result,
    redis::{
        connection::call::ScriptCall,
        coordination::shards::Shards,
        keys,
        reply::{Reply, unexpected},
        scripts::Script,
    },
};

/// Reads and writes the mark, and sets the fences.
pub struct MoveWriter {
    pub shards: Arc<Shards>,
}

impl MoveWriter {
    /// Identifies what is stored under the prefix, wherever it is.
    pub fn store_id(&self) -> String {
        let seed = self.shards.context().layout.host_seed();
        format!("{:032x}", u128::from_be_bytes(seed))
    }

    pub async fn mark(&self) -> Result<Option<MoveMark>> {
        let (meta, slot) = self.meta();
        let call = ScriptCall::new(Script::GetLayout, slot, vec![meta], Vec::new());
        let mut reply = Reply::new(self.shards.call(call).await?)?;
        for _ in ["format", "shards", "seed"] {
            reply.value()?;
        }
        let Some(mark) = reply.value()?.into_bytes() else { return Ok(None) };
        let unreadable = || Error::Damaged("the mark of a move cannot be read".to_owned());
        MoveMark::decode(&mark).map(Some).ok_or_else(unreadable)
    }

    pub async fn set_mark(&self, was: Option<&MoveMark>, mark: Option<&MoveMark>) -> Result<bool> {
        let (meta, slot) = self.meta();
        let encoded = |mark: Option<&MoveMark>| mark.map(MoveMark::encode).unwrap_or_default();
        let call = ScriptCall::new(Script::SetMoveMark, slot, vec![meta], Vec::new())
            .wait_with_mark(self.shards.keys.mark.clone())
            .arg(encoded(was))
            .arg(encoded(mark))
            .deadline();
        let set = self.shards.call_acknowledged(call).await?.as_i64();
        set.map(|set| set == 1).ok_or_else(|| unexpected("whether the mark was set"))
    }

    /// Once a fence is set, the server itself refuses what others send, however late it arrives.
    pub async fn set_fence(&self, closed: bool) -> Result<()> {
        let keys = &self.shards.keys;
        let of_shards = keys.all().map(|shard| {
            let of_shard = keys.shard(shard);
            (of_shard.slot, of_shard.counts.clone(), of_shard.mark.clone(), self.shards.origin(shard))
        });
        let settings = (keys.slot, keys.settings.clone(), keys.mark.clone(), self.shards.process().into());
        let set = |(slot, key, mark, origin): (u16, Key, Key, Value)| async move {
            let origin = if closed { origin } else { "".into() };
            let call = ScriptCall::new(Script::SetFence, slot, vec![key], vec![origin]);
            self.shards.call_acknowledged(call.wait_with_mark(mark).deadline()).await.map(drop)
        };
        try_join_all(of_shards.chain([settings]).map(set)).await.map(drop)
    }

    fn meta(&self) -> (Key, u16) {
        keys::meta(&self.shards.context().options.prefix)
    }
}
