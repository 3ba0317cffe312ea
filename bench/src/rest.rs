//! Rest: what a server costs while no client adds or pops a job.

use std::time::Duration;

use tokio::time::sleep;

use crate::{calls::Connection, failure::Failure, now::now_us, report::Row, work::Bench};

/// Waits for `time`. The row with the processor time and the calls of the store meanwhile.
pub(crate) async fn rest(bench: &Bench, mut row: Row, time: Duration) -> Result<Row, Failure> {
    let connection = Connection::new(&bench.server);
    let (calls_before, before, begun_us) = (store_calls(&connection).await?, bench.sample(), now_us());
    sleep(time).await;
    let (after, elapsed_us) = (bench.sample(), now_us() - begun_us);
    let calls = store_calls(&connection).await?.zip(calls_before).map(|(calls, before)| calls - before);
    row.resident_bytes = after.resident_bytes;
    row.annotate_cpu(after.cpu_percent(&before, elapsed_us));
    row.annotate("store_calls", calls, |calls| {
        format!("{calls} store calls in {} s", elapsed_us / 1_000_000)
    });
    Ok(row)
}

/// How many operations of its store the server has counted, if it may be asked.
async fn store_calls(connection: &Connection) -> Result<Option<f64>, Failure> {
    let metrics = connection.metrics().await?;
    Ok(metrics.map(|text| {
        let counts =
            text.lines().filter(|line| line.starts_with("linger_store_operation_duration_seconds_count"));
        counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }))
}
