//! A precise timer. tokio's timers have a resolution of a millisecond, so a wait takes up to two milliseconds longer;
//! the kernel's timers wake within some fifty microseconds.

use std::{sync::Arc, time::Duration};

use super::Clock;

/// Sleeps for its owner, one sleep at a time.
#[derive(Debug)]
pub struct PreciseTimer {
    clock: Arc<dyn Clock>,
    /// More precise than the clock's own sleep, where the system has such a timer.
    kernel_timer: Option<kernel::KernelTimer>,
}

impl PreciseTimer {
    /// As precise as the operating system allows, for a clock that follows boot time. Must be called within a runtime.
    pub(super) fn of_kernel(clock: Arc<dyn Clock>) -> Self {
        let kernel_timer = kernel::KernelTimer::new();
        if let Err(error) = &kernel_timer {
            tracing::info!(%error, "no precise timer; due jobs become ready up to two milliseconds later");
        }
        Self { clock, kernel_timer: kernel_timer.ok() }
    }

    /// As precise as the clock's own sleep.
    pub(super) fn of_clock(clock: Arc<dyn Clock>) -> Self {
        Self { clock, kernel_timer: None }
    }

    /// Returns once `duration` has passed, never earlier.
    pub async fn sleep(&mut self, duration: Duration) {
        if let Some(timer) = &mut self.kernel_timer {
            match timer.sleep(duration).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, "the precise timer failed; due jobs become ready up to two milliseconds later");
                    self.kernel_timer = None;
                }
            }
        }
        self.clock.sleep(duration).await;
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod kernel {
    use std::{io, os::fd::OwnedFd, time::Duration};

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::{Interest, unix::AsyncFd};

    /// A timer of the kernel on boot time, which also counts time spent suspended.
    #[derive(Debug)]
    pub struct KernelTimer(AsyncFd<OwnedFd>);

    impl KernelTimer {
        pub fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
            #[expect(
                deprecated,
                reason = "sound for an OwnedFd, which stays the same; the other way is unsafe"
            )]
            let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
            Ok(Self(timer))
        }

        pub async fn sleep(&mut self, duration: Duration) -> io::Result<()> {
            // Zero would disarm the timer. Setting it again also clears the expiration of a sleep that was dropped.
            let wait = duration.max(Duration::from_nanos(1));
            let tv_sec = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
            let it_value = Timespec { tv_sec, tv_nsec: wait.subsec_nanos().into() };
            let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
            timerfd_settime(
                self.0.get_ref(),
                TimerfdTimerFlags::empty(),
                &Itimerspec { it_interval, it_value },
            )?;
            let mut expirations = [0; size_of::<u64>()];
            self.0
                .async_io(Interest::READABLE, |timer| Ok(rustix::io::read(timer, &mut expirations)?))
                .await
                .map(drop)
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod kernel {
    use std::{convert::Infallible, io, time::Duration};

    /// Not available on this system.
    #[derive(Debug)]
    pub struct KernelTimer(Infallible);

    impl KernelTimer {
        pub fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub async fn sleep(&mut self, _: Duration) -> io::Result<()> {
            match self.0 {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::{
        clock::{ManualClock, SystemClock},
        job::Timestamp,
    };

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[tokio::test]
    async fn the_kernel_never_wakes_early_even_after_a_dropped_sleep() {
        let clock = Arc::new(SystemClock::new());
        let mut timer = clock.clone().precise_timer();
        start_and_drop(&mut timer, Duration::MAX);
        for micros in [0_u32, 1, 10, 100, 999, 1_001, 5_000] {
            // Both of these have expired, or soon will. Neither may end the sleep that follows.
            start_and_drop(&mut timer, Duration::ZERO);
            start_and_drop(&mut timer, Duration::from_micros(micros.into()));
            let before_us = clock.now_micros();
            timer.sleep(Duration::from_micros(micros.into())).await;
            let slept_us = clock.now_micros() - before_us;
            assert!(slept_us >= i64::from(micros), "{slept_us} of {micros} microseconds");
        }
        assert!(timer.kernel_timer.is_some(), "the kernel's timer did not fail");
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn start_and_drop(timer: &mut PreciseTimer, duration: Duration) {
        let sleep = std::pin::pin!(timer.sleep(duration));
        let _: Poll<()> = sleep.poll(&mut Context::from_waker(Waker::noop()));
    }

    #[tokio::test]
    async fn a_timer_on_a_manual_clock_waits_for_the_clock() {
        let clock = ManualClock::new(Timestamp::from_millis(0));
        let mut timer = clock.clone().precise_timer();
        let mut sleep = std::pin::pin!(timer.sleep(Duration::from_millis(1)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        clock.advance(Duration::from_millis(1));
        assert!(sleep.as_mut().poll(&mut context).is_ready());
    }
}
