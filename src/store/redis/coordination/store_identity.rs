//! The marks that tell the shards of a store from those of others. A shard without a mark was emptied; on a Cluster each
//! server can be emptied alone. Must not know the stored layout.

use futures_util::future::try_join_all;

use super::shards::Shards;
use crate::store::{
    Result,
    redis::{
        connection::{call::ScriptCall, retry::ScriptClient},
        keys::{Keys, Shard, ShardKeys},
        layout::marked_shards,
        reply::Reply,
        scripts::Script,
    },
};

/// Marks all shards, in place of marks of other stores.
pub async fn mark_all(client: &ScriptClient, keys: &Keys, mark: &str) -> Result<()> {
    let marked = keys.all().map(|shard| mark_shard(client, keys.shard(shard), mark, true));
    try_join_all(marked).await.map(drop)
}

async fn mark_shard(
    client: &ScriptClient,
    keys: &ShardKeys,
    mark: &str,
    replaces_others: bool,
) -> Result<()> {
    let call = ScriptCall::new(Script::MarkShard, keys.slot, vec![keys.counts.clone()], Vec::new())
        .arg(mark)
        .arg(if replaces_others { "1" } else { "" })
        .deadline();
    client.call_with_retry(call).await.map(drop)
}

/// A mark that a shard has, if any has one.
pub async fn any_mark(client: &ScriptClient, keys: &Keys) -> Result<Option<String>> {
    Ok(fences(client, keys).await?.into_iter().find(|fence| marked_shards(fence).is_some()))
}

/// Whether all shards belong to the store with this mark.
pub async fn all_belong(client: &ScriptClient, keys: &Keys, mark: &str) -> Result<bool> {
    Ok(fences(client, keys).await?.iter().all(|fence| belongs(fence.as_bytes(), mark)))
}

/// The fences or marks of all shards; an empty one of a shard that has none.
async fn fences(client: &ScriptClient, keys: &Keys) -> Result<Vec<String>> {
    let all: Vec<Shard> = keys.all().collect();
    let part = if client.router.has_single_primary() { all.len() } else { 1 };
    let parts = all.chunks(part).map(|part| {
        let counts = part.iter().map(|shard| keys.shard(*shard).counts.clone()).collect();
        let call = ScriptCall::new(Script::GetFences, keys.shard(part[0]).slot, counts, Vec::new());
        async { Reply::new(client.call_with_retry(call).await?.value)?.texts() }
    });
    Ok(try_join_all(parts).await?.concat())
}

/// Whether a shard with this fence belongs to the store with this mark. The fence of a move names no store.
fn belongs(fence: &[u8], mark: &str) -> bool {
    !fence.is_empty() && (fence[0] != b'x' || fence == mark.as_bytes())
}

/// Remembers whether a shard with this fence, as the sweep reads it, is that of this process's store.
pub async fn check_shard(shards: &Shards, shard: Shard, fence: &[u8]) {
    let (context, keys) = (shards.context(), shards.keys.shard(shard));
    let (layout, accepts_empty) = (&context.layout, context.options.accept_empty);
    let mark = layout.mark();
    let has_only_jobs = fence == b"?";
    if (has_only_jobs || fence.is_empty() && accepts_empty) && !layout.is_lost(shards.keys.slot) {
        if fence.is_empty() {
            tracing::warn!(shard, "a shard was emptied: its jobs are lost (redis.accept_empty)");
        }
        if let Err(error) = mark_shard(shards.client(), keys, &mark, false).await {
            tracing::debug!(%error, shard, "a shard could not be marked");
        }
    }
    layout.set_lost(keys.slot, !has_only_jobs && !belongs(fence, &mark) && !accepts_empty);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_belongs_to_the_store_whose_mark_it_has() {
        let mark = "x004112233445566";
        assert!(belongs(mark.as_bytes(), mark));
        assert!(!belongs(b"x004aaaaaaaaaaaa", mark));
        assert!(!belongs(b"", mark), "it was emptied");
        assert!(belongs(b"0000000000000007 ", mark), "it was moved here");
    }
}
