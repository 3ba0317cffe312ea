//! Hostile and heavy clients: the limits and timeouts of connections, thousands of bad connections, parked polls and
//! workers that leave, foreign web pages.
//!
//! The normal run is short. `LINGER_PROVE_HOSTILE`, `LINGER_PROVE_PARKED` and `LINGER_PROVE_LEAVERS` set how
//! many clients there are. Each of these prints one line that begins with `proof: `.

mod browsers;
mod caps;
mod deliveries;
mod hostile;
mod leavers;
mod memory;
mod pace;
mod parked;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{Mutex, MutexGuard};

/// The number of clients that a variable sets.
fn count(variable: &str, normally: usize) -> usize {
    let read = |text: String| text.parse().unwrap_or_else(|_| panic!("{variable}: a number"));
    std::env::var(variable).map_or(normally, read)
}

/// One process cannot serve several tests with thousands of connections at a time.
static CROWD: Mutex<()> = Mutex::const_new(());

/// Waits for the turn to open so many connections, and raises this process's limit of open files for them.
async fn crowd(connections: usize) -> MutexGuard<'static, ()> {
    let turn = CROWD.lock().await;
    let wanted = u64::try_from(connections).expect("fits") + 500;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|soft| soft < wanted) {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).unwrap_or_else(|error| panic!("{raised:?}: {error}"));
        assert!(limit.maximum.is_none_or(|hard| hard >= wanted), "{wanted} open files are needed: {limit:?}");
    }
    turn
}
