//! Lists of jobs, page by page. Memory has the keys of all delayed, ready and reserved jobs in order; dead letters are in
//! order on disk.

use std::{
    fmt,
    ops::{Bound, Range},
    str::FromStr,
    time::Duration,
};

use bytes::Bytes;

use super::write_txn::WriteTxn;
use crate::{
    job::{Body, State, Timestamp, Topic},
    store::{
        JobFilter, JobPage, ListPosition, ListedJob, Order,
        embedded::{
            memory::{state::Memory, topics::OutletNumber},
            rows::{
                codec::Record,
                db::{SqlResult, Table},
                key::RowKey,
            },
        },
    },
};

/// Jobs examined in one step of the writer: about a millisecond. Tests cross many ends of steps.
pub(crate) const MAX_STEP: usize = if cfg!(test) { 3 } else { 250 };

/// A delayed or ready job, and its outlet when it was found.
pub(crate) type WaitingKey = (RowKey, OutletNumber);

/// A job whose moment is full has a key that is a little later than its due time.
const CROWDED: Duration = Duration::from_secs(1);

/// Where a job stands in a list: its moment in milliseconds, and what orders the jobs of one moment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    moment_ms: i64,
    /// The bits of a key, or the id of a dead letter.
    tie: String,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.moment_ms, self.tie)
    }
}

impl FromStr for Position {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (moment, tie) = text.split_once(' ').ok_or(())?;
        let moment_ms = moment.parse().ok().filter(|moment| *moment >= 0).ok_or(())?;
        Ok(Self { moment_ms, tie: tie.to_owned() })
    }
}

impl Position {
    pub(super) fn of_key(moment: Timestamp, key: RowKey) -> Self {
        Self { moment_ms: moment.as_millis(), tie: key.to_bits().to_string() }
    }

    /// The moment and the key, where these order the jobs; `None` for a position in another kind of list.
    pub(super) fn place(&self) -> Option<(Timestamp, RowKey)> {
        Some((Timestamp::from_millis(self.moment_ms), self.key()?))
    }

    /// The key, where keys order the jobs; `None` for a position in another kind of list.
    pub(super) fn key(&self) -> Option<RowKey> {
        RowKey::from_row(self.tie.parse().ok()?)
    }
}

/// One step of [`crate::store::Store::list`] for reserved and dead jobs, of at most [`MAX_STEP`] of them. Sets aside the broken
/// records that it meets.
pub(crate) fn list(
    txn: &mut WriteTxn<'_>,
    filter: &JobFilter,
    order: Order,
    after: Option<&ListPosition>,
    limit: usize,
) -> SqlResult<JobPage> {
    let after = after.and_then(parse_position);
    let after = after.as_ref();
    let candidates = match filter.state {
        State::Dead => dead(txn, filter, order, after)?,
        State::Delayed | State::Ready | State::Reserved => reserved(txn, filter, order, after),
    };
    let mut page = examine(txn, filter, &candidates, limit)?;
    if page.examined == candidates.len() && candidates.len() < MAX_STEP {
        page.next = None;
    }
    Ok(page)
}

/// The same for delayed and ready jobs, whose keys were found before. Those that moved since are left out.
pub(crate) fn list_waiting(
    txn: &mut WriteTxn<'_>,
    filter: &JobFilter,
    keys: &[WaitingKey],
    limit: usize,
) -> SqlResult<JobPage> {
    let topics = txn.memory.topics();
    let waits = |(key, outlet): &WaitingKey| {
        topics.try_get(*outlet).is_some_and(|outlet| match filter.state {
            State::Delayed => outlet.delayed.contains(*key),
            State::Ready | State::Reserved | State::Dead => outlet.ready.contains_key(key),
        })
    };
    let candidates: Vec<Candidate> = keys
        .iter()
        .map(|found| (Position::of_key(found.0.slot(), found.0), waits(found).then_some(found.0)))
        .collect();
    examine(txn, filter, &candidates, limit)
}

/// Reads candidates until `limit` of them match. The position of the page is that of the last one.
pub(super) fn examine(
    txn: &mut WriteTxn<'_>,
    filter: &JobFilter,
    candidates: &[Candidate],
    limit: usize,
) -> SqlResult<JobPage> {
    let (mut page, mut last) = (JobPage { jobs: Vec::new(), next: None, examined: 0 }, None);
    for (position, key) in candidates {
        if page.jobs.len() == limit {
            break;
        }
        page.examined += 1;
        last = Some(position);
        let Some(key) = *key else { continue };
        let is_dead = filter.state == State::Dead;
        match txn.db.read_listed(Table::for_job(is_dead), key)? {
            Ok((head, body_bytes)) => {
                let lease = txn.memory.lease(key).filter(|_| !is_dead);
                let record = Record { head, body: Body::from_stored(Bytes::new()) };
                let job = record.to_job(filter.state, lease, txn.wall_ahead_ms);
                page.jobs.extend(filter.matches(&job).then_some(ListedJob { job, body_bytes }));
            }
            Err(why) => txn.set_aside(key, is_dead, why)?,
        }
    }
    page.next = last.map(|position| ListPosition(position.to_string()));
    Ok(page)
}

