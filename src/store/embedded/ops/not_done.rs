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

/// Carries out an operation for each of `items` in turn, until it fails as a whole. Returns the outcomes as the writer takes
/// them.
pub(super) fn attempt_each<I, T>(
    items: &[I],
    mut attempt: impl FnMut(&I) -> Attempted<T>,
) -> SqlResult<Result<Vec<Outcome<T>>>> {
    // Most calls have one item, and an iterator of results would be collected into room for four.
    let mut outcomes = Vec::with_capacity(items.len());
    for item in items {
        match attempt(item) {
            Ok(done) => outcomes.push(Ok(done)),
            Err(NotDone::Refused(refusal)) => outcomes.push(Err(refusal)),
            Err(NotDone::Failed(error)) => return Ok(Err(error)),
            Err(NotDone::Database(error)) => return Err(error),
        }
    }
    Ok(Ok(outcomes))
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
