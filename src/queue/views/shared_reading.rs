//! A short-lived cache of an expensive reading of the store, shared by concurrent callers.

use std::sync::Arc;

use tokio::sync::Mutex;

use crate::queue::error::Result;

/// The result of the last reading. Locked while a caller reads anew, so that the others wait for its result.
#[derive(Debug)]
pub(in crate::queue) struct SharedReading<T>(Mutex<Option<Result<Arc<T>>>>);

impl<T> Default for SharedReading<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> SharedReading<T> {
    /// The last reading if it `is_fresh`, otherwise what `read` returns. Callers that waited for a reading that failed
    /// get its error: otherwise they would repeat it, one after the other.
    pub async fn get(
        &self,
        is_fresh: impl Fn(&T) -> bool,
        read: impl Future<Output = Result<T>>,
    ) -> Result<Arc<T>> {
        let (mut kept, waited) = match self.0.try_lock() {
            Ok(kept) => (kept, false),
            Err(_) => (self.0.lock().await, true),
        };
        match &*kept {
            Some(Ok(reading)) if is_fresh(reading) => return Ok(reading.clone()),
            Some(Err(error)) if waited => return Err(error.clone()),
            _ => {}
        }
        // If this caller leaves, the next one does not take an old error for the outcome.
        *kept = None;
        let outcome = read.await.map(Arc::new);
        *kept = Some(outcome.clone());
        outcome
    }

    /// Whether it has a reading that `is_fresh`, and no caller reads anew.
    pub fn has(&self, is_fresh: impl Fn(&T) -> bool) -> bool {
        self.0.try_lock().is_ok_and(|kept| matches!(&*kept, Some(Ok(reading)) if is_fresh(reading)))
    }
}
