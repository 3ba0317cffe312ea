//! What the clock of one server says, by ours: every change carries the latest moment at which it may still
//! happen, by that server's clock. Knows moments, not calls.

use std::sync::{Mutex, MutexGuard};

use fred::{
    error::{Error as FredError, ErrorKind},
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value},
};

use super::client::Connection;
use crate::clock::{Clock, SystemClock};

/// The clock of the server that one connection leads to.
#[derive(Debug, Default)]
pub struct ServerClock(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    offset: Option<Offset>,
    /// The connection that was last used. Another one may lead to another server, whose clock is another.
    connection: Option<u64>,
}

/// The server's clock minus ours, in microseconds: it lies between these two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offset {
    least: i64,
    most: i64,
}

impl Offset {
    /// By a reading that was asked for and answered between two moments of ours.
    fn measured(before_us: i64, server_us: i64, after_us: i64) -> Self {
        Self { least: server_us - after_us, most: server_us - before_us }
    }

    /// The closer one of two that agree; of two that contradict each other, the newer: the clock was set, or runs
    /// faster or slower than ours.
    fn refined(self, newer: Self) -> Self {
        let agree = self.least <= newer.most && newer.least <= self.most;
        if agree && self.most - self.least < newer.most - newer.least { self } else { newer }
    }
}

impl ServerClock {
    /// Takes in a reading that was asked for and answered between two moments of ours.
    pub fn learn(&self, before_us: i64, server_us: i64, after_us: i64) {
        let newer = Offset::measured(before_us, server_us, after_us);
        let mut state = self.lock();
        state.offset = Some(state.offset.map_or(newer, |offset| offset.refined(newer)));
    }

    /// Measures anew before the next use.
    pub fn forget(&self) {
        self.lock().offset = None;
    }

    /// The clock of the server behind `connection` minus ours in microseconds, at least: measured by asking when it
    /// is not known.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn offset_us(&self, connection: &Connection, real: &SystemClock) -> Result<i64, FredError> {
        if let Some(offset) = self.known(connection.number()) {
            return Ok(offset.least);
        }
        let before_us = real.now_micros();
        let command = CustomCommand::new_static("TIME", ClusterHash::Random, false);
        let asked = connection.client().custom(command, Vec::<Value>::new());
        let answer: Value = connection.call(asked).await?;
        let server_us = micros(&answer)
            .ok_or_else(|| FredError::new(ErrorKind::Protocol, "TIME is answered with something else"))?;
        let after_us = real.now_micros();
        self.learn(before_us, server_us, after_us);
        Ok(Offset::measured(before_us, server_us, after_us).least)
    }

    fn known(&self, connection: u64) -> Option<Offset> {
        let mut state = self.lock();
        if state.connection.replace(connection) != Some(connection) {
            state.offset = None;
        }
        state.offset
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no code panics while it holds the offset")
    }
}

/// Reads the answer of `TIME`: seconds, and microseconds of the present one.
fn micros(answer: &Value) -> Option<i64> {
    let Value::Array(parts) = answer else { return None };
    let [seconds, micros] = &parts[..] else { return None };
    seconds.as_i64()?.checked_mul(1_000_000)?.checked_add(micros.as_i64()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_of_the_readings_that_agree_counts() {
        let close = Offset::measured(1_000, 501_000, 1_200);
        assert_eq!(close, Offset { least: 499_800, most: 500_000 });
        let wide = Offset::measured(2_000, 510_000, 12_000);
        assert_eq!(close.refined(wide), close, "it says the same, less closely");
        assert_eq!(wide.refined(close), close);
        let stepped = Offset::measured(20_000, 9_000_000, 40_000);
        assert_eq!(close.refined(stepped), stepped, "the clock was set meanwhile");
    }

    #[test]
    fn a_time_is_read_or_refused() {
        let answer = |parts: &[&str]| Value::Array(parts.iter().map(|part| (*part).into()).collect());
        assert_eq!(micros(&answer(&["12", "000034"])), Some(12_000_034));
        for odd in [answer(&["12"]), answer(&["12", "x"]), answer(&["9223372036854775807", "1"]), Value::Null]
        {
            assert_eq!(micros(&odd), None, "{odd:?}");
        }
    }
}
