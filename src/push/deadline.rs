//! The moment at which a step has to be done.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use crate::clock::Clock;

/// A moment on a clock. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    clock: Arc<dyn Clock>,
    ends_us: i64,
}

impl Deadline {
    pub fn after(clock: &Arc<dyn Clock>, limit: Duration) -> Self {
        let limit_us = i64::try_from(limit.as_micros()).unwrap_or(i64::MAX);
        Self { clock: clock.clone(), ends_us: clock.now_micros().saturating_add(limit_us) }
    }

    /// The earlier of this moment and `limit` from now.
    pub fn within(&self, limit: Duration) -> Self {
        let nearer = Self::after(&self.clock, limit);
        if nearer.ends_us < self.ends_us { nearer } else { self.clone() }
    }

    /// The time that is left.
    pub fn remaining(&self) -> Duration {
        let left_us = self.ends_us.saturating_sub(self.clock.now_micros());
        Duration::from_micros(u64::try_from(left_us).unwrap_or(0))
    }

    /// What `step` returns, or `None` if it is not done in time; it is dropped then.
    ///
    /// A peer that sends without a pause keeps the step from ever waiting, and keeps the runtime from its timers. So the
    /// clock is read each time the step has stopped, and the sleep only wakes a step that waits.
    pub async fn run<T>(&self, step: impl Future<Output = T>) -> Option<T> {
        let mut step = pin!(step);
        // The step may have used up the task's budget, without which a sleep would not even register its waker.
        let mut sleep = pin!(tokio::task::unconstrained(async { self.clock.sleep(self.remaining()).await }));
        let poll = |cx: &mut Context<'_>| match step.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if self.remaining().is_zero() => Poll::Ready(None),
            // The time left is read when the step waits for the first time.
            Poll::Pending => sleep.as_mut().poll(cx).map(|()| None),
        };
        poll_fn(poll).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::ManualClock, job::Timestamp};

    #[tokio::test]
    async fn a_step_that_is_never_idle_is_ended_by_the_clock() {
        let manual = ManualClock::new(Timestamp::from_millis(0));
        let clock: Arc<dyn Clock> = manual.clone();
        let deadline = Deadline::after(&clock, Duration::from_secs(3));
        let mut polls = 0;
        let mut step = pin!(async {
            loop {
                tokio::task::consume_budget().await;
            }
        });
        let busy = poll_fn(|cx| {
            polls += 1;
            assert!(polls <= 3, "polled after its end");
            manual.advance(Duration::from_secs(1));
            // Returns when the budget of the task is used up.
            step.as_mut().poll(cx)
        });
        assert_eq!(deadline.run(busy).await, None::<()>);
    }
}
