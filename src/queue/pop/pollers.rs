//! Which workers poll which topics at this process, for people who look for them. A name is kept until a minute after its last
//! poll has ended.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
};

use crate::{
    clock::Clock,
    job::{Actor, Timestamp, Topic},
};

/// Most names, each counted for each of its topics, in about 2 MB.
const MOST: usize = 10_000;
const KEPT_US: i64 = 60_000_000;
/// How often names without recent polls make room for others.
const CLEAN_EVERY_US: i64 = 1_000_000;

/// The pollers of this process.
#[derive(Debug)]
pub(in crate::queue) struct Pollers {
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
}

/// A worker that polls a topic, or did in the last minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::queue) struct Poller {
    pub topic: Topic,
    /// `None` if it is not known who it is.
    pub worker: Option<Actor>,
    /// Where its last poll came from.
    pub address: Option<IpAddr>,
    /// How many of its polls wait for a job.
    pub waiting: u32,
    /// When its last poll began or ended.
    pub polled_at: Timestamp,
}

#[derive(Debug, Default)]
struct Known {
    /// By topic and name, which is empty if it is not known.
    topics: HashMap<Topic, HashMap<Box<str>, PollingWorker>>,
    count: usize,
    cleaned_us: i64,
    /// When there was last no room for a name.
    full_us: Option<i64>,
}

#[derive(Debug)]
struct PollingWorker {
    polls: Arc<Polls>,
    address: Option<IpAddr>,
}

/// Apart from the map, so that the end of a poll takes no lock.
#[derive(Debug)]
struct Polls {
    open: AtomicU32,
    last_us: AtomicI64,
}

impl Polls {
    fn is_recent(&self, now_us: i64) -> bool {
        self.open.load(Ordering::Acquire) > 0 || now_us - self.last_us.load(Ordering::Relaxed) <= KEPT_US
    }
}

/// A poll that has not ended.
#[derive(Debug)]
pub(in crate::queue) struct ShownPoll<'a> {
    clock: &'a dyn Clock,
    /// What counts it: of each topic, unless there is no room.
    counted: Vec<Arc<Polls>>,
}

impl Pollers {
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, known: Mutex::default() })
    }

    /// Counts a poll of these topics until a minute after its end.
    pub fn began(&self, topics: &[Topic], worker: Option<&Actor>, address: Option<IpAddr>) -> ShownPoll<'_> {
        let (name, now_us) = (worker.map_or("", Actor::as_str), self.clock.now_micros());
        let mut known = self.lock();
        let counted = topics.iter().filter_map(|topic| known.count(topic, name, address, now_us)).collect();
        ShownPoll { clock: &*self.clock, counted }
    }

    /// The pollers of the last minute, and whether these are all.
    pub fn latest(&self) -> (Vec<Poller>, bool) {
        let (now_us, ahead_ms) = (self.clock.now_micros(), self.clock.wall_ahead_ms());
        let known = self.lock();
        let mut pollers = Vec::with_capacity(known.count);
        for (topic, workers) in &known.topics {
            let recent = workers.iter().filter(|(_, worker)| worker.polls.is_recent(now_us));
            pollers.extend(recent.map(|(name, PollingWorker { polls, address })| Poller {
                topic: topic.clone(),
                worker: Actor::parse(name).ok(),
                address: *address,
                waiting: polls.open.load(Ordering::Acquire),
                polled_at:
                    Timestamp::from_millis(polls.last_us.load(Ordering::Relaxed) / 1_000).shifted(ahead_ms),
            }));
        }
        (pollers, known.full_us.is_none_or(|full_us| now_us - full_us > KEPT_US))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no code panics while it counts")
    }
}

