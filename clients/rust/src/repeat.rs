//! How long, and how often, a failed call is sent again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::Error;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The repeats of one call.
pub(crate) struct Repeats {
    end: Instant,
    pause: Duration,
}

impl Repeats {
    /// No repeat begins later than `limit` from now.
    pub fn within(limit: Duration) -> Self {
        Self { end: Instant::now() + limit, pause: FIRST_PAUSE }
    }

    /// Pauses before the next attempt: longer each time, and as long as the server asks for. Returns how much time
    /// is left then, or the failure when that would be too late.
    pub async fn pause(&mut self, failure: Error) -> Result<Duration, Error> {
        let wanted = failure.refusal().and_then(|refusal| refusal.retry_after).unwrap_or_default();
        // Clients that failed together must not come back together.
        let pause = self.pause.mul_f64(rand::random_range(0.5..1.0)).max(wanted);
        // A server may ask for more time than the clock can count.
        if Instant::now().checked_add(pause).is_none_or(|next| next >= self.end) {
            return Err(failure);
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        sleep(pause).await;
        let left = self.end.saturating_duration_since(Instant::now());
        // A pause lasts longer where the machine is busy or this process was stopped.
        if left.is_zero() { Err(failure) } else { Ok(left) }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::error::Refusal;

    fn refused(detail: String) -> Error {
        Error::Refused { call: "add", refusal: Box::new(Refusal::new(503, None, detail.into())) }
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_end_within_the_limit_with_the_last_failure() {
        let (began, limit) = (Instant::now(), Duration::from_secs(10));
        let (mut repeats, mut count) = (Repeats::within(limit), 0);
        let ended = loop {
            match repeats.pause(refused(format!("after {count} repeats"))).await {
                Ok(left) => assert_eq!(left, limit - began.elapsed()),
                Err(failure) => break failure,
            }
            count += 1;
        };
        assert!(ended.to_string().contains(&format!("after {count} repeats")), "{ended}");
        // The pauses grow from between 50 and 100 ms to between 1 and 2 s.
        assert!((8..=14).contains(&count), "{count} repeats");
        assert!(began.elapsed() < limit);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_that_lasts_beyond_the_limit_ends_with_the_failure_before_it() {
        let limit = Duration::from_secs(10);
        let mut repeats = Repeats::within(limit);
        let (ended, ()) = tokio::join!(repeats.pause(refused("away".to_owned())), advance(limit));
        assert!(ended.is_err_and(|failure| failure.to_string().contains("away")));
    }
}
