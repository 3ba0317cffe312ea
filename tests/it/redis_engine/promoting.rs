//! How many calls moving what is due takes.

use linger::store::AddJob;

use super::{Process, options, proxy::Proxy};
use crate::harness::{jobs::*, redis::shared};

/// A process asks once for what is due in topics that were due before, and twice when there are others.
#[tokio::test]
async fn what_is_due_where_something_was_before_is_moved_by_one_call() {
    let proxy = Proxy::start(shared().port).await;
    let mode = linger::store::redis::Mode::new(&[proxy.url()], None, false).expect("a mode");
    let process = Process::start(&linger::store::redis::Options { mode, ..options() }).await;
    proxy.learn_background().await;
    let topics: Vec<String> = (0..20).map(|n| format!("t{n}")).collect();
    let rounds = [(&topics[..3], 2), (&topics[..3], 1), (&topics[1..2], 1), (&topics[..], 2)];
    for (round, (topics, calls)) in rounds.into_iter().enumerate() {
        for name in topics {
            let topic = topic(name);
            add(process.store(), AddJob { topic, ..delayed(&format!("{name}-{round}"), seconds(1)) }).await;
        }
        process.clock.advance(seconds(1));
        proxy.count(":pool");
        let promoted = process.store.promote(100).await.expect("promotes");
        assert_eq!(proxy.heal(), (0, calls), "calls in round {round}");
        assert_eq!((promoted.moves.len(), promoted.more), (topics.len(), false), "in round {round}");
    }
}
