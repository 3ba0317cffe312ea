//! Hostile and heavy clients: the limits and timeouts of connections, thousands of bad connections, parked polls and
//! workers that leave, foreign web pages.
//!
//! The normal run is short. `LINGER_PROVE_HOSTILE`, `LINGER_PROVE_PARKED` and `LINGER_PROVE_LEAVERS` set how
//! many clients there are. Each of these prints one line that begins with `proof: `.

mod browsers;
mod connection_limits;
mod deliveries;
mod hostile;
mod leaving_workers;
mod memory;
mod parked;
mod slow_readers;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{Mutex, MutexGuard};

/// The number of clients that an environment variable sets, or `normally`.
fn count(variable: &str, normally: usize) -> usize {
    let read = |text: String| text.parse().unwrap_or_else(|_| panic!("{variable} must be a number"));
    std::env::var(variable).map_or(normally, read)
}

/// One process cannot serve several tests with thousands of connections at a time.
static MANY_CONNECTIONS: Mutex<()> = Mutex::const_new(());

/// Waits until no other test has many connections, and raises this process's limit on open files if necessary.
async fn reserve_open_files(connections: usize) -> MutexGuard<'static, ()> {
    let turn = MANY_CONNECTIONS.lock().await;
    let wanted = u64::try_from(connections).expect("fits") + 500;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|soft| soft < wanted) {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).unwrap_or_else(|error| panic!("{raised:?}: {error}"));
        assert!(limit.maximum.is_none_or(|hard| hard >= wanted), "{wanted} open files are needed: {limit:?}");
    }
    turn
}
