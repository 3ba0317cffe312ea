//! Calls to a store that hang.

use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

/// Calls that hang until they are released, such as the reserves of one topic.
#[derive(Debug)]
pub struct HungCalls {
    calls: Mutex<usize>,
    released: Semaphore,
}

impl HungCalls {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { calls: Mutex::default(), released: Semaphore::new(0) })
    }

    /// The number of calls that arrived so far.
    pub fn hung_calls(&self) -> usize {
        *self.calls.lock().expect("not poisoned")
    }

    /// Lets all calls continue.
    pub fn release(&self) {
        self.released.close();
    }

    pub(super) async fn wait(&self) {
        *self.calls.lock().expect("not poisoned") += 1;
        let closed = self.released.acquire().await.is_err();
        assert!(closed, "there are no permits");
    }
}
