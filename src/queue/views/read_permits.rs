//! How many callers may read large parts of the store at the same time, so that workers are not delayed. Scans have permits
//! apart from those of other lists and of timelines, which therefore do not wait for scans.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    clock::Clock,
    queue::error::{Error, Result},
};

/// How long a caller waits until fewer others read.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Most scans at once. Each goes through thousands of jobs in short steps, and two leave the store most of its time.
const MAX_SCANS: usize = 2;

/// Limits concurrent expensive reads.
#[derive(Debug)]
pub(in crate::queue) struct ReadPermits {
    permits: Semaphore,
    refusal: Error,
    clock: Arc<dyn Clock>,
}

impl ReadPermits {
    /// For at most `max` callers that read lists, reasons, timelines or sorted topics.
    pub fn of_looks(clock: Arc<dyn Clock>, max: usize) -> Self {
        Self { permits: Semaphore::new(max), refusal: Error::Busy { limit: max }, clock }
    }

    /// For lists that may examine many jobs for each that they find.
    pub fn of_scans(clock: Arc<dyn Clock>) -> Self {
        let refusal = Error::TooManyScans { limit: MAX_SCANS };
        Self { permits: Semaphore::new(MAX_SCANS), refusal, clock }
    }

    /// Waits for a permit, but not for long.
    pub async fn acquire(&self) -> Result<SemaphorePermit<'_>> {
        tokio::select! {
            biased;
            permit = self.permits.acquire() => Ok(permit.expect("the semaphore is never closed")),
            () = self.clock.sleep(MAX_WAIT) => Err(self.refusal.clone()),
        }
    }
}
