//! Why a server did not start, and how one that had started ended.

use std::{io, net::SocketAddr};

use crate::config::FileFault;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The threads or the signal handlers of the process could not be set up.
    #[error("cannot start: {0}")]
    Process(#[from] io::Error),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {}", listen_problem(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// Files that the settings name cannot be used.
    #[error("cannot start: {}", joined(.0))]
    Files(Vec<FileFault>),
    /// The engine did not open.
    #[error("cannot open the store: {0}")]
    Store(String),
}

fn joined(faults: &[FileFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn listen_problem(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another process uses this address; choose another one with --listen".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "no interface of this machine has this address".to_owned(),
        io::ErrorKind::PermissionDenied => format!("{error}; ports below 1024 need a privilege"),
        _ => error.to_string(),
    }
}

/// How a server that had started ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// It was stopped by a signal, and everything was finished and flushed.
    Clean,
    /// A part failed, or the shutdown took too long; the log says which.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_for_not_listening_is_explained() {
        let shown = |error: io::Error| {
            let address = "127.0.0.1:80".parse().expect("is an address");
            StartError::Listen { address, source: error }.to_string()
        };
        let in_use = shown(io::ErrorKind::AddrInUse.into());
        assert!(in_use.starts_with("cannot listen on 127.0.0.1:80: another process uses"), "{in_use}");
        assert!(shown(io::ErrorKind::PermissionDenied.into()).contains("privilege"));
    }
}
