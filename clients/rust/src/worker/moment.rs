//! Moments in boot time, which also passes while the machine is suspended.

use std::{ops::Add, time::Duration};

/// A moment, as the time since the machine was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(Duration);

impl BootTime {
    /// The present moment.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[must_use]
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self(Duration::try_from(now).unwrap_or_default())
    }

    /// The present moment. This system has no boot time that a program could read.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    #[must_use]
    pub fn now() -> Self {
        use std::{sync::LazyLock, time::Instant};
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        Self(START.elapsed())
    }

    /// A given moment.
    #[cfg(test)]
    #[must_use]
    pub const fn since_boot(time: Duration) -> Self {
        Self(time)
    }

    /// How long it is from here to `later`; zero if that has passed.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        later.0.saturating_sub(self.0)
    }
}

impl Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}
