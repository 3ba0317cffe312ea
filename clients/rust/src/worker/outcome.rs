//! How the run of a job ended, and what the server is told of it. Owns the form of reasons.

use std::time::Duration;

/// Longest reason that a server keeps, in bytes.
const MAX_REASON_BYTES: usize = 1_024;

/// What a run was worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The job is done: it is finished.
    Done,
    /// The job can never be done: it is buried.
    Unacceptable,
    /// This attempt failed: the job is released.
    Failed,
    /// No job can be done here: this one is released, and the worker ends.
    Broken,
}

/// How the run of a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// What it was worth.
    pub verdict: Verdict,
    /// How it ended, such as `exit 1`.
    pub what: String,
    /// What the job itself says about that, such as its last line.
    pub detail: Option<String>,
}

/// What the server is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The job is done.
    Finish,
    /// The job becomes a dead letter.
    Bury {
        /// Why.
        reason: String,
    },
    /// The job is given back.
    Release {
        /// When it may be tried again; the worker's delay, or else the job's schedule, if there is none.
        delay: Option<Duration>,
        /// Why.
        reason: String,
    },
}

impl Report {
    /// The name of the call.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Finish => "finish",
            Self::Bury { .. } => "bury",
            Self::Release { .. } => "release",
        }
    }
}

/// `what: detail`, cut to what a server keeps.
pub(crate) fn reason(what: &str, detail: Option<&str>) -> String {
    let mut text = match detail {
        Some(detail) => format!("{what}: {detail}"),
        None => what.to_owned(),
    };
    text.truncate(text.floor_char_boundary(MAX_REASON_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_characters() {
        assert_eq!(reason("exit 1", None), "exit 1");
        assert_eq!(reason("exit 1", Some("psp timeout")), "exit 1: psp timeout");
        for (what, bytes) in [("exit 1", 1_024), ("exit 12", 1_023)] {
            let cut = reason(what, Some(&"ü".repeat(600)));
            assert_eq!((cut.len(), cut.ends_with('ü')), (bytes, true));
        }
    }
}
