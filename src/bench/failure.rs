//! Why a bench could not go on, in words for people.

use std::{io, time::Duration};

use super::TOKEN_VARIABLE;
use crate::signals::StopSignal;

/// Why a bench ended before its time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// An answer that the call does not have when all is well.
    #[error("{call}: the server answers {status}: {detail}{}", remedy(*status))]
    Refused {
        /// What was asked.
        call: &'static str,
        /// The status of the answer.
        status: u16,
        /// What the answer says.
        detail: String,
    },
    /// No connection, a cut one, or an answer that cannot be read.
    #[error("{call}: {error}")]
    Broken {
        /// What was asked.
        call: &'static str,
        /// What went wrong.
        error: String,
    },
    /// No answer in time.
    #[error("{call}: no answer within {limit:?}")]
    Silent {
        /// What was asked.
        call: &'static str,
        /// How long it was waited for.
        limit: Duration,
    },
    /// No progress in time.
    #[error("nothing happened for {quiet:?} while waiting for {waited_for}")]
    Stalled {
        /// What did not come.
        waited_for: String,
        /// How long it was waited for.
        quiet: Duration,
    },
    /// The machine, or the server of our own.
    #[error("{0}")]
    Unfit(String),
    /// A signal.
    #[error("stopped by {}", .0.name())]
    Stopped(StopSignal),
}

fn remedy(status: u16) -> String {
    match status {
        401 | 403 => {
            format!(
                "; set {TOKEN_VARIABLE} to a token that allows add, work, read and admin for topics bench-*"
            )
        }
        _ => String::new(),
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Unfit(error.to_string())
    }
}
