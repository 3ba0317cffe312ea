//! How many names are looked up at the same time, and for whom. A lookup that hangs cannot be interrupted and keeps its thread,
//! so a topic gets few permits, and names that were found before have permits of their own.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::job::Topic;

/// What is known of a name before it is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Standing {
    /// It was found when it was last looked up.
    Proven,
    /// It was not, or is new: a client may have made it up.
    Unproven,
}

/// All permits.
pub(super) struct LookupPermits {
    proven: Arc<Semaphore>,
    unproven: Arc<Semaphore>,
    /// The permits of a topic, while it has or wants any.
    of_topics: Mutex<OfTopics>,
}

type OfTopics = HashMap<(Option<Topic>, Standing), Weak<Semaphore>>;

/// Allows one lookup, until it is dropped.
#[derive(Debug)]
pub(super) struct LookupPermit {
    _of_all: OwnedSemaphorePermit,
    _of_topic: OwnedSemaphorePermit,
}

impl LookupPermits {
    /// Lookups of names that were found before, and of others.
    const PROVEN: usize = 32;
    const UNPROVEN: usize = 64;
    /// How many of either a topic gets.
    const OF_TOPIC: usize = 8;

    pub fn new() -> Self {
        Self {
            proven: Arc::new(Semaphore::new(Self::PROVEN)),
            unproven: Arc::new(Semaphore::new(Self::UNPROVEN)),
            of_topics: Mutex::default(),
        }
    }

    /// Waits for a permit. The lookups of a topic wait for each other first, so that few of them wait beside those of others.
    pub async fn acquire(&self, topic: Option<Topic>, standing: Standing) -> LookupPermit {
        let of_all = match standing {
            Standing::Proven => self.proven.clone(),
            Standing::Unproven => self.unproven.clone(),
        };
        let of_topic = self.of_topic(topic, standing).acquire_owned().await;
        LookupPermit {
            _of_topic: of_topic.expect("the semaphore is never closed"),
            _of_all: of_all.acquire_owned().await.expect("the semaphore is never closed"),
        }
    }

    fn of_topic(&self, topic: Option<Topic>, standing: Standing) -> Arc<Semaphore> {
        let mut of_topics = self.of_topics.lock().expect("no code panics while it holds the permits");
        let key = (topic, standing);
        if let Some(known) = of_topics.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        of_topics.retain(|_, permits| permits.strong_count() > 0);
        let permits = Arc::new(Semaphore::new(Self::OF_TOPIC));
        of_topics.insert(key, Arc::downgrade(&permits));
        permits
    }
}
