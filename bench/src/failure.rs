//! Why a bench could not go on, in words for people.

use std::{io, time::Duration};

use crate::{plan::TOKEN_VARIABLE, signals::StopSignal};

/// Why a bench ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A call that does not fail when all is well.
    #[error("{failure}{}", remedy(failure))]
    Call {
        /// Why the call failed.
        #[from]
        failure: linger_client::Error,
    },
    /// No progress in time.
    #[error("nothing happened for {quiet:?} while waiting for {waited_for}")]
    Stalled {
        /// What did not come.
        waited_for: String,
        /// How long the bench waited for it.
        quiet: Duration,
    },
    /// The machine, or the server that the bench started, is not fit for it.
    #[error("{0}")]
    Unfit(String),
    /// A signal.
    #[error("stopped by {}", .0.name())]
    Stopped(StopSignal),
}

fn remedy(failure: &linger_client::Error) -> String {
    match failure.refusal() {
        Some(refusal) if matches!(refusal.status, 401 | 403) => format!(
            "; set {TOKEN_VARIABLE} to a token that allows add, work, read and admin for topics bench-*, and to read all for look and --viewers"
        ),
        _ => String::new(),
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Unfit(error.to_string())
    }
}