impl Known {
    /// Counts a poll, if there is room for its worker.
    fn count(
        &mut self,
        topic: &Topic,
        name: &str,
        address: Option<IpAddr>,
        now_us: i64,
    ) -> Option<Arc<Polls>> {
        if let Some(worker) = self.topics.get_mut(topic).and_then(|workers| workers.get_mut(name)) {
            worker.address = address;
            worker.polls.open.fetch_add(1, Ordering::Relaxed);
            worker.polls.last_us.store(now_us, Ordering::Relaxed);
            return Some(worker.polls.clone());
        }
        if self.count >= MOST && now_us >= self.cleaned_us + CLEAN_EVERY_US {
            self.cleaned_us = now_us;
            self.clean(now_us);
        }
        if self.count >= MOST {
            self.full_us = Some(now_us);
            return None;
        }
        self.count += 1;
        let polls = Arc::new(Polls { open: AtomicU32::new(1), last_us: AtomicI64::new(now_us) });
        let worker = PollingWorker { polls: polls.clone(), address };
        self.topics.entry(topic.clone()).or_default().insert(name.into(), worker);
        Some(polls)
    }

    fn clean(&mut self, now_us: i64) {
        self.topics.retain(|_, workers| {
            workers.retain(|_, worker| worker.polls.is_recent(now_us));
            !workers.is_empty()
        });
        self.count = self.topics.values().map(HashMap::len).sum();
    }
}

impl Drop for ShownPoll<'_> {
    fn drop(&mut self) {
        let now_us = self.clock.now_micros();
        for polls in &self.counted {
            // In this order, the name is recent at each moment.
            polls.last_us.store(now_us, Ordering::Release);
            polls.open.fetch_sub(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::ManualClock;

    /// How long a name is kept after its last poll.
    const KEPT: Duration = Duration::from_micros(KEPT_US.unsigned_abs());

    fn topic(name: &str) -> Topic {
        Topic::parse(name).expect("valid")
    }

    fn actor(name: &str) -> Option<Actor> {
        Actor::parse(name).ok()
    }

    #[test]
    fn a_worker_is_shown_until_a_minute_after_its_last_poll() {
        let clock = ManualClock::new(Timestamp::from_millis(5_000));
        let pollers = Pollers::new(clock.clone());
        let (home, one) = (IpAddr::from([127, 0, 0, 1]), actor("w-1"));
        let first = pollers.began(&[topic("a"), topic("b")], one.as_ref(), Some(home));
        let second = pollers.began(&[topic("a")], one.as_ref(), Some(home));
        pollers.began(&[topic("a")], None, None);
        let shown = || {
            let (mut shown, is_complete) = pollers.latest();
            assert!(is_complete);
            shown.sort_by_key(|poller| {
                (poller.topic.clone(), poller.worker.clone().map(|one| one.to_string()))
            });
            shown
        };
        let poller = |name: &str, worker: Option<Actor>, waiting, at| Poller {
            topic: topic(name),
            address: worker.is_some().then_some(home),
            worker,
            waiting,
            polled_at: Timestamp::from_millis(at),
        };
        let expected = [
            poller("a", None, 0, 5_000),
            poller("a", one.clone(), 2, 5_000),
            poller("b", one.clone(), 1, 5_000),
        ];
        assert_eq!(shown(), expected);
        clock.advance(Duration::from_secs(30));
        drop(second);
        clock.advance(KEPT - Duration::from_secs(29));
        let expected = [poller("a", one.clone(), 1, 35_000), poller("b", one.clone(), 1, 5_000)];
        assert_eq!(shown(), expected, "they wait");
        drop(first);
        clock.advance(KEPT);
        assert_eq!(shown().len(), 2);
        clock.advance(Duration::from_millis(1));
        assert_eq!(shown(), []);
    }

    #[test]
    fn names_beyond_the_limit_are_not_said_to_be_absent() {
        let clock = ManualClock::new(Timestamp::from_millis(5_000));
        let pollers = Pollers::new(clock.clone());
        for n in 0..MOST {
            pollers.began(&[topic("t")], actor(&n.to_string()).as_ref(), None);
        }
        assert!(pollers.latest().1);
        drop(pollers.began(&[topic("t")], actor("another").as_ref(), None));
        let (shown, is_complete) = pollers.latest();
        assert_eq!((shown.len(), is_complete), (MOST, false));
        clock.advance(KEPT + Duration::from_millis(1));
        let waiting = pollers.began(&[topic("t")], actor("another").as_ref(), None);
        let (shown, is_complete) = pollers.latest();
        assert_eq!((shown.len(), is_complete), (1, true), "those that have gone make room");
        drop(waiting);
    }
}
