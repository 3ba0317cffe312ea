//! Follows the machine's clock when it is set: moments move, delays keep their remaining time.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    clock::{Clock, SystemClock},
    metrics::ClockMetrics,
};

/// How often the clocks are compared.
const INTERVAL: Duration = Duration::from_secs(1);
/// A smaller change since the last step is followed, and not reported.
const STEP_US: i64 = 1_000_000;

/// Compares the clocks until `until`.
pub(super) async fn watch(clock: Arc<SystemClock>, metrics: ClockMetrics, until: CancellationToken) {
    // The clock began with the wall clock.
    let mut detector = StepDetector { last_drift_us: 0 };
    loop {
        let drift_us = clock.compare_with_wall();
        metrics.set_drift(drift_us as f64 / 1e6);
        if let Some(step_us) = detector.detect(drift_us) {
            metrics.count_step();
            tracing::warn!(
                step_ms = step_us / 1_000,
                drift_ms = drift_us / 1_000,
                "the machine's clock was set; jobs with a moment follow it, those with a delay keep their remaining time"
            );
        }
        tokio::select! {
            () = clock.sleep_until_period_ends(INTERVAL) => {}
            () = until.cancelled() => return,
        }
    }
}

/// Detects steps in the difference between the clocks.
struct StepDetector {
    /// The difference at the last step.
    last_drift_us: i64,
}

impl StepDetector {
    /// By how much the system's clock was set since the last step, if it was.
    fn detect(&mut self, drift_us: i64) -> Option<i64> {
        let step_us = drift_us - self.last_drift_us;
        if step_us.abs() < STEP_US {
            return None;
        }
        self.last_drift_us = drift_us;
        Some(step_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_detected_once_in_both_directions_and_adjustments_are_not() {
        let mut detector = StepDetector { last_drift_us: -5_000_000 };
        assert_eq!(detector.detect(-5_000_000), None);
        assert_eq!(detector.detect(-4_000_001), None);
        assert_eq!(detector.detect(3_595_000_000), Some(3_600_000_000));
        assert_eq!(detector.detect(3_595_999_999), None);
        assert_eq!(detector.detect(-5_000_000), Some(-3_600_000_000));
        assert_eq!(detector.detect(-5_000_000), None);
    }
}