/// The position of this engine's lists in a caller's.
pub(super) fn parse_position(after: &ListPosition) -> Option<Position> {
    after.0.parse().ok()
}

/// A position, with the key of its job unless the job belongs to another topic or has moved.
pub(super) type Candidate = (Position, Option<RowKey>);

/// The outlets of a topic, the plain one first.
fn outlets(memory: &Memory, topic: &Topic) -> Vec<OutletNumber> {
    let topics = memory.topics();
    let plain = topics.find_topic(topic.as_str());
    plain.into_iter().flat_map(|plain| topics.outlets_of(plain)).map(|(outlet, _)| outlet).collect()
}

/// The bounds of `from..to`, without what `after` has passed.
fn bounds<T: Ord + Copy>(from: T, to: T, order: Order, after: Option<T>) -> Option<(Bound<T>, Bound<T>)> {
    let bounds = match (order, after.filter(|after| (from..to).contains(after))) {
        (_, None) => (Bound::Included(from), Bound::Excluded(to)),
        (Order::Ascending, Some(after)) => (Bound::Excluded(after), Bound::Excluded(to)),
        (Order::Descending, Some(after)) => (Bound::Included(from), Bound::Excluded(after)),
    };
    // `BTreeSet::range` panics where a range is the wrong way around.
    (from < to && bounds != (Bound::Excluded(to), Bound::Excluded(to))).then_some(bounds)
}

/// The keys that the filter may allow. It names times of the machine's clock, and keys may be of the store's, so the range
/// is wide enough for both.
pub(super) fn key_range(filter: &JobFilter, wall_ahead_ms: i64) -> Range<RowKey> {
    let first = |from: Timestamp| RowKey::first_at(from.min(from.shifted(-wall_ahead_ms)));
    let end = |to: Timestamp| RowKey::first_at(to.max(to.shifted(-wall_ahead_ms)).after(CROWDED));
    filter.from.map_or(RowKey::START, first)..filter.to.map_or(RowKey::END, end)
}

/// The next reserved jobs of all topics.
fn reserved(
    txn: &WriteTxn<'_>,
    filter: &JobFilter,
    order: Order,
    after: Option<&Position>,
) -> Vec<Candidate> {
    let memory = &*txn.memory;
    let stored = |moment: Timestamp| moment.shifted(-txn.wall_ahead_ms);
    let allowed = filter.topic.as_ref().map(|topic| {
        let mut allowed = outlets(memory, topic);
        allowed.sort_unstable();
        allowed
    });
    let from = (filter.from.map_or(Timestamp::from_millis(0), stored), RowKey::START);
    let to = filter.to.map_or((Timestamp::MAX, RowKey::END), |to| (stored(to), RowKey::START));
    let after = after.and_then(Position::place);
    let Some(range) = bounds(from, to, order, after) else { return Vec::new() };
    let deadlines = memory.deadlines().range(range);
    let candidate = |(deadline, key): &(Timestamp, RowKey)| {
        let of_topic = |allowed: &Vec<_>| allowed.binary_search(&memory.reserved_outlet(*key)).is_ok();
        let is_allowed = allowed.as_ref().is_none_or(of_topic);
        (Position::of_key(*deadline, *key), is_allowed.then_some(*key))
    };
    match order {
        Order::Ascending => deadlines.take(MAX_STEP).map(candidate).collect(),
        Order::Descending => deadlines.rev().take(MAX_STEP).map(candidate).collect(),
    }
}

/// The next dead letters.
fn dead(
    txn: &WriteTxn<'_>,
    filter: &JobFilter,
    order: Order,
    after: Option<&Position>,
) -> SqlResult<Vec<Candidate>> {
    let is_ascending = order == Order::Ascending;
    let Some(topic) = &filter.topic else {
        // The times of the filter do not bound the keys: these are of the store's clock when a job died, and how far that was
        // behind the machine's is not known any more.
        let (mut from, mut to) = (RowKey::START, RowKey::END);
        match (order, after.and_then(Position::key)) {
            (Order::Ascending, Some(after)) => from = from.max(after.next()),
            (Order::Descending, Some(after)) => to = to.min(after),
            (_, None) => {}
        }
        let keys = txn.db.dead_keys((from, to), is_ascending, MAX_STEP)?;
        return Ok(keys.into_iter().map(|key| (Position::of_key(key.slot(), key), Some(key))).collect());
    };
    let (from_ms, to_ms) =
        (filter.from.map_or(0, Timestamp::as_millis), filter.to.map_or(i64::MAX, Timestamp::as_millis));
    let after = after.map(|after| (after.moment_ms, after.tie.as_str()));
    // No id is empty: these positions are before all jobs of their moments.
    let (after, end_ms) = match order {
        Order::Ascending => (after.unwrap_or((from_ms, "")).max((from_ms, "")), to_ms),
        Order::Descending => (after.unwrap_or((to_ms, "")).min((to_ms, "")), from_ms),
    };
    let found = txn.db.dead_of_topic(topic, after, end_ms, is_ascending, MAX_STEP)?;
    Ok(found.into_iter().map(|((moment_ms, tie), key)| (Position { moment_ms, tie }, Some(key))).collect())
}
