//! Hides from a caller limited to some topics whether a job does not exist or belongs to another topic.

use std::time::Duration;

use crate::{
    clock::Clock,
    store::redis::{
        context::EngineContext,
        time::{between, micros},
    },
};

/// How long after the beginning of a step such a caller learns that there is no job. To copy a record of
/// 256 KiB takes a server 0.4 ms.
const DELAY: Duration = Duration::from_millis(5);

/// A delay that begins with a step. Both cases then take the same time, although the server copies a large record
/// before the script sees its topic.
pub struct GoneDelay<'a> {
    context: &'a EngineContext,
    until_us: i64,
}

impl<'a> GoneDelay<'a> {
    /// Begins the delay.
    pub fn start(context: &'a EngineContext) -> Self {
        let delay_us = micros(DELAY);
        Self { context, until_us: context.now_us().saturating_add(delay_us) }
    }

    /// Waits for its end if a caller limited to some topics is about to learn that there is no job.
    pub async fn finish(self, is_hidden: bool) {
        if is_hidden {
            self.context.clock.sleep(between(self.context.now_us(), self.until_us)).await;
        }
    }
}
