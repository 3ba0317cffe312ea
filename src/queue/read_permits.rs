//! How many callers may read large parts of the store at the same time, so that workers are not delayed.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::error::{Error, Result};
use crate::clock::Clock;

/// How long a caller waits until fewer others read.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Permits for those who read much.
#[derive(Debug)]
pub(super) struct ReadPermits {
    permits: Semaphore,
    max: usize,
    clock: Arc<dyn Clock>,
}

impl ReadPermits {
    pub fn new(clock: Arc<dyn Clock>, max: usize) -> Self {
        Self { permits: Semaphore::new(max), max, clock }
    }

    /// Waits for a permit, but not for long.
    pub async fn acquire(&self) -> Result<SemaphorePermit<'_>> {
        tokio::select! {
            biased;
            permit = self.permits.acquire() => Ok(permit.expect("the semaphore is never closed")),
            () = self.clock.sleep(MAX_WAIT) => Err(Error::Busy { limit: self.max }),
        }
    }
}
