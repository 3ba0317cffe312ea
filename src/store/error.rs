//! The failures of a store. Expected results (gone, stale receipt, nothing ready) are values, not errors.

/// A failure of a store. The change may or may not have happened, unless the variant is more specific.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The store cannot be reached, did not answer in time, or is stopping. The change may have happened.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store answers, and does not do it: it takes no writes, or not those of this process. The change did not happen
    /// unless an attempt at it was interrupted.
    #[error("the store is unavailable: {cause}")]
    Refused {
        /// Why, in words that any client may read.
        reason: String,
        /// The same for operators.
        cause: String,
    },
    /// The store is another one than this process has used, or was emptied. The change did not happen, unless a part of it is for
    /// another server.
    #[error(
        "the store was emptied or replaced, so that jobs are missing; bring its data back, or confirm the loss with \
         `linger store accept`"
    )]
    Replaced,
    /// There is no space for more. The change did not happen; finish and delete still work.
    #[error("the store is full: {0}")]
    Full(String),
    /// The change happened but could not be made as durable as configured; repeat it.
    #[error("the change is not durable: {0}")]
    NotDurable(String),
    /// Stored data cannot be read, or is not what the engine wrote. Everything else goes on.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    /// A write failed in a way after which no more writes are safe, so the store takes none. The change may have happened.
    #[error("the store takes no more writes: {0}")]
    Stopped(String),
}

impl Error {
    /// A refusal with one text for clients and operators.
    pub fn refused(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Refused { cause: reason.clone(), reason }
    }

    /// The same failure of a call of which another part, or an earlier attempt, may have had an effect.
    #[must_use]
    pub fn of_unknown_effect(self) -> Self {
        match self {
            Self::Full(why) => Self::Unavailable(why),
            error => error,
        }
    }

    /// This failure of a call after `done` items of the same change: only the first call can say that nothing has happened.
    #[must_use]
    pub fn after(self, done: usize) -> Self {
        if done == 0 { self } else { self.of_unknown_effect() }
    }

    /// Whether the store does nothing at present, and may do it later.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Refused { .. } | Self::Replaced)
    }
}
