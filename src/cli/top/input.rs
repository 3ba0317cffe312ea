//! What happens at the terminal of `linger top`: keys, and the signals that a terminal or a shell sends. SIGINT and SIGTERM
//! are the session's.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, ErrorKind, Read},
    sync::Arc,
};

use rustix::process::Signal as SignalNumber;
use tokio::{
    io::{Interest, unix::AsyncFd},
    signal::unix::{Signal, SignalKind, signal},
};

use super::{keys::KeyParser, state::Action};
use crate::{cli::line_source::is_readable, process::signals::StopSignal};

/// What the loop reacts to.
#[derive(Debug)]
pub(super) enum TerminalEvent {
    Key(Action),
    Stopped(StopSignal),
    /// SIGTSTP, as by Ctrl-Z.
    Suspended,
    /// SIGCONT: a shell had the terminal, and this process has it again.
    Continued,
    Resized,
}

/// Catches the signals from its creation on.
#[derive(Debug)]
pub(super) struct TerminalSignals {
    hang_up: Signal,
    quit: Signal,
    suspended: Signal,
    continued: Signal,
    resized: Signal,
}

impl TerminalSignals {
    pub fn new() -> io::Result<Self> {
        let numbered = |number: SignalNumber| signal(SignalKind::from_raw(number.as_raw()));
        Ok(Self {
            hang_up: numbered(SignalNumber::HUP)?,
            quit: numbered(SignalNumber::QUIT)?,
            suspended: numbered(SignalNumber::TSTP)?,
            continued: numbered(SignalNumber::CONT)?,
            resized: numbered(SignalNumber::WINCH)?,
        })
    }

    /// Reads keys too.
    pub fn with_keys(self, keyboard: Arc<File>) -> io::Result<Input> {
        #[expect(deprecated, reason = "sound for a File, which stays the same; the other way is unsafe")]
        let keyboard = AsyncFd::with_interest(keyboard, Interest::READABLE)?;
        Ok(Input { signals: self, keyboard, keys: KeyParser::default(), typed: VecDeque::new() })
    }
}

/// The signals and the keys.
#[derive(Debug)]
pub(super) struct Input {
    signals: TerminalSignals,
    keyboard: AsyncFd<Arc<File>>,
    keys: KeyParser,
    /// What was typed and is not done yet.
    typed: VecDeque<Action>,
}

impl Input {
    /// Waits for the next event, and for keys only if `reads_keys`. Cancel-safe. Fails once no keys can be read any more.
    pub async fn next(&mut self, reads_keys: bool) -> io::Result<TerminalEvent> {
        let Self { signals, keyboard, keys, typed } = self;
        tokio::select! {
            biased;
            _ = signals.hang_up.recv() => Ok(TerminalEvent::Stopped(StopSignal::HangUp)),
            _ = signals.quit.recv() => Ok(TerminalEvent::Stopped(StopSignal::Quit)),
            _ = signals.suspended.recv() => Ok(TerminalEvent::Suspended),
            _ = signals.continued.recv() => Ok(TerminalEvent::Continued),
            _ = signals.resized.recv() => Ok(TerminalEvent::Resized),
            action = next_action(keyboard, keys, typed), if reads_keys => action.map(TerminalEvent::Key),
        }
    }
}

async fn next_action(
    keyboard: &AsyncFd<Arc<File>>,
    keys: &mut KeyParser,
    typed: &mut VecDeque<Action>,
) -> io::Result<Action> {
    loop {
        if let Some(action) = typed.pop_front() {
            return Ok(action);
        }
        let mut ready = keyboard.readable().await?;
        // The file is not set to never block: that would hold for the shell's end of it too.
        if !is_readable(keyboard.get_ref()) {
            ready.clear_ready();
            continue;
        }
        let mut bytes = [0; 64];
        let read = keyboard.get_ref().as_ref().read(&mut bytes)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        typed.extend(bytes[..read].iter().filter_map(|byte| keys.action(*byte)));
    }
}
