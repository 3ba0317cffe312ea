//! Which clocks of servers can be trusted with what cannot be undone: a process knows what each should show by now. Makes no
//! calls.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
};

use crate::{clock::ClockTrust, store::redis::keys::Shard};

/// The clocks of the servers, by the first of the shards that a call to one of them is about.
#[derive(Debug, Default)]
pub struct ServerClocks(Mutex<HashMap<Shard, ServerClock>>);

#[derive(Debug)]
struct ServerClock {
    /// By how much it was ahead of this process's clock when it was read last.
    ahead_us: i64,
    trust: ClockTrust,
}

impl ServerClocks {
    /// The latest that the server's clock may show now if it is to be trusted; `None` before it was read for the first time.
    pub fn latest(&self, group: &[Shard], now_us: i64) -> Option<i64> {
        let clocks = self.lock();
        let clock = clocks.get(group.iter().min()?)?;
        Some(if clock.trust.is_given(now_us) { ClockTrust::latest(now_us + clock.ahead_us) } else { 0 })
    }

    /// Takes note of what the server's clock showed a moment ago. After a failover it is the clock of another machine.
    pub fn saw(&self, group: &[Shard], server_us: i64, now_us: i64) {
        let Some(first) = group.iter().min() else { return };
        let ahead_us = server_us - now_us;
        let mut clocks = self.lock();
        let clock =
            clocks.entry(*first).or_insert_with(|| ServerClock { ahead_us, trust: ClockTrust::default() });
        clock.trust.moved(ahead_us - clock.ahead_us, now_us);
        clock.ahead_us = ahead_us;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Shard, ServerClock>> {
        self.0.lock().expect("no code panics while it holds the clocks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    #[test]
    fn a_clock_that_was_set_is_not_trusted_for_an_hour_and_others_are() {
        let (clocks, one, other) = (ServerClocks::default(), [3, 1], [2]);
        assert_eq!(clocks.latest(&one, 0), None);
        clocks.saw(&one, HOUR, 0);
        clocks.saw(&other, HOUR, 0);
        assert_eq!(clocks.latest(&[1, 3], 5), Some(ClockTrust::latest(HOUR + 5)), "in any order");
        clocks.saw(&one, 3 * HOUR, 10);
        assert_eq!(clocks.latest(&one, 20), Some(0));
        assert_eq!(clocks.latest(&other, 20), Some(ClockTrust::latest(HOUR + 20)));
        clocks.saw(&one, 4 * HOUR, HOUR);
        assert_eq!(clocks.latest(&one, HOUR + 10), Some(ClockTrust::latest(4 * HOUR + 10)));
    }
}
