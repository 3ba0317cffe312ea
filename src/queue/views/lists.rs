//! Lists of jobs, the reasons of the dead letters of a topic, and bulk operations on what a list finds.

use std::collections::HashMap;

use crate::{
    job::{Job, JobId, OperationId, State, Timestamp, Topic, TopicFilter},
    queue::{
        bulk::{BulkRequest, OperationView},
        error::Result,
        service::Queue,
    },
    store::{JobFilter, JobPage, ListPosition, Order},
};

/// How many dead letters are examined for their reasons: the newest.
const MAX_EXAMINED: usize = 10_000;
/// Dead letters read by one step.
const SLICE: usize = 1_000;
/// How many groups of reasons there may be: those of most dead letters.
const MAX_REASONS: usize = 100;

/// Why the newest dead letters of a topic died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadReasons {
    /// The groups, the largest first.
    pub reasons: Vec<DeadReason>,
    /// How many dead letters were examined.
    pub examined: usize,
    /// Whether every dead letter of the topic is in one of the groups.
    pub is_complete: bool,
}

/// Dead letters whose reasons differ only in their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadReason {
    /// The reason, with `#` in place of each number.
    pub pattern: String,
    /// What all reasons of the group begin with.
    pub prefix: String,
    /// How many they are.
    pub count: u64,
    /// When the first of them died.
    pub first_dead_at: Timestamp,
    /// When the last of them died.
    pub last_dead_at: Timestamp,
    /// The one that died last.
    pub last_id: JobId,
}

impl Queue {
    /// Lists jobs as [`Store::list`](crate::store::Store::list) does. Few callers do so at the same time.
    ///
    /// # Errors
    /// [`Error::Busy`](crate::queue::Error::Busy), [`Error::TooManyScans`](crate::queue::Error::TooManyScans), or the store's.
    pub async fn list(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage> {
        let permits = if filter.is_scan() { &self.scan_permits } else { &*self.read_permits };
        let _permit = permits.acquire().await?;
        Ok(self.store.list(filter, order, after, limit).await?)
    }

    /// The first job of a topic in this state, with its body: in order of the due time, or of death for dead letters. `None` if there
    /// is none, or if it moves at this moment.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn first(&self, topic: &Topic, state: State) -> Result<Option<Job>> {
        let filter = JobFilter { topic: Some(topic.clone()), ..JobFilter::all(state) };
        let page = self.list(&filter, Order::Ascending, None, 1).await?;
        let Some(listed) = page.jobs.first() else { return Ok(None) };
        let found = self.store.get(&TopicFilter::ALL, &listed.job.id).await?;
        Ok(found.filter(|job| job.state() == state))
    }

    /// How many jobs of a topic are in this state.
    ///
    /// # Errors
    /// The store's.
    pub async fn count(&self, topic: &Topic, state: State) -> Result<u64> {
        Ok(self.store.topic(topic).await?.map_or(0, |stats| stats.count(state)))
    }

    /// Groups the newest dead letters of a topic by their reasons.
    ///
    /// # Errors
    /// [`Error::Busy`](crate::queue::Error::Busy), or the store's.
    pub async fn dead_reasons(&self, topic: &Topic) -> Result<DeadReasons> {
        let _permit = self.read_permits.acquire().await?;
        let filter = JobFilter { topic: Some(topic.clone()), ..JobFilter::all(State::Dead) };
        let (mut groups, mut examined, mut after) = (HashMap::new(), 0, None);
        let is_end = loop {
            let page = self.store.list(&filter, Order::Descending, after.as_ref(), SLICE).await?;
            for listed in &page.jobs {
                let reason = listed.job.reason.as_ref().map_or("", |reason| reason.as_str());
                let dead_at = listed.job.dead_at().unwrap_or(listed.job.due_at);
                add_to_group(&mut groups, reason, dead_at, &listed.job.id);
            }
            examined += page.jobs.len();
            after = page.next;
            if after.is_none() || examined >= MAX_EXAMINED {
                break after.is_none();
            }
        };
        let mut reasons: Vec<DeadReason> = groups.into_values().collect();
        reasons
            .sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.pattern.cmp(&other.pattern)));
        let is_complete = is_end && reasons.len() <= MAX_REASONS;
        reasons.truncate(MAX_REASONS);
        Ok(DeadReasons { reasons, examined, is_complete })
    }

    /// Starts a bulk operation. If one of any process has its id already, that one is returned. A dry run may have ended on
    /// return.
    ///
    /// # Errors
    /// [`Error::TooManyOperations`](crate::queue::Error::TooManyOperations), [`Error::Draining`](crate::queue::Error::Draining), or the
    /// store's.
    pub async fn start_operation(&self, request: BulkRequest) -> Result<OperationView> {
        self.operations.start(request).await
    }

    /// The latest bulk operations of all processes, the newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn list_operations(&self) -> Result<Vec<OperationView>> {
        self.operations.list().await
    }

    /// One of them.
    ///
    /// # Errors
    /// [`Error::OperationNotFound`](crate::queue::Error::OperationNotFound), or the store's.
    pub async fn operation(&self, id: &OperationId) -> Result<OperationView> {
        self.operations.find(id).await
    }

    /// Stops one of them before its next slice, and returns it once it has ended. If another process runs it, the wait is
    /// bounded, and it is returned as it is then.
    ///
    /// # Errors
    /// [`Error::OperationNotFound`](crate::queue::Error::OperationNotFound), or the store's.
    pub async fn stop_operation(&self, id: &OperationId) -> Result<OperationView> {
        self.operations.stop(id).await
    }
}

/// Counts a dead letter, which died before those that were counted already.
fn add_to_group(groups: &mut HashMap<String, DeadReason>, reason: &str, dead_at: Timestamp, id: &JobId) {
    let pattern = pattern_of(reason);
    let group = groups.entry(pattern.clone()).or_insert_with(|| DeadReason {
        pattern,
        prefix: reason.to_owned(),
        count: 0,
        first_dead_at: dead_at,
        last_dead_at: dead_at,
        last_id: id.clone(),
    });
    group.count += 1;
    group.first_dead_at = dead_at;
    let common = group.prefix.chars().zip(reason.chars()).take_while(|(one, other)| one == other);
    let common_bytes: usize = common.map(|(one, _)| one.len_utf8()).sum();
    group.prefix.truncate(common_bytes);
}

/// The reason with `#` in place of each run of digits.
fn pattern_of(reason: &str) -> String {
    let mut pattern = String::with_capacity(reason.len());
    for character in reason.chars() {
        if !character.is_ascii_digit() {
            pattern.push(character);
        } else if !pattern.ends_with('#') {
            pattern.push('#');
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_differ_in_numbers_are_one_group() {
        assert_eq!(pattern_of("http_503 from 10.0.0.7"), "http_# from #.#.#.#");
        assert_eq!(pattern_of("no numbers"), "no numbers");
        let mut groups = HashMap::new();
        let at = Timestamp::from_millis;
        for (ms, reason) in [(9, "http_503 é"), (8, "http_504 é"), (7, "other"), (6, "http_52 é")] {
            add_to_group(&mut groups, reason, at(ms), &JobId::parse(&format!("job-{ms}")).expect("valid"));
        }
        let group = &groups["http_# é"];
        assert_eq!((group.count, group.prefix.as_str()), (3, "http_5"));
        assert_eq!((group.first_dead_at, group.last_dead_at), (at(6), at(9)));
        assert_eq!(group.last_id.as_str(), "job-9");
        assert_eq!(groups["other"].prefix, "other");
    }
}
