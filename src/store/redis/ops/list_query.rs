//! What the lists of all states share: positions, the arguments of `scripts/listing.lua`, and the jobs of its replies.

use std::{cmp::Ordering, fmt};

use bytes::Bytes;

use crate::{
    job::{Body, JobId},
    store::{
        JobFilter, ListedJob, Order, Result,
        redis::{
            codec::record::{self, state_code},
            connection::call::ScriptCall,
            reply::Reply,
        },
    },
};

/// Most runs of a script in a row for one page, so that jobs with large bodies do not delay it for long.
pub const MAX_RUNS: usize = 200;

/// The moment behind all others: records store moments in six bytes.
const END_MS: i64 = 1 << 48;

/// Where a job is in a list: its moment, and its id among jobs of the same moment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub moment_ms: i64,
    pub id: String,
}

impl Position {
    /// The position before all jobs of a moment.
    pub fn before(moment_ms: i64) -> Self {
        Self { moment_ms, id: String::new() }
    }

    /// Parses the text of [`Display`](fmt::Display).
    pub fn parse(text: &str) -> Option<Self> {
        let (moment, id) = text.split_once(' ')?;
        let moment_ms: i64 = moment.parse().ok()?;
        (0..=END_MS).contains(&moment_ms).then(|| Self { moment_ms, id: id.to_owned() })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.moment_ms, self.id)
    }
}

/// What one run of a script may do.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Most jobs to find.
    pub wanted: usize,
    /// Most jobs to examine.
    pub most: usize,
}

/// A filter and an order.
#[derive(Debug, Clone, Copy)]
pub struct ListQuery<'a> {
    pub filter: &'a JobFilter,
    pub order: Order,
}

impl ListQuery<'_> {
    /// Compares positions in the order of the list.
    pub fn compare(self, one: &Position, other: &Position) -> Ordering {
        match self.order {
            Order::Ascending => one.cmp(other),
            Order::Descending => other.cmp(one),
        }
    }

    /// The position before the first job that may match, and the moment where the list ends, see `scripts/list.lua`.
    pub fn bounds(self) -> (Position, i64) {
        let from = self.filter.from.map_or(0, |from| from.as_millis());
        let to = self.filter.to.map_or(END_MS, |to| to.as_millis());
        match self.order {
            Order::Ascending => (Position::before(from), to),
            Order::Descending => (Position::before(to), from),
        }
    }

    /// Adds the arguments of `scripts/listing.lua`.
    pub fn add_args(self, call: ScriptCall, run: Run) -> ScriptCall {
        let JobFilter { state, topic, id_prefix, reason_prefix, reserved_by, .. } = self.filter;
        let call = call.arg(i64::from(state_code(*state)));
        let call = call.optional_arg(topic.as_ref().map(|topic| topic.as_str()));
        let call = call.optional_arg(id_prefix.as_deref()).optional_arg(reason_prefix.as_deref());
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let call = call.arg(number(run.wanted)).arg(number(run.most));
        let call = call.arg(if self.order == Order::Ascending { "asc" } else { "desc" });
        call.optional_arg(reserved_by.as_ref().map(|name| name.as_str()))
    }

    /// Reads the jobs of a run that match, each with its moment in the index. Broken ones are skipped.
    pub fn read_jobs(self, mut reply: Reply) -> Result<Vec<(i64, ListedJob)>> {
        let mut jobs = Vec::with_capacity(reply.len() / 4);
        while !reply.is_empty() {
            let (id, moment_ms) = (reply.bytes()?, reply.int()?);
            let (head, body_bytes) = (reply.bytes()?, reply.count()?);
            let job = decode_head(&id, &head).filter(|listed| self.filter.matches(&listed.job));
            jobs.extend(job.map(|listed| (moment_ms, ListedJob { body_bytes, ..listed })));
        }
        Ok(jobs)
    }
}

/// The job in a record without its body.
fn decode_head(id: &[u8], head: &Bytes) -> Option<ListedJob> {
    let id = JobId::parse(std::str::from_utf8(id).ok()?).ok()?;
    let mut job = record::decode_without_body(&id, head)?;
    job.body = Body::from_stored(Bytes::new());
    Some(ListedJob { job, body_bytes: 0 })
}
