//! Hostile and heavy clients: the caps and the pace of connections, thousands of bad connections, parked
//! polls and workers who leave, foreign web pages.
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

/// How many clients, as set by a variable.
fn count(variable: &str, normally: usize) -> usize {
    let read = |text: String| text.parse().unwrap_or_else(|_| panic!("{variable}: a number"));
    std::env::var(variable).map_or(normally, read)
}

/// Thousands of connections at a time are enough for one process.
static CROWD: Mutex<()> = Mutex::const_new(());

/// The right to have so many connections; raises this process's own limit of open files for them.
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
