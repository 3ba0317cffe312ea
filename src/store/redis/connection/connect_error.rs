//! Why the engine could not be started.

use fred::error::Error as FredError;

use super::{
    error::{CallFault, describe_error},
    inspect::Unusable,
};
use crate::store::Error;

/// Why the engine could not be started. Never holds a password.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    /// The server cannot be reached, or cannot serve yet.
    #[error("cannot use Redis at {at}: {why}")]
    Unreachable {
        /// Its configured address.
        at: String,
        /// The cause.
        why: String,
    },
    /// The server refuses to serve this process.
    #[error("cannot use Redis at {at}: {why}")]
    Refused {
        /// Its address.
        at: String,
        /// The cause.
        why: String,
    },
    /// The server is not fit to hold jobs.
    #[error("Redis at {at} is not fit to hold jobs: {why}")]
    Unfit {
        /// Its address.
        at: String,
        /// What is wrong with it, and how to fix it.
        why: String,
    },
    /// The keys under the prefix have another layout.
    #[error("Redis at {at} holds another layout: {why}")]
    Layout {
        /// Its address.
        at: String,
        /// How it differs.
        why: String,
    },
    /// A file of TLS cannot be used.
    #[error("{0}")]
    Files(String),
    /// The servers are empty, or some of them, and were not before.
    #[error(
        "Redis at {at} was emptied or replaced, so that jobs are missing; bring its data back, or confirm the loss with \
         `linger store accept`"
    )]
    Replaced {
        /// Its address.
        at: String,
    },
    /// A move forbids to use the store, or there is none to move.
    #[error("Redis at {at}: {why}")]
    Forbidden {
        /// Its address.
        at: String,
        /// Why, and what to do.
        why: String,
    },
}

impl ConnectError {
    /// For an error of the client library.
    pub fn from_client_error(at: &str, error: &FredError) -> Self {
        let (at, why) = (at.to_owned(), describe_error(error));
        match CallFault::classify(error) {
            CallFault::Refused(_) | CallFault::Damaged(_) => Self::Refused { at, why },
            CallFault::Transient(_)
            | CallFault::Demoted(_)
            | CallFault::OutOfMemory(_)
            | CallFault::UnknownScript
            | CallFault::Moved
            | CallFault::Late
            | CallFault::Emptied
            | CallFault::OtherStore(_)
            | CallFault::Ask(_) => Self::Unreachable { at, why },
        }
    }

    /// For a server that cannot be used.
    pub fn from_unusable(at: &str, why: Unusable) -> Self {
        match why {
            Unusable::Unreachable(error) => Self::from_client_error(at, &error),
            Unusable::Unfit(why) => Self::Unfit { at: at.to_owned(), why },
        }
    }

    /// For a failed operation of the store.
    pub fn from_store_error(at: &str, error: Error) -> Self {
        let (at, why) = (at.to_owned(), error.to_string());
        match error {
            Error::Damaged(_) | Error::Stopped(_) => Self::Refused { at, why },
            Error::Replaced => Self::Replaced { at },
            Error::Unavailable(_) | Error::Refused { .. } | Error::Full(_) | Error::NotDurable(_) => {
                Self::Unreachable { at, why }
            }
        }
    }

    /// Whether another attempt may succeed without a change of the settings.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Replaced { .. } => true,
            Self::Refused { .. }
            | Self::Unfit { .. }
            | Self::Layout { .. }
            | Self::Files(_)
            | Self::Forbidden { .. } => false,
        }
    }
}
