//! What can go wrong in a store. Expected answers (gone, stale receipt, nothing ready) are values,
//! not errors; these are failures.

/// A store's failure. After one, the change may or may not have happened unless the variant says so.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The store cannot be reached, did not answer in time, or is stopping. May have happened.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// No room for more. Did not happen; finish and delete still work.
    #[error("the store is full: {0}")]
    Full(String),
    /// The change happened but could not be made as durable as was configured; repeat it.
    #[error("the change is not durable: {0}")]
    NotDurable(String),
    /// Stored data is damaged, or a write failed in a way after which no more writes are safe.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}
