//! Items of a batch with their indexes, so that outcomes from several shards return to the order of the items.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;

use crate::{
    job::JobId,
    store::{
        Result,
        redis::keys::{Keys, Shard},
    },
};

/// Items of a batch with their indexes in it.
pub type Indexed<T> = Vec<(usize, T)>;

/// Makes a call about each shard's items of a batch, all at the same time. Returns the outcomes in the order of the items.
pub async fn on_each_shard<T, O, F: Future<Output = Result<Vec<O>>>>(
    keys: &Keys,
    items: Vec<T>,
    id: impl Fn(&T) -> &JobId,
    call: impl Fn(Shard, Vec<T>) -> F,
) -> Result<Vec<O>> {
    // Most batches have one item.
    if let [item] = &items[..] {
        return call(keys.shard_of(id(item)), items).await;
    }
    let count = items.len();
    let calls = by_shard(keys, items, id).into_iter().map(|(shard, items)| {
        let (indexes, items) = split(items);
        let called = call(shard, items);
        async move { Ok(join(indexes, called.await?)) }
    });
    Ok(in_order(count, try_join_all(calls).await?))
}

/// Groups the items of a batch by the shard of their id.
pub fn by_shard<T>(keys: &Keys, items: Vec<T>, id: impl Fn(&T) -> &JobId) -> BTreeMap<Shard, Indexed<T>> {
    keys.by_shard(items.into_iter().enumerate(), |(_, item)| id(item))
}

/// Splits items from their indexes.
fn split<T>(items: Indexed<T>) -> (Vec<usize>, Vec<T>) {
    items.into_iter().unzip()
}

/// Joins outcomes with the indexes of their items.
fn join<T>(indexes: Vec<usize>, outcomes: Vec<T>) -> Indexed<T> {
    indexes.into_iter().zip(outcomes).collect()
}

/// The outcomes of a batch in the order of its items.
pub fn in_order<T>(count: usize, outcomes: Vec<Indexed<T>>) -> Vec<T> {
    let mut all: Indexed<T> = Vec::with_capacity(count);
    all.extend(outcomes.into_iter().flatten());
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}
