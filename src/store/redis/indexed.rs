//! The calls of a batch, one for each shard, and its items with their indexes, so that outcomes return to the order of the
//! items.

use std::collections::BTreeMap;

use futures_util::{
    FutureExt,
    future::{JoinAll, Map, join_all},
};

use crate::{
    job::JobId,
    store::{
        Error, Result,
        redis::keys::{Keys, Shard},
    },
};

/// Items of a batch with their indexes in it.
pub type Indexed<T> = Vec<(usize, T)>;

/// The calls that [`all_calls`] awaits.
pub type AllCalls<F, T> = Map<JoinAll<F>, fn(Vec<Result<T>>) -> Result<Vec<T>>>;

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
    Ok(in_order(count, all_calls(calls).await?))
}

/// Awaits all calls of a change, also when one of them fails: an error means that none can have an effect any more.
pub fn all_calls<F: Future<Output = Result<T>>, T>(calls: impl IntoIterator<Item = F>) -> AllCalls<F, T> {
    join_all(calls).map(all_outcomes)
}

/// The outcomes of all calls, or an error. That says that nothing has happened only if it is true of every call.
fn all_outcomes<T>(outcomes: Vec<Result<T>>) -> Result<Vec<T>> {
    let nothing_happened = outcomes.iter().all(|outcome| matches!(outcome, Err(Error::Full(_))));
    let all: Result<Vec<T>> = outcomes.into_iter().collect();
    all.map_err(|error| if nothing_happened { error } else { error.of_unknown_effect() })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_that_nothing_has_happened_only_if_it_is_true_of_every_call() {
        let full = || Error::Full("memory".to_owned());
        let unknown = Err(Error::Unavailable("memory".to_owned()));
        assert_eq!(all_outcomes(vec![Ok(1), Ok(2)]), Ok(vec![1, 2]));
        assert_eq!(all_outcomes::<()>(vec![Err(full()), Err(full())]), Err(full()));
        assert_eq!(all_outcomes(vec![Err(full()), Ok(())]), unknown);
        assert_eq!(all_outcomes(vec![Err(full()), Err(Error::NotDurable(String::new()))]), unknown);
    }
}
