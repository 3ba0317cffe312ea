//! The first delayed or ready jobs of many outlets, for a list. Memory has the keys of each outlet in order, but there may be
//! very many outlets: the writer visits some of them in each step, and the caller keeps the first keys of all.

use std::{cmp::Ordering, collections::BTreeMap, ops::Range, sync::Arc};

use super::{
    list::{WaitingKey, key_range, parse_position},
    write_txn::WriteTxn,
};
use crate::{
    job::{Outlet, State},
    store::{
        JobFilter, ListPosition, Order,
        embedded::{memory::topics::OutletState, rows::key::RowKey},
    },
};

/// Outlets visited, and about how many keys read, in one step of the writer: some hundred microseconds. Tests cross many ends
/// of steps.
const MAX_OUTLETS: usize = if cfg!(test) { 2 } else { 2_000 };
const MAX_KEYS: usize = if cfg!(test) { 2 } else { 4_000 };

/// Which keys are wanted.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub filter: Arc<JobFilter>,
    pub order: Order,
    pub after: Option<ListPosition>,
    /// How many.
    pub most: usize,
}

/// Where the next step begins: with this outlet, behind this key of it.
#[derive(Debug, Clone)]
pub(crate) struct OutletPlace {
    outlet: Outlet,
    behind: Option<RowKey>,
}

/// The first keys of the outlets that were visited.
#[derive(Debug)]
pub(crate) struct FirstKeys {
    order: Order,
    most: usize,
    keys: Vec<WaitingKey>,
}

impl FirstKeys {
    pub fn new(wanted: &Wanted) -> Self {
        Self { order: wanted.order, most: wanted.most, keys: Vec::new() }
    }

    pub fn add(&mut self, keys: Vec<WaitingKey>) {
        self.keys.extend(keys);
        if self.keys.len() >= self.most {
            let order = self.order;
            self.keys.select_nth_unstable_by(self.most - 1, |one, other| compare(order, one, other));
            self.keys.truncate(self.most);
        }
    }

    /// The last key that is kept, if no further ones are: the following steps need only keys before it.
    pub fn bound(&self) -> Option<RowKey> {
        // `add` leaves it in its place.
        self.keys.get(self.most - 1).map(|(key, _)| *key)
    }

    pub fn into_sorted(mut self) -> Vec<WaitingKey> {
        let order = self.order;
        self.keys.sort_unstable_by(|one, other| compare(order, one, other));
        self.keys
    }
}

fn compare(order: Order, one: &WaitingKey, other: &WaitingKey) -> Ordering {
    match order {
        Order::Ascending => one.cmp(other),
        Order::Descending => other.cmp(one),
    }
}

/// One step: the wanted keys before `bound` of some outlets, and where the next step begins; `None` after the last outlet.
pub(crate) fn first_keys(
    txn: &WriteTxn<'_>,
    wanted: &Wanted,
    place: Option<&OutletPlace>,
    bound: Option<RowKey>,
) -> (Vec<WaitingKey>, Option<OutletPlace>) {
    let Wanted { filter, order, after, .. } = wanted;
    let after = after.as_ref().and_then(parse_position).and_then(|after| after.key());
    let range = key_range(filter, txn.wall_ahead_ms);
    let range = behind_key(behind_key(range, *order, after), reverse(*order), bound);
    let topics = txn.memory.topics();
    let first = place.map(|place| place.outlet.clone());
    let first = first.or_else(|| filter.topic.clone().map(Outlet::plain));
    let outlets = topics.outlets_from(first.as_ref());
    let outlets = outlets
        .take_while(|(_, state)| filter.topic.as_ref().is_none_or(|topic| state.outlet.topic == *topic));
    let mut found: Vec<WaitingKey> = Vec::new();
    for (visited, (number, state)) in outlets.enumerate() {
        let place_in = |behind| Some(OutletPlace { outlet: state.outlet.clone(), behind });
        if visited >= MAX_OUTLETS || found.len() >= MAX_KEYS {
            return (found, place_in(None));
        }
        let behind = place.filter(|place| place.outlet == state.outlet).and_then(|place| place.behind);
        let range = behind_key(range.clone(), *order, behind);
        if range.is_empty() {
            continue;
        }
        let room = MAX_KEYS - found.len();
        let keys = keys_in(state, filter.state, range, *order, room);
        found.extend(keys.iter().map(|key| (*key, number)));
        if keys.len() == room {
            return (found, place_in(keys.last().copied()));
        }
    }
    (found, None)
}

/// The part of a range that comes behind a key in this order.
fn behind_key(range: Range<RowKey>, order: Order, key: Option<RowKey>) -> Range<RowKey> {
    match (order, key) {
        (_, None) => range,
        (Order::Ascending, Some(key)) => range.start.max(key.next())..range.end,
        (Order::Descending, Some(key)) => range.start..range.end.min(key),
    }
}

fn reverse(order: Order) -> Order {
    match order {
        Order::Ascending => Order::Descending,
        Order::Descending => Order::Ascending,
    }
}

/// The first `most` keys of an outlet within a range.
fn keys_in(
    outlet: &OutletState,
    state: State,
    range: Range<RowKey>,
    order: Order,
    most: usize,
) -> Vec<RowKey> {
    match state {
        State::Delayed => {
            merge(order, outlet.delayed.iter().map(|keys| keys.range(range.clone()).copied()), most)
        }
        State::Ready | State::Reserved | State::Dead => {
            let keys = outlet.ready.range(range).map(|(key, _)| *key);
            match order {
                Order::Ascending => keys.take(most).collect(),
                Order::Descending => keys.rev().take(most).collect(),
            }
        }
    }
}

/// The first `most` keys of several ordered iterators.
fn merge<I: DoubleEndedIterator<Item = RowKey>>(
    order: Order,
    iterators: impl Iterator<Item = I>,
    most: usize,
) -> Vec<RowKey> {
    let advance = |keys: &mut I| match order {
        Order::Ascending => keys.next(),
        Order::Descending => keys.next_back(),
    };
    let mut heads: BTreeMap<RowKey, I> =
        iterators.filter_map(|mut keys| Some((advance(&mut keys)?, keys))).collect();
    let mut found = Vec::new();
    while found.len() < most {
        let first = match order {
            Order::Ascending => heads.pop_first(),
            Order::Descending => heads.pop_last(),
        };
        let Some((key, mut rest)) = first else { break };
        found.push(key);
        heads.extend(advance(&mut rest).map(|next| (next, rest)));
    }
    found
}
