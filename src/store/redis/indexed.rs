//! Items of a batch with their indexes, so that outcomes from several shards return to the order of the items.

use std::collections::BTreeMap;

use crate::{
    job::JobId,
    store::redis::keys::{Keys, Shard},
};

/// Items of a batch with their indexes in it.
pub type Indexed<T> = Vec<(usize, T)>;

/// Groups the items of a batch by the shard of their id.
pub fn by_shard<T>(keys: &Keys, items: Vec<T>, id: impl Fn(&T) -> &JobId) -> BTreeMap<Shard, Indexed<T>> {
    keys.by_shard(items.into_iter().enumerate(), |(_, item)| id(item))
}

/// Splits items from their indexes.
pub fn split<T>(items: Indexed<T>) -> (Vec<usize>, Vec<T>) {
    items.into_iter().unzip()
}

/// Joins outcomes with the indexes of their items.
pub fn join<T>(indexes: Vec<usize>, outcomes: Vec<T>) -> Indexed<T> {
    indexes.into_iter().zip(outcomes).collect()
}

/// The outcomes of a batch in the order of its items.
pub fn in_order<T>(count: usize, outcomes: Vec<Indexed<T>>) -> Vec<T> {
    let mut all: Indexed<T> = Vec::with_capacity(count);
    all.extend(outcomes.into_iter().flatten());
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}
