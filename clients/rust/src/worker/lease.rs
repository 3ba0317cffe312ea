//! The lease of a job: its reservation as the worker counts it. Pure: the time is given.

use std::time::Duration;

use super::moment::BootTime;

/// How long a heartbeat may take, as a part of the lease.
const HEARTBEAT_PARTS: u32 = 10;
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(250);
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a worker waits after a heartbeat that failed, as a part of the lease.
const PAUSE_PARTS: u32 = 30;
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long before the end of the lease the work is over at the latest, as a part of the lease.
const MARGIN_PARTS: u32 = 20;
const LONGEST_MARGIN: Duration = Duration::from_millis(250);

/// When a heartbeat is sent: when it is due, or before with that of another job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeartbeatTime {
    /// From when on it goes along with another one.
    pub early: BootTime,
    pub due: BootTime,
}

impl HeartbeatTime {
    /// After `wait` from a moment on. The second half of it may be left out.
    pub fn after(from: BootTime, wait: Duration) -> Self {
        Self { early: from + wait / 2, due: from + wait }
    }
}

/// A reservation as the worker counts it: from when it sent the last call that was answered, so that it ends
/// before the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    length: Duration,
    renewed: BootTime,
}

impl Lease {
    /// A lease that was renewed by a call sent at `sent`.
    pub fn new(length: Duration, sent: BootTime) -> Self {
        Self { length, renewed: sent }
    }

    /// A heartbeat that was sent at `sent` succeeded.
    pub fn renew(&mut self, sent: BootTime) {
        self.renewed = self.renewed.max(sent);
    }

    /// When the next heartbeat is sent: after a third of it.
    pub fn heartbeat(&self) -> HeartbeatTime {
        HeartbeatTime::after(self.renewed, self.length / 3)
    }

    /// From when it counts as lost: after nine tenths of it.
    pub fn lost(&self) -> BootTime {
        self.renewed + self.length * 9 / 10
    }

    /// When nothing may run any more: just before its end, since a signal takes time, too.
    pub fn last_moment(&self) -> BootTime {
        self.renewed + (self.length - (self.length / MARGIN_PARTS).min(LONGEST_MARGIN))
    }

    /// How long one heartbeat may take, so that another one can follow in time.
    pub fn heartbeat_limit(&self) -> Duration {
        (self.length / HEARTBEAT_PARTS).clamp(SHORTEST_HEARTBEAT, LONGEST_HEARTBEAT)
    }

    /// When the next heartbeat is sent after one that failed at `now`.
    pub fn heartbeat_again(&self, now: BootTime) -> HeartbeatTime {
        HeartbeatTime::after(now, (self.length / PAUSE_PARTS).clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> BootTime {
        BootTime::since_boot(Duration::from_millis(ms))
    }

    #[test]
    fn the_parts_of_a_lease_follow_each_other_and_end_before_it() {
        for (length_ms, expected) in [
            (1_200, [200, 400, 1_080, 1_140]),
            (60_000, [10_000, 20_000, 54_000, 59_750]),
            (2_592_000_000, [432_000_000, 864_000_000, 2_332_800_000, 2_591_999_750]),
        ] {
            let lease = Lease::new(Duration::from_millis(length_ms), ms(5));
            let HeartbeatTime { early, due } = lease.heartbeat();
            let moments = [early, due, lease.lost(), lease.last_moment()];
            let expected = expected.map(|passed| ms(5) + Duration::from_millis(passed));
            assert_eq!(moments, expected, "{length_ms}");
            let again = lease.heartbeat_again(due + lease.heartbeat_limit());
            assert!(again.due + lease.heartbeat_limit() < lease.lost(), "two heartbeats fit: {length_ms}");
        }
    }

    #[test]
    fn an_answer_to_an_older_heartbeat_shortens_nothing() {
        let mut lease = Lease::new(Duration::from_secs(60), ms(0));
        lease.renew(ms(20_000));
        lease.renew(ms(10_000));
        assert_eq!(lease, Lease::new(Duration::from_secs(60), ms(20_000)));
    }
}
