//! Half-open connections: they stay open, but no reply arrives on them, while new connections work. With the default
//! settings, each is closed within `unresponsive_timeout` and one second, and calls succeed again.

mod cluster;
mod packets;
mod sentinel;

use std::{sync::Arc, time::Duration};

use linger::{
    clock::{Clock, SystemClock},
    store::{AddJob, Store, redis::Options},
};

use super::{
    Process, options,
    peer::{Discard, Peer},
    proxy::Proxy,
};
use crate::harness::{
    jobs::*,
    redis::{RedisServer, shared},
    wait::until,
};

/// Between two calls, and the unit in which recoveries are measured.
const INTERVAL: Duration = Duration::from_millis(100);
/// In how many intervals everything must work again. The promise is 50; the rest is for a machine that holds up the server
/// and not the test. With twice the default timeout it takes 85.
const RECOVERY: usize = 80;
/// What a half-open connection may discard.
const DISCARDS: [(&str, Discard); 2] = [("both", Discard::Both), ("replies", Discard::Replies)];

/// Awaits what must happen in time. The intervals pass on the same thread, so that a busy machine slows both.
async fn recovered<T>(what: &str, future: impl Future<Output = T>) -> T {
    let clock = SystemClock::new();
    let passing = async {
        for _ in 0..RECOVERY {
            clock.sleep(INTERVAL).await;
        }
    };
    tokio::select! {
        outcome = future => outcome,
        () = passing => panic!("{what}: not within {RECOVERY} intervals of {INTERVAL:?}"),
    }
}

/// The jobs of one call.
type Jobs = fn(&str) -> Vec<AddJob>;

fn one_job(name: &str) -> Vec<AddJob> {
    vec![job(name)]
}

/// Starts an add in each interval, without waiting for the one before, until one of them is acknowledged. Then makes ten
/// adds in sequence, none of which may fail.
async fn adds_recover(store: &Arc<dyn Store>, name: &str, jobs: Jobs) {
    let clock = SystemClock::new();
    let (done, mut first_done) = tokio::sync::mpsc::unbounded_channel();
    let calling = async {
        for number in 0.. {
            let (store, done, jobs) = (store.clone(), done.clone(), jobs(&format!("{name}-{number}")));
            tokio::spawn(async move { store.add(jobs).await.is_ok().then(|| done.send(())) });
            clock.sleep(INTERVAL).await;
        }
    };
    let back = async {
        tokio::select! {
            () = calling => {}
            _ = first_done.recv() => {}
        }
    };
    recovered(name, back).await;
    for number in 0..10 {
        store.add(jobs(&format!("{name}-after-{number}"))).await.expect("works again");
    }
}

/// Waits until the client has closed these connections.
async fn wait_until_closed(peers: &[Arc<Peer>], what: &str) {
    assert!(!peers.is_empty(), "{what}: there is no such connection");
    let closed = async {
        for peer in peers {
            peer.closed().await;
        }
    };
    recovered(&format!("{what}: closing"), closed).await;
}

/// Waits until a connection is open that `wanted` selects and that is not half-open.
async fn wait_until_opened(proxies: &[Proxy], what: &str, wanted: impl Fn(&Peer) -> bool) {
    let is_open = || proxies.iter().any(|proxy| proxy.peers().iter().any(|peer| wanted(peer)));
    recovered(&format!("{what}: opening"), until(is_open)).await;
}

/// Connections that carry calls are reopened while calls are made.
async fn reopened_under_traffic(process: &Process, proxy: &Proxy) {
    for (name, discard) in DISCARDS {
        let half_open = proxy.make_half_open(discard, |peer| !peer.replicates());
        adds_recover(&process.store, name, one_job).await;
        wait_until_closed(&half_open, name).await;
        // Requests that a connection has not sent must not arrive after their calls have failed.
        assert!(
            discard == Discard::Replies || half_open.iter().all(|peer| peer.was_reset()),
            "closed by a reset"
        );
    }
}

/// They are reopened also while the process makes no calls.
async fn reopened_at_rest(process: &Process, proxies: &[Proxy]) {
    let carries_calls = |peer: &Peer| !peer.subscribes() && !peer.replicates();
    for (name, discard) in DISCARDS {
        let half_open = proxies[0].make_half_open(discard, carries_calls);
        wait_until_closed(&half_open, name).await;
        wait_until_opened(&proxies[..1], name, carries_calls).await;
        add_any(process.store(), job(&format!("at-rest-{name}"))).await.expect("is not refused");
    }
}

/// The connection for announcements is reopened if it alone is half-open.
async fn announcements_arrive_again(proxies: &[Proxy]) {
    for (name, discard) in DISCARDS {
        wait_until_opened(proxies, "announcements", Peer::subscribes).await;
        let half_open: Vec<_> =
            proxies.iter().flat_map(|proxy| proxy.make_half_open(discard, Peer::subscribes)).collect();
        assert_eq!(half_open.len(), 1, "one connection subscribes to the announcements");
        wait_until_closed(&half_open, name).await;
    }
    wait_until_opened(proxies, "announcements", Peer::subscribes).await;
}

async fn behind_a_proxy() -> (Process, Proxy) {
    let proxy = Proxy::start(shared().port).await;
    let process = Process::start(&Options { mode: proxy.mode(), ..options() }).await;
    (process, proxy)
}

#[tokio::test]
async fn a_standalone_server_is_used_again_under_traffic() {
    let (process, proxy) = behind_a_proxy().await;
    reopened_under_traffic(&process, &proxy).await;
}

#[tokio::test]
async fn a_standalone_server_is_used_again_without_traffic() {
    let (process, proxy) = behind_a_proxy().await;
    reopened_at_rest(&process, &[proxy]).await;
}

#[tokio::test]
async fn announcements_arrive_again_from_a_standalone_server() {
    let (_process, proxy) = behind_a_proxy().await;
    announcements_arrive_again(&[proxy]).await;
}

#[tokio::test]
async fn one_connection_that_waits_for_replicas_is_reopened() {
    let primary = RedisServer::start_with(&["--save", "", "--repl-diskless-sync-delay", "0"]);
    let follow = format!("127.0.0.1 {}", primary.port);
    let _replica = RedisServer::start_with(&["--save", "", "--replicaof", &follow]);
    let proxy = Proxy::start(primary.port).await;
    let options = Options { mode: proxy.mode(), wait_replicas: 1, ..Options::default() };
    let process = Process::start(&options).await;
    let synced = async { while process.store.add(vec![job("warm")]).await.is_err() {} };
    tokio::time::timeout(seconds(60), synced).await.expect("the replica follows");
    for (name, discard) in DISCARDS {
        for number in 0..8 {
            process.store.add(vec![job(&format!("{name}-{number}"))]).await.expect("a replica takes it");
        }
        let first: *const Peer =
            &**proxy.peers().iter().find(|peer| peer.waits()).expect("one connection has sent WAIT");
        let half_open = proxy.make_half_open(discard, |peer| std::ptr::eq(peer, first));
        assert_eq!(half_open.len(), 1);
        wait_until_closed(&half_open, name).await;
        for number in 0..8 {
            process
                .store
                .add(vec![job(&format!("{name}-after-{number}"))])
                .await
                .expect("a replica takes it");
        }
    }
}
