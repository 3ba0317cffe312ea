//! Notices when somebody sets the system's clock. Nothing has to be done about it, because this process
//! counts on from the time at its start; but people should know, and it shows at the next start.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    clock::{Clock, SystemClock},
    metrics::ClockMetrics,
};

/// How often the clocks are compared.
const EVERY: Duration = Duration::from_secs(1);
/// A smaller difference since the last step is adjusting, not setting.
const STEP_US: i64 = 1_000_000;

/// Compares until it is told to stop.
pub(super) async fn watch(clock: Arc<SystemClock>, metrics: ClockMetrics, until: CancellationToken) {
    let mut watch = Watch { known_us: clock.wall_drift_micros() };
    loop {
        let drift_us = clock.wall_drift_micros();
        metrics.set_drift(drift_us as f64 / 1e6);
        if let Some(step_us) = watch.look(drift_us) {
            metrics.count_step();
            tracing::warn!(
                step_ms = step_us / 1_000,
                drift_ms = drift_us / 1_000,
                "the system's clock was set; this process goes on counting from the time at its start"
            );
        }
        tokio::select! {
            () = clock.sleep(EVERY) => {}
            () = until.cancelled() => return,
        }
    }
}

/// What is known of the difference between the clocks.
struct Watch {
    known_us: i64,
}

impl Watch {
    /// By how much the system's clock was set since the last step, if it was.
    fn look(&mut self, drift_us: i64) -> Option<i64> {
        let step_us = drift_us - self.known_us;
        if step_us.abs() < STEP_US {
            return None;
        }
        self.known_us = drift_us;
        Some(step_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_noticed_once_either_way_and_adjusting_is_not() {
        let mut watch = Watch { known_us: -5_000_000 };
        assert_eq!(watch.look(-5_000_000), None);
        assert_eq!(watch.look(-4_000_001), None);
        assert_eq!(watch.look(3_595_000_000), Some(3_600_000_000));
        assert_eq!(watch.look(3_595_999_999), None);
        assert_eq!(watch.look(-5_000_000), Some(-3_600_000_000));
        assert_eq!(watch.look(-5_000_000), None);
    }
}
