//! What the store keeps of a schedule: a line with what a client asked, and one with what the schedule remembers.

use std::time::Duration;

use crate::{
    job::{
        ScheduleName, Timestamp,
        schedule::{ScheduleSpec, ScheduleState},
    },
    store::ScheduleContent,
};

/// How long a run that cannot be added waits until it is tried again.
pub(in crate::queue) const RETRY: Duration = Duration::from_secs(5);

/// The content of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::queue) struct Content {
    pub spec: ScheduleSpec,
    pub state: ScheduleState,
}

impl Content {
    /// As it is stored: the next moment is that of the next run, or of the next attempt to add it.
    pub fn encode(&self, name: &ScheduleName, now: Timestamp) -> ScheduleContent {
        let Self { spec, state } = self;
        let due_at = state.due_at(name, spec);
        let next = if state.waiting.is_some() { due_at.map(|due| due.max(now.after(RETRY))) } else { due_at };
        ScheduleContent { next, text: format!("{}\n{}", spec.encode(), state.encode()).into() }
    }

    /// # Errors
    /// The rest of a sentence about the schedule.
    pub fn decode(stored: &ScheduleContent) -> Result<Self, String> {
        let text = std::str::from_utf8(&stored.text).map_err(|_| "is no text".to_owned())?;
        let (spec, state) = text.split_once('\n').ok_or_else(|| "has no state".to_owned())?;
        Ok(Self { spec: ScheduleSpec::decode(spec)?, state: ScheduleState::decode(state)? })
    }
}
