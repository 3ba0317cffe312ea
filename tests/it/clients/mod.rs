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
mod pace;
mod parked;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many clients, as set by a variable.
fn count(variable: &str, normally: usize) -> usize {
    let read = |text: String| text.parse().unwrap_or_else(|_| panic!("{variable}: a number"));
    std::env::var(variable).map_or(normally, read)
}

/// Raises this process's own limit of open files so that it can have so many connections.
fn make_room_for(connections: usize) {
    let wanted = u64::try_from(connections).expect("fits") + 500;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|soft| soft >= wanted) {
        return;
    }
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).unwrap_or_else(|error| panic!("{wanted} open files: {error}"));
}
