//! SIGINT and SIGTERM, which stop a bench.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals, caught from the moment this is made.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// A signal that stops a bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT, as by Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl StopSignal {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }

    /// The exit code that a shell shows for a process that the signal killed.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

impl Signals {
    pub fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The next of the two. May be dropped while it waits.
    pub async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
        }
    }
}
