//! Replay slots that age: the sweep removes those of processes that are gone, and keeps those that are in use. A
//! call whose slot is removed too early happens twice if it is sent again.

use std::collections::BTreeSet;

use linger::store::redis::Options;

use super::{Process, Raw, options};
use crate::harness::{jobs::*, redis::shared, wait::TimeLimit};

/// The replay slots of the only shard.
async fn slots(raw: &Raw, options: &Options) -> BTreeSet<Vec<u8>> {
    let fields = raw.send(&["HKEYS", &format!("{{{}:0}}:replay", options.prefix)]).await.into_array();
    fields.into_iter().map(|field| field.into_bytes().expect("a field").to_vec()).collect()
}

#[tokio::test]
async fn replay_slots_that_were_not_used_for_an_hour_are_removed_and_the_others_stay() {
    let options = Options { shards: Some(1), ..options() };
    let raw = Raw::connect(&shared().url()).await;
    let idle = Process::start(&options).await;
    let living = Process::with_clock_of(&idle, &options).await;
    add(idle.store(), job("a")).await;
    let unused = slots(&raw, &options).await;
    assert_eq!(unused.len(), 1);
    living.clock.advance(seconds(3_000));
    add(living.store(), job("b")).await;
    let used: BTreeSet<_> = slots(&raw, &options).await.difference(&unused).cloned().collect();
    assert_eq!(used.len(), 1);
    // 61 minutes after the first call, and 11 after the second one.
    living.clock.advance(seconds(660));
    let time_limit = TimeLimit::new();
    while slots(&raw, &options).await.len() > 1 {
        time_limit.check(|| "no slot was removed".to_owned());
        time_limit.pause().await;
    }
    assert_eq!(slots(&raw, &options).await, used);
    // A process that was only idle uses its slot again.
    add(idle.store(), job("c")).await;
    assert_eq!(slots(&raw, &options).await, &used | &unused);
}
