//! The difference between the clock of one server and ours: every change carries a deadline by that server's
//! clock. Knows moments, not calls.

use std::sync::{Mutex, MutexGuard};

use fred::{
    error::{Error as FredError, ErrorKind},
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value},
};

use super::client::ServerConnection;
use crate::clock::{Clock, SystemClock};

/// The clock of the server that one connection belongs to.
#[derive(Debug, Default)]
pub struct ServerClock(Mutex<ClockState>);

#[derive(Debug, Default)]
struct ClockState {
    offset: Option<Offset>,
    /// The connection that was last used. Another one may belong to another server, with another clock.
    connection: Option<u64>,
}

/// Lower and upper bound of the server's clock minus ours, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offset {
    least: i64,
    most: i64,
}

impl Offset {
    /// From a reading that was requested and received at these two moments of our clock.
    fn measured(before_us: i64, server_us: i64, after_us: i64) -> Self {
        Self { least: server_us - after_us, most: server_us - before_us }
    }

    /// The narrower of two ranges that overlap; otherwise the newer one: the clock was set, or runs
    /// faster or slower than ours.
    fn refined(self, newer: Self) -> Self {
        let overlap = self.least <= newer.most && newer.least <= self.most;
        if overlap && self.most - self.least < newer.most - newer.least { self } else { newer }
    }
}

impl ServerClock {
    /// Records a reading that was requested and received at these two moments of our clock.
    pub fn record(&self, before_us: i64, server_us: i64, after_us: i64) {
        let newer = Offset::measured(before_us, server_us, after_us);
        let mut state = self.lock();
        state.offset = Some(state.offset.map_or(newer, |offset| offset.refined(newer)));
    }

    /// Discards the offset, so that it is measured again before the next use.
    pub fn reset(&self) {
        self.lock().offset = None;
    }

    /// A lower bound of the clock of the server behind `connection` minus ours, in microseconds. Measured by `TIME` if
    /// it is not known.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn offset_us(
        &self,
        connection: &ServerConnection,
        real: &SystemClock,
    ) -> Result<i64, FredError> {
        Ok(self.bounds_us(connection, real).await?.0)
    }

    /// As [`Self::offset_us`], with the upper bound, too.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn bounds_us(
        &self,
        connection: &ServerConnection,
        real: &SystemClock,
    ) -> Result<(i64, i64), FredError> {
        if let Some(Offset { least, most }) = self.known(connection.id()) {
            return Ok((least, most));
        }
        let before_us = real.now_micros();
        let command = CustomCommand::new_static("TIME", ClusterHash::Random, false);
        let request = connection.client().custom(command, Vec::<Value>::new());
        let reply: Value = connection.call(request).await?;
        let server_us = parse_time(&reply)
            .ok_or_else(|| FredError::new(ErrorKind::Protocol, "TIME has an unexpected reply"))?;
        let after_us = real.now_micros();
        self.record(before_us, server_us, after_us);
        let Offset { least, most } = Offset::measured(before_us, server_us, after_us);
        Ok((least, most))
    }

    fn known(&self, connection: u64) -> Option<Offset> {
        let mut state = self.lock();
        if state.connection.replace(connection) != Some(connection) {
            state.offset = None;
        }
        state.offset
    }

    fn lock(&self) -> MutexGuard<'_, ClockState> {
        self.0.lock().expect("no code panics while it holds the offset")
    }
}

/// Reads the reply of `TIME`: seconds, and microseconds of the current second.
fn parse_time(reply: &Value) -> Option<i64> {
    let Value::Array(parts) = reply else { return None };
    let [seconds, micros] = &parts[..] else { return None };
    seconds.as_i64()?.checked_mul(1_000_000)?.checked_add(micros.as_i64()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_of_overlapping_readings_is_used() {
        let narrow = Offset::measured(1_000, 501_000, 1_200);
        assert_eq!(narrow, Offset { least: 499_800, most: 500_000 });
        let wide = Offset::measured(2_000, 510_000, 12_000);
        assert_eq!(narrow.refined(wide), narrow, "it says the same, less precisely");
        assert_eq!(wide.refined(narrow), narrow);
        let stepped = Offset::measured(20_000, 9_000_000, 40_000);
        assert_eq!(narrow.refined(stepped), stepped, "the clock was set meanwhile");
    }

    #[test]
    fn a_time_is_read_or_refused() {
        let reply = |parts: &[&str]| Value::Array(parts.iter().map(|part| (*part).into()).collect());
        assert_eq!(parse_time(&reply(&["12", "000034"])), Some(12_000_034));
        for invalid in
            [reply(&["12"]), reply(&["12", "x"]), reply(&["9223372036854775807", "1"]), Value::Null]
        {
            assert_eq!(parse_time(&invalid), None, "{invalid:?}");
        }
    }
}
