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

use super::{Engine, call::Call, reply::Reply, script::Op};
use crate::{
    clock::Clock,
    job::Topic,
    store::{Error, Result},
};

/// Shortest time between two looks for those who wait. A look finds only what was announced while the answer to an
/// older question was on its way, or before this process listened.
const PAUSE: Duration = Duration::from_millis(10);

/// Most topics that one run of the script counts.
const SLICE: usize = 100;

/// The looks that were asked for.
#[derive(Debug, Default)]
pub(super) struct Looks {
    asked: Mutex<Asked>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Asked {
    topics: HashSet<Topic>,
    /// Those for which not all shards could be asked, and who waits has not been told why.
    failed: HashSet<Topic>,
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

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().expect("no code panics while it holds the topics")
    }
}

impl Engine {
    /// Looks for those who wait, until the engine closes: at once when it has not for a while.
    pub(super) async fn look_out(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.looks.wake.notified() => {}
                () = self.context.closing.cancelled() => return,
            }
            for slice in self.looks.take().chunks(SLICE) {
                self.look_for_all(slice).await;
            }
            self.context.real.sleep(PAUSE).await;
        }
    }

    /// Looks at some topics; who waits for one that has ready jobs, or that could not be looked at, is told.
    async fn look_for_all(&self, topics: &[Topic]) {
        // Briefly: who waits and is told of a failure insists.
        let (found, whole) = self.count_ready(topics, Call::brief).await;
        for (topic, found) in topics.iter().zip(found) {
            if !found && whole.is_err() {
                self.looks.failed(topic);
            }
            if found || whole.is_err() {
                self.listener.ready(topic);
            }
        }
    }

    /// Looks at every shard for ready jobs of a topic and keeps hints of them; whether there are any.
    pub(super) async fn look_for_ready(&self, topic: &Topic) -> Result<bool> {
        let (found, whole) = self.count_ready(std::slice::from_ref(topic), identity).await;
        if found.contains(&true) { Ok(true) } else { whole.map(|()| false) }
    }

    /// Counts the ready jobs of topics on every shard and keeps hints of them: which have any, and why not all
    /// shards could be asked.
    async fn count_ready(&self, topics: &[Topic], patience: fn(Call) -> Call) -> (Vec<bool>, Result<()>) {
        let counts = self.groups().into_iter().map(|group| async move {
            let keys = group.iter().map(|shard| self.keys.shard(*shard).counts.clone()).collect();
            let call = self.read(Op::Ready, &group, keys);
            let call = topics.iter().fold(call, |call, topic| call.arg(topic.as_str()));
            let mut reply = Reply::new(self.call(patience(call)).await?)?;
            let mut found = vec![false; topics.len()];
            for shard in group {
                for (topic, found) in topics.iter().zip(&mut found) {
                    let ready = reply.int()?;
                    self.hints.set(topic, shard, ready);
                    *found |= ready > 0;
                }
            }
            Ok::<_, Error>(found)
        });
        let (mut found, mut whole) = (vec![false; topics.len()], Ok(()));
        for counted in join_all(counts).await {
            match counted {
                Ok(some) => found.iter_mut().zip(some).for_each(|(found, some)| *found |= some),
                Err(error) => whole = Err(error),
            }
        }
        (found, whole)
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
    }
}
