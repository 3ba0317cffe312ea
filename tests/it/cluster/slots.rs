//! Slots that move under load, key by key, so that a script finds its keys here, there and on both
//! sides: `MOVED`, `ASK` and `TRYAGAIN` all come, and nothing comes of them.

use std::{sync::Arc, time::Duration};

use fred::util::redis_keyslot;
use linger::clock::{Clock, SystemClock};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{aside, serve};
use crate::{
    harness::{cluster::Cluster, redis::fresh_prefix},
    load::{Plan, run, setting},
};

/// Moves a slot to another server as an operator's tool does, one key after the other, with a pause
/// after each in which clients meet a slot that is half here and half there. Returns how many keys
/// there were.
fn move_slot(cluster: &Cluster, slot: u16, to: usize, pause: Duration) -> usize {
    let from = cluster.owner_of(slot, to);
    let (from_id, to_id, number) = (cluster.id(from), cluster.id(to), slot.to_string());
    let port = cluster.servers[to].port.to_string();
    let (mut source, mut target) = (cluster.node(from), cluster.node(to));
    target.call(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &from_id]);
    source.call(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &to_id]);
    let mut moved = 0;
    wait(pause);
    while let Some(key) = source.call(&["CLUSTER", "GETKEYSINSLOT", &number, "1"]).list().pop() {
        source.call(&["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS", &key.text()]);
        moved += 1;
        wait(pause);
    }
    // The new holder first: a moment in which nobody holds the slot would send clients in circles.
    for node in [&mut target, &mut source] {
        node.call(&["CLUSTER", "SETSLOT", &number, "NODE", &to_id]);
    }
    moved
}

#[expect(clippy::disallowed_methods, reason = "the pace of the move, during which clients go on")]
fn wait(pause: Duration) {
    std::thread::sleep(pause);
}

/// How often clients were answered with these errors, over all servers.
fn errors(cluster: &Cluster, names: [&str; 4]) -> [u64; 4] {
    let mut counts = [0; 4];
    for n in 0..cluster.servers.len() {
        let stats = cluster.node(n).call(&["INFO", "errorstats"]).text();
        for (count, name) in counts.iter_mut().zip(names) {
            let found = stats.lines().find_map(|line| line.strip_prefix(&format!("errorstat_{name}:count=")));
            *count += found.map_or(0, |number| number.trim().parse().expect("a number"));
        }
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_under_load_lose_and_double_nothing() {
    let moves = setting("LINGER_PROVE_SLOTS", 12);
    let mut cluster = Cluster::start(15_000);
    // One that has no slot yet is named by `ASK` before any look at the slots can tell of it.
    let empty = cluster.add_server();
    let cluster = Arc::new(cluster);
    let (home, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server = serve(&cluster, &prefix, "", home.path());
    let report = run(Plan::light(), &[server.address], async |run| {
        let mut random = StdRng::seed_from_u64(run.plan.seed + 3_000);
        for number in 1..=moves {
            let shard = random.random_range(0..16);
            let slot = redis_keyslot(format!("{prefix}:{shard}").as_bytes());
            let (turn, pause) = (random.random_range(0..3), random.random_range(1..40));
            let keys = aside(&cluster, move |cluster| {
                let mut others = cluster.primaries(0);
                others.extend((!others.contains(&empty)).then_some(empty));
                others.retain(|primary| *primary != cluster.owner_of(slot, 0));
                let to = if number == 1 { empty } else { others[turn] };
                move_slot(cluster, slot, to, Duration::from_millis(pause))
            });
            println!("move {number}: slot {slot}, {} keys, {} on their way", keys.await, run.open());
            SystemClock::new().sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let [moved, ask, again, crossed] = errors(&cluster, ["MOVED", "ASK", "TRYAGAIN", "CROSSSLOT"]);
    println!("moves={moves} answers: moved={moved} ask={ask} tryagain={again} crossslot={crossed}");
    report.print("cluster_slots", moves);
    report.assert_clean();
    assert_eq!(crossed, 0, "every key of a script is of one slot");
    assert!(moved > 0 && ask > 0 && again > 0, "clients met moving slots");
}
