//! Slots that move under load, key by key, so that the keys of a script are on one server, on the other, or on both. The
//! engine receives `MOVED`, `ASK` and `TRYAGAIN`, and no job is affected.

use std::{sync::Arc, time::Duration};

use fred::util::redis_keyslot;
use linger::clock::{Clock, SystemClock};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{run_blocking, serve};
use crate::{
    harness::{cluster::Cluster, redis::fresh_prefix},
    load::{Plan, run, setting},
};

/// Moves a slot to another server as an operator's tool does, one key after the other, with a pause after each, during which
/// clients find some keys on either server. Returns the number of keys.
fn migrate_slot(cluster: &Cluster, slot: u16, to: usize, pause: Duration) -> usize {
    let (from, to_id, number) = (cluster.owner_of(slot, to), cluster.id(to), slot.to_string());
    let mut pauses = 0;
    cluster.move_keys(slot, to, || {
        pauses += 1;
        wait(pause);
    });
    // The new owner first: if no server owned the slot for a moment, each would redirect clients to the other.
    for node in [to, from] {
        cluster.node(node).call(&["CLUSTER", "SETSLOT", &number, "NODE", &to_id]);
    }
    pauses - 1
}

#[expect(clippy::disallowed_methods, reason = "slows down the move, while the clients continue")]
fn wait(pause: Duration) {
    std::thread::sleep(pause);
}

/// What clients receive that call the wrong server while a slot moves.
const REDIRECTIONS: [&str; 3] = ["MOVED", "ASK", "TRYAGAIN"];

/// How often clients received these errors, over all servers.
fn errors<const N: usize>(cluster: &Cluster, names: [&str; N]) -> [u64; N] {
    let mut counts = [0; N];
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
async fn slots_that_move_under_load_lose_and_double_no_job() {
    let moves = setting("LINGER_PROVE_SLOTS", 12);
    let mut cluster = Cluster::start(15_000);
    // `ASK` names a server without slots before any map of the slots contains it.
    let empty = cluster.add_server();
    let cluster = Arc::new(cluster);
    let (directory, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server = serve(&cluster, &prefix, "", directory.path());
    let report = run(Plan::light(), &[server.address], async |run| {
        let mut random = StdRng::seed_from_u64(run.plan.seed + 3_000);
        // A few moves may meet no client at the right moment.
        let enough = |number| {
            number > moves && errors(&cluster, REDIRECTIONS).iter().all(|count| *count > 0)
                || number > 10 * moves
        };
        for number in (1..).take_while(|number| !enough(*number)) {
            let shard = random.random_range(0..16);
            let slot = redis_keyslot(format!("{prefix}:{shard}").as_bytes());
            let (choice, pause) = (random.random_range(0..3), random.random_range(1..40));
            let keys = run_blocking(&cluster, move |cluster| {
                let mut others = cluster.primaries(0);
                others.extend((!others.contains(&empty)).then_some(empty));
                others.retain(|primary| *primary != cluster.owner_of(slot, 0));
                let to = if number == 1 { empty } else { others[choice] };
                migrate_slot(cluster, slot, to, Duration::from_millis(pause))
            });
            println!("move {number}: slot {slot}, {} keys, {} open", keys.await, run.open_jobs());
            SystemClock::new().sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let [moved, ask, try_again] = errors(&cluster, REDIRECTIONS);
    let [crossed] = errors(&cluster, ["CROSSSLOT"]);
    println!("moves={moves} replies: moved={moved} ask={ask} tryagain={try_again} crossslot={crossed}");
    report.print("cluster_slots", moves);
    report.assert_clean();
    assert_eq!(crossed, 0, "all keys of a script are in one slot");
    assert!(moved > 0 && ask > 0 && try_again > 0, "no client met a moving slot");
}
