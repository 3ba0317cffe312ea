//! The jobs that ended last in this process, so that a call for one that is gone learns how it ended. Only in memory,
//! bounded, and no promise: it helps operators.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    sync::{Mutex, MutexGuard},
};

use crate::job::{Actor, JobId, Timestamp, Topic, TopicFilter};

/// About how many bytes all entries take.
const MAX_BYTES: usize = 1 << 20;
/// What an entry takes beside its id and its topic.
const ENTRY_BYTES: usize = 128;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndKind {
    /// It was finished.
    Finished,
    /// It was finished after its reservation had timed out.
    FinishedLate,
    /// It was deleted.
    Deleted,
    /// It was deleted because it expired.
    Expired,
}

impl EndKind {
    /// What a sentence about the job says.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Finished => "was finished",
            Self::FinishedLate => "was finished, after its reservation had timed out,",
            Self::Deleted => "was deleted",
            Self::Expired => "expired and was deleted",
        }
    }

    /// The name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::FinishedLate => "finished_late",
            Self::Deleted => "deleted",
            Self::Expired => "expired",
        }
    }
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How it ended.
    pub how: EndKind,
    /// When.
    pub at: Timestamp,
    /// The actor that ended it, if that is known.
    pub by: Option<Actor>,
}

#[derive(Debug)]
struct Entry {
    id: JobId,
    topic: Topic,
    ended: Ended,
}

impl Entry {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.id.as_str().len() + self.topic.as_str().len()
    }
}

/// The last jobs that ended.
#[derive(Default)]
pub(super) struct EndedJobs(Mutex<EndedRing>);

#[derive(Default)]
struct EndedRing {
    /// The oldest first.
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl EndedJobs {
    /// Adds a job, and forgets the oldest ones when they take too much space.
    pub fn push(&self, id: JobId, topic: Topic, ended: Ended) {
        let mut ring = self.lock();
        let entry = Entry { id, topic, ended };
        ring.bytes += entry.bytes();
        ring.entries.push_back(entry);
        while ring.bytes > MAX_BYTES
            && let Some(oldest) = ring.entries.pop_front()
        {
            ring.bytes -= oldest.bytes();
        }
    }

    /// How the last job with this id ended, if its topic is in `scope`.
    pub fn find(&self, scope: &TopicFilter, id: &JobId) -> Option<Ended> {
        let ring = self.lock();
        let mut newest_first = ring.entries.iter().rev();
        newest_first
            .find(|entry| entry.id == *id && scope.allows(&entry.topic))
            .map(|entry| entry.ended.clone())
    }

    /// The same for many ids. Reads all entries once, because a batch may have thousands of ids.
    pub fn find_all<'a>(
        &self,
        scope: &TopicFilter,
        ids: impl Iterator<Item = &'a JobId>,
    ) -> HashMap<JobId, Ended> {
        let (mut wanted, mut found) = (ids.collect::<HashSet<_>>(), HashMap::new());
        if wanted.is_empty() {
            return found;
        }
        let ring = self.lock();
        for entry in ring.entries.iter().rev() {
            if scope.allows(&entry.topic) && wanted.remove(&entry.id) {
                found.insert(entry.id.clone(), entry.ended.clone());
            }
        }
        found
    }

    fn lock(&self) -> MutexGuard<'_, EndedRing> {
        self.0.lock().expect("no code panics while it holds the ring")
    }
}

impl fmt::Debug for EndedJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndedJobs").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::TopicPattern;

    fn id(name: &str) -> JobId {
        JobId::parse(name).expect("valid")
    }

    fn ended(at_ms: i64) -> Ended {
        Ended { how: EndKind::Finished, at: Timestamp::from_millis(at_ms), by: Actor::parse("w-1").ok() }
    }

    #[test]
    fn the_last_end_of_an_id_is_found_by_those_who_may_see_its_topic() {
        let jobs = EndedJobs::default();
        let topic = Topic::parse("t").expect("valid");
        for at_ms in [1, 2] {
            jobs.push(id("a"), topic.clone(), ended(at_ms));
        }
        jobs.push(id("b"), topic, ended(3));
        assert_eq!(jobs.find(&TopicFilter::ALL, &id("a")), Some(ended(2)));
        assert_eq!(jobs.find(&TopicFilter::ALL, &id("c")), None);
        let only = |topic| TopicFilter::only(vec![TopicPattern::parse(topic).expect("valid")]);
        assert_eq!(jobs.find(&only("t"), &id("a")), Some(ended(2)));
        assert_eq!(jobs.find(&only("u"), &id("a")), None);
        let found = jobs.find_all(&only("t"), [&id("a"), &id("c"), &id("a")].into_iter());
        assert_eq!(found, HashMap::from([(id("a"), ended(2))]));
        assert!(jobs.find_all(&only("u"), [&id("a")].into_iter()).is_empty());
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let (jobs, topic) = (EndedJobs::default(), Topic::parse("t").expect("valid"));
        let count = 3 * MAX_BYTES / ENTRY_BYTES;
        for n in 0..count {
            jobs.push(id(&n.to_string()), topic.clone(), ended(0));
        }
        let kept = jobs.lock().entries.len();
        assert!((count / 4..count / 3).contains(&kept), "{kept} of {count}");
        assert_eq!(jobs.find(&TopicFilter::ALL, &id("0")), None);
        assert!(jobs.find(&TopicFilter::ALL, &id(&(count - 1).to_string())).is_some());
    }
}
