//! The bounds of histograms that metrics of several parts have.

use prometheus_client::metrics::histogram::Histogram;

/// 1 ms to 2 h: lateness and waits. The bounds are closest where the guarantees are, and short when printed.
pub fn waits() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0, 900.0, 7_200.0,
    ])
}
