//! How the engine ends when it is dropped, and what it shows of itself.

use super::{Redis, tasks};
use crate::store::Store;

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("info", &self.info()).finish_non_exhaustive()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let context = self.shards.context();
        if !context.closing.is_cancelled() {
            let shards = self.shards.clone();
            context.runtime.spawn(async move { tasks::close(&shards).await });
        }
    }
}
