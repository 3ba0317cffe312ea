//! Looking for ready jobs that nobody has announced: at once for who must be answered, a little later and all
//! together for who waits anyway.

use std::{
    collections::HashSet,
    convert::identity,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::sync::Notify;

use crate::store::redis::{Engine, connection::call::Call, keys::Shard, reply::Reply, scripts::Op};
use crate::{
    clock::Clock,
    job::Topic,
    store::{Error, Result},
};

/// Shortest time between two looks for those who wait. A look finds only what was announced while the
/// answer to an older question was on its way, or before this process listened.
const PAUSE: Duration = Duration::from_millis(10);

/// How long until those shards are asked again that could not be asked.
const AGAIN: Duration = Duration::from_secs(1);

/// Most topics that one run of the script counts.
const SLICE: usize = 100;

/// The looks that were asked for.
#[derive(Debug, Default)]
pub struct Looks {
    asked: Mutex<Asked>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Asked {
    topics: HashSet<Topic>,
    /// Those for which no shard could be asked, and who waits has not been told why.
    failed: HashSet<Topic>,
    /// Those for which a part of the shards could not be asked, and which are looked at again.
    partly: HashSet<Topic>,
}

impl Looks {
    /// Has a topic looked at soon. False when the last look failed: who asks is to look, and tell why it fails.
    pub fn ask(&self, topic: &Topic) -> bool {
        let mut asked = self.lock();
        if asked.failed.remove(topic) {
            return false;
        }
        if !asked.topics.contains(topic) {
            asked.topics.insert(topic.clone());
            self.wake.notify_one();
        }
        true
    }

    fn take(&self) -> Vec<Topic> {
        self.lock().topics.drain().collect()
    }

    fn failed(&self, topic: &Topic) {
        self.lock().failed.insert(topic.clone());
    }

    /// Notes topics to look at again; whether nobody had yet, and the caller has to see to it.
    fn partly(&self, topics: &[Topic]) -> bool {
        let mut asked = self.lock();
        let first = asked.partly.is_empty();
        asked.partly.extend(topics.iter().cloned());
        first
    }

    fn take_partly(&self) -> HashSet<Topic> {
        std::mem::take(&mut self.lock().partly)
    }

    fn succeeded(&self, topics: &[Topic]) {
        let mut asked = self.lock();
        if !asked.failed.is_empty() {
            for topic in topics {
                asked.failed.remove(topic);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().expect("no code panics while it holds the topics")
    }
}

impl Engine {
    /// Looks for those who wait, until the engine closes: at once when it has not for a while.
    pub async fn look_out(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.looks.wake.notified() => {}
                () = self.context.closing.cancelled() => return,
            }
            let (engine, topics) = (self.clone(), self.looks.take());
            // In a task of its own: a server that does not answer must not hold up the next look.
            self.context.tasks.spawn(async move {
                join_all(topics.chunks(SLICE).map(|slice| engine.look_for_all(slice))).await;
            });
            self.context.real.sleep(PAUSE).await;
        }
    }

    /// Looks at some topics; those who wait for one that has ready jobs, or that could not be looked at
    /// anywhere, are told. While a part of the shards cannot be asked, the look is repeated.
    async fn look_for_all(self: &Arc<Self>, topics: &[Topic]) {
        let looks = self.groups().into_iter().map(|group| async move {
            if self.is_unresponsive(group[0]) {
                return false;
            }
            // Briefly: who waits and is told of a failure insists.
            let count = self.count_ready(&group, topics, Call::brief);
            let Ok(ready) = self.observed(group[0], count).await else { return false };
            let ready = topics.iter().zip(ready).filter(|(_, ready)| *ready);
            ready.for_each(|(topic, _)| self.listener.ready(topic));
            true
        });
        let answered = join_all(looks).await;
        if answered.iter().all(|answered| *answered) {
            self.looks.succeeded(topics);
        } else if !answered.contains(&true) {
            for topic in topics {
                self.looks.failed(topic);
                self.listener.ready(topic);
            }
        } else if self.looks.partly(topics) {
            self.context.tasks.spawn(self.clone().look_again());
        }
    }

    /// Has those who still wait ask for another look after a while.
    async fn look_again(self: Arc<Self>) {
        tokio::select! {
            () = self.context.real.sleep(AGAIN) => {}
            () = self.context.closing.cancelled() => {}
        }
        self.looks.take_partly().iter().for_each(|topic| self.listener.ready(topic));
    }

    /// Looks at every shard for ready jobs of a topic and keeps hints of them; whether there are any.
    pub async fn look_for_ready(&self, topic: &Topic) -> Result<bool> {
        let topics = std::slice::from_ref(topic);
        let looks = self.groups().into_iter().map(|group| async move {
            let count = self.observed(group[0], self.count_ready(&group, topics, identity));
            Ok::<_, Error>(count.await?.contains(&true))
        });
        let found = join_all(looks).await;
        if found.iter().any(|found| matches!(found, Ok(true))) {
            return Ok(true);
        }
        found.into_iter().try_fold(false, |any, found| found.map(|found| any || found))
    }

    /// Counts the ready jobs of topics on a group of shards and keeps hints of them: which topics have any.
    async fn count_ready(
        &self,
        group: &[Shard],
        topics: &[Topic],
        patience: fn(Call) -> Call,
    ) -> Result<Vec<bool>> {
        let keys = group.iter().map(|shard| self.keys.shard(*shard).counts.clone()).collect();
        let call = patience(self.read(Op::Ready, group, keys));
        let call = topics.iter().fold(call, |call, topic| call.arg(topic.as_str()));
        let mut reply = Reply::new(self.call(call).await?)?;
        let mut found = vec![false; topics.len()];
        for shard in group {
            for (topic, found) in topics.iter().zip(&mut found) {
                let ready = reply.int()?;
                self.hints.set(topic, *shard, ready);
                *found |= ready > 0;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_looked_at_once_for_all_who_ask_and_again_by_who_hears_of_a_failure() {
        let (looks, topic) = (Looks::default(), Topic::parse("t").expect("valid"));
        assert!(looks.ask(&topic) && looks.ask(&topic));
        assert_eq!(looks.take(), std::slice::from_ref(&topic));
        assert!(looks.take().is_empty());
        looks.failed(&topic);
        assert!(!looks.ask(&topic), "who asks looks");
        assert!(looks.ask(&topic), "and only the first");
        looks.failed(&topic);
        looks.succeeded(std::slice::from_ref(&topic));
        assert!(looks.ask(&topic), "there is nothing to tell any more");
    }
}
