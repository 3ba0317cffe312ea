//! SIGINT and SIGTERM, one after the other. The caller decides what the first and the second one do.

use std::{io, process, thread};

use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
};

/// Catches both signals from its creation on.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// A signal that stops the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// SIGINT, as by Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP, as when a terminal is closed. [`Signals`] does not catch it.
    HangUp,
    /// SIGQUIT, as by Ctrl-\. [`Signals`] does not catch it.
    Quit,
}

impl StopSignal {
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
            Self::HangUp => "SIGHUP",
            Self::Quit => "SIGQUIT",
        }
    }

    /// The exit code that a shell reports for a process killed by this signal.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
            Self::HangUp => 129,
            Self::Quit => 131,
        }
    }
}

/// From now on either signal runs `clean_up` and ends the process. For commands that do nothing else at a signal.
///
/// # Errors
/// If the signals cannot be caught.
pub(crate) fn clean_up_at_stop(clean_up: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::new()?
    };
    let wait = move || {
        let signal = runtime.block_on(signals.next());
        clean_up();
        process::exit(i32::from(signal.exit_code()))
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}

impl Signals {
    pub fn new() -> io::Result<Self> {
        // Caught for good, so that a write past the limit on the size of a file is an error that is handled.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal. Cancel-safe.
    pub async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
        }
    }
}
