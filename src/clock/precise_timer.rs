//! Waking on time. tokio's timers go by whole milliseconds, which makes a wait up to two longer than it was meant
//! to be; the kernel's wake within some fifty microseconds.

use std::{sync::Arc, time::Duration};

use super::Clock;

/// A sleeper of one's own, for whoever must wake on time; for one wait at a time.
#[derive(Debug)]
pub struct Alarm {
    clock: Arc<dyn Clock>,
    /// Finer than the clock's own sleep, where the system has that.
    fine: Option<fine::Timer>,
}

impl Alarm {
    /// Wakes as precisely as the operating system can. For a clock that goes with boot time; to be called within
    /// a runtime.
    pub(super) fn fine(clock: Arc<dyn Clock>) -> Self {
        let fine = fine::Timer::new();
        if let Err(error) = &fine {
            tracing::info!(%error, "no fine timer; due jobs are noticed up to two milliseconds later");
        }
        Self { clock, fine: fine.ok() }
    }

    /// Wakes when the clock's own sleep does.
    pub(super) fn plain(clock: Arc<dyn Clock>) -> Self {
        Self { clock, fine: None }
    }

    /// Returns once `duration` has passed, never earlier.
    pub async fn sleep(&mut self, duration: Duration) {
        if let Some(timer) = &mut self.fine {
            match timer.sleep(duration).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, "the fine timer failed; due jobs are noticed up to two milliseconds later");
                    self.fine = None;
                }
            }
        }
        self.clock.sleep(duration).await;
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod fine {
    use std::{io, os::fd::OwnedFd, time::Duration};

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::{Interest, unix::AsyncFd};

    /// A timer of the kernel, on boot time: it also rings when the machine was suspended meanwhile.
    #[derive(Debug)]
    pub struct Timer(AsyncFd<OwnedFd>);

    impl Timer {
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
            // Zero would disarm it. Setting it anew also takes back the ringing of a wait that was given up.
            let wait = duration.max(Duration::from_nanos(1));
            let tv_sec = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
            let it_value = Timespec { tv_sec, tv_nsec: wait.subsec_nanos().into() };
            let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
            timerfd_settime(
                self.0.get_ref(),
                TimerfdTimerFlags::empty(),
                &Itimerspec { it_interval, it_value },
            )?;
            let mut rings = [0; size_of::<u64>()];
            self.0
                .async_io(Interest::READABLE, |timer| Ok(rustix::io::read(timer, &mut rings)?))
                .await
                .map(drop)
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod fine {
    use std::{convert::Infallible, io, time::Duration};

    /// There is none.
    #[derive(Debug)]
    pub struct Timer(Infallible);

    impl Timer {
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
    async fn the_kernel_wakes_never_early_and_also_after_a_wait_that_was_given_up() {
        let clock = Arc::new(SystemClock::new());
        let mut alarm = clock.clone().alarm();
        given_up(&mut alarm, Duration::MAX);
        for micros in [0_u32, 1, 10, 100, 999, 1_001, 5_000] {
            // Both of these rang, or soon will; neither may end the wait that follows.
            given_up(&mut alarm, Duration::ZERO);
            given_up(&mut alarm, Duration::from_micros(micros.into()));
            let before_us = clock.now_micros();
            alarm.sleep(Duration::from_micros(micros.into())).await;
            let slept_us = clock.now_micros() - before_us;
            assert!(slept_us >= i64::from(micros), "{slept_us} of {micros} microseconds");
        }
        assert!(alarm.fine.is_some(), "the kernel's timer did it all");
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn given_up(alarm: &mut Alarm, duration: Duration) {
        let sleep = std::pin::pin!(alarm.sleep(duration));
        let _: Poll<()> = sleep.poll(&mut Context::from_waker(Waker::noop()));
    }

    #[tokio::test]
    async fn an_alarm_of_a_clock_that_stands_still_does_not_ring() {
        let clock = ManualClock::new(Timestamp::from_millis(0));
        let mut alarm = clock.clone().alarm();
        let mut sleep = std::pin::pin!(alarm.sleep(Duration::from_millis(1)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        clock.advance(Duration::from_millis(1));
        assert!(sleep.as_mut().poll(&mut context).is_ready());
    }
}
