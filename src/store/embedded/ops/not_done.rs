//! The ends of an operation on one job that changed nothing, as errors, so that its checks read as one line each.

use crate::store::{Error, Outcome, Refusal, Result, embedded::rows::db::SqlResult};

/// Why nothing changed.
pub(super) enum NotDone {
    /// The database failed, which rolls the whole group back.
    Database(rusqlite::Error),
    /// The store cannot do it now: the call of which this is a part fails as a whole.
    Failed(Error),
    /// The job, or the request, does not allow it.
    Refused(Refusal),
}

/// The result of an operation on one job.
pub(super) type Attempted<T> = std::result::Result<T, NotDone>;

/// The result as the writer takes it.
pub(super) fn into_outcome<T>(attempted: Attempted<T>) -> SqlResult<Result<Outcome<T>>> {
    match attempted {
        Ok(done) => Ok(Ok(Ok(done))),
        Err(NotDone::Refused(refusal)) => Ok(Ok(Err(refusal))),
        Err(NotDone::Failed(error)) => Ok(Err(error)),
        Err(NotDone::Database(error)) => Err(error),
    }
}

impl From<rusqlite::Error> for NotDone {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Error> for NotDone {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Refusal> for NotDone {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
