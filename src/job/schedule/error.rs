//! Why a schedule is refused.

/// Why a field of a schedule is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct ScheduleError {
    /// The field of the API.
    pub field: &'static str,
    /// What is wrong with it and what to do instead: the rest of a sentence that begins with the field.
    pub problem: String,
}

impl ScheduleError {
    pub(super) fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}
