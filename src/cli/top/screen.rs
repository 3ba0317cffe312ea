//! The terminal while `linger top` has it: an alternate screen without cursor and echo. It is given back however the
//! command ends. Does not know what is shown.

use std::{
    fs::{File, OpenOptions},
    io::{self, IsTerminal, Write, stdin, stdout},
    os::fd::AsFd,
    panic,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Signal, getpgrp, getpid, kill_process},
    termios::{
        InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
    },
};

use super::draw::{Style, StyledLine};
use crate::cli::terminal;

/// The alternate screen without a cursor. Lines that are too long are cut off, not continued.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
const CLEAR: &str = "\x1b[0m\x1b[2J";

/// The size of a terminal that does not tell it.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// How long the terminal may take no bytes before it is given back without [`LEAVE`].
const STUCK_AFTER: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How to give the terminal back; none while it is not ours.
static BORROWED: Mutex<Option<Borrowed>> = Mutex::new(None);

struct Borrowed {
    modes: Termios,
    device: Device,
}

#[derive(Debug, Clone)]
struct Device {
    keyboard: Arc<File>,
    output: Arc<File>,
}

impl Device {
    /// Whether this process may use the terminal. Otherwise the kernel would stop it.
    fn is_in_foreground(&self) -> bool {
        // A terminal that does not control this process has no such rule, and this call fails.
        tcgetpgrp(&self.keyboard).map_or(true, |group| group == getpgrp())
    }
}

/// The terminal; given back when dropped, and at a panic.
#[derive(Debug)]
pub(super) struct Screen {
    device: Device,
    has_colours: bool,
    size: (u16, u16),
    /// What the terminal shows; empty when that is not known.
    shown: Vec<StyledLine>,
    /// Whether others had the terminal since it was taken.
    was_stopped: bool,
}

impl Screen {
    pub fn open() -> io::Result<Self> {
        let output = Arc::new(File::from(stdout().as_fd().try_clone_to_owned()?));
        let device = Device { keyboard: Arc::new(keyboard()?), output };
        // The message of a panic would be lost with the alternate screen.
        let print_panic = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            give_back();
            print_panic(panic);
        }));
        let has_colours = terminal::has_colours();
        let mut screen =
            Self { device, has_colours, size: USUAL_SIZE, shown: Vec::new(), was_stopped: false };
        screen.borrow()?;
        Ok(screen)
    }

    /// Takes the terminal, perhaps once more.
    fn borrow(&mut self) -> io::Result<()> {
        let mut borrowed = borrowed();
        // After a SIGSTOP it is taken still, and its modes may be those of a shell.
        let modes = match borrowed.take() {
            Some(Borrowed { modes, .. }) => modes,
            None => tcgetattr(&self.device.keyboard)?,
        };
        let mut own = modes.clone();
        own.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
        own.input_modes.remove(InputModes::IXON);
        own.special_codes[SpecialCodeIndex::VMIN] = 1;
        own.special_codes[SpecialCodeIndex::VTIME] = 0;
        *borrowed = Some(Borrowed { modes, device: self.device.clone() });
        tcsetattr(&self.device.keyboard, OptionalActions::Now, &own)?;
        // The write can hang, and then must not keep others from giving the modes back.
        drop(borrowed);
        self.shown.clear();
        self.was_stopped = false;
        (&*self.device.output).write_all(ENTER)
    }

    /// Does what SIGTSTP asks for: gives the terminal back and stops this process.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        self.was_stopped = true;
        // SIGTSTP is caught, and SIGSTOP would stop the process even where no shell can continue it. The kernel treats
        // SIGTTOU as it does an uncaught SIGTSTP.
        Ok(kill_process(getpid(), Signal::TTOU)?)
    }

    /// Notes that the process was stopped and continues. [`draw`](Self::draw) takes the terminal again.
    pub fn resume(&mut self) {
        self.was_stopped = true;
    }

    /// Whether what is typed is for this process.
    pub fn has_terminal(&self) -> bool {
        !self.was_stopped
    }

    /// Columns and lines, as they are now.
    pub fn size(&mut self) -> (u16, u16) {
        let size = terminal::size().unwrap_or(USUAL_SIZE);
        if size != self.size {
            self.size = size;
            self.shown.clear();
        }
        size
    }

    /// Shows these lines. While the process is in the background, the terminal belongs to others.
    pub fn draw(&mut self, lines: Vec<StyledLine>) -> io::Result<()> {
        if self.was_stopped {
            if !self.device.is_in_foreground() {
                return Ok(());
            }
            self.borrow()?;
        }
        if borrowed().is_none() {
            return Err(io::Error::other("it was given back after a panic"));
        }
        let mut bytes = if self.shown.is_empty() { CLEAR.to_owned() } else { String::new() };
        for (at, line) in lines.iter().enumerate() {
            if self.shown.get(at) != Some(line) {
                let (row, codes) = (at + 1, codes(line.style, self.has_colours));
                // Cleared first: the cursor stays on the last column of a line that is full.
                bytes.push_str(&format!("\x1b[{row};1H\x1b[0m\x1b[2K\x1b[{codes}m{}", line.text));
            }
        }
        (&*self.device.output).write_all(bytes.as_bytes())?;
        self.shown = lines;
        Ok(())
    }

    /// What is typed, as bytes.
    pub fn keyboard(&self) -> Arc<File> {
        self.device.keyboard.clone()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back if it is taken. Never waits long: a terminal that takes no bytes gets its modes at least.
pub(super) fn give_back() {
    // The lock is held to the end, so that a second call does not return before that.
    let mut borrowed = borrowed();
    if let Some(Borrowed { modes, device }) = borrowed.take() {
        // If one of these fails, the terminal has gone.
        if device.is_in_foreground() {
            let _ = tcsetattr(&device.keyboard, OptionalActions::Now, &modes);
        }
        if !is_stuck(&device.output) {
            let _ = (&*device.output).write_all(LEAVE);
        }
    }
}

fn borrowed() -> MutexGuard<'static, Option<Borrowed>> {
    BORROWED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the terminal takes no bytes, as behind a connection that hangs.
fn is_stuck(output: &File) -> bool {
    poll(&mut [PollFd::new(output, PollFlags::OUT)], Some(&STUCK_AFTER)) == Ok(0)
}

/// The terminal that is typed on. Stdin may be a file.
fn keyboard() -> io::Result<File> {
    if stdin().is_terminal() {
        return Ok(File::from(stdin().as_fd().try_clone_to_owned()?));
    }
    let controlling = OpenOptions::new().read(true).write(true).open("/dev/tty");
    controlling.map_err(|error| io::Error::new(error.kind(), format!("no keys can be read: {error}")))
}

/// The codes of ECMA-48 that select a style.
fn codes(style: Style, has_colours: bool) -> &'static str {
    match (style, has_colours) {
        (Style::Plain, _) | (Style::Warning, false) => "0",
        (Style::Faint, _) => "2",
        (Style::Heading, _) => "7",
        (Style::Good | Style::Doubtful | Style::Bad, false) => "1",
        (Style::Good, true) => "1;32",
        (Style::Doubtful, true) => "1;33",
        (Style::Bad, true) => "1;31",
        (Style::Warning, true) => "33",
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, process::Command};

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    /// Set in the process in which the test below panics.
    const PANICS: &str = "LINGER_TEST_PANICS";
    const MESSAGE: &str = "a fault while the terminal is taken";

    #[test]
    fn without_colours_a_style_selects_none() {
        let styles = [
            Style::Plain,
            Style::Faint,
            Style::Heading,
            Style::Good,
            Style::Doubtful,
            Style::Bad,
            Style::Warning,
        ];
        let coloured =
            |has_colours| styles.iter().filter(move |style| codes(**style, has_colours).contains('3'));
        assert_eq!((coloured(true).count(), coloured(false).count()), (4, 0));
    }

    #[test]
    fn a_panic_gives_the_terminal_back_before_its_message() {
        if std::env::var_os(PANICS).is_some() {
            let mut screen = Screen::open().expect("stdin and stdout are a terminal");
            let line = StyledLine { text: "shown".to_owned(), style: Style::Plain };
            screen.draw(vec![line]).expect("the terminal is taken");
            // The screen is not dropped before the message, so this is up to the hook alone.
            panic!("{MESSAGE}");
        }
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
        grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("the terminal is ours");
        let name = ptsname(&terminal, Vec::new()).expect("it has a name");
        let name = name.to_str().expect("is text").to_owned();
        let open = || OpenOptions::new().read(true).write(true).open(&name).expect("can be opened");
        let held = open();
        let modes = || tcgetattr(&held).expect("is a terminal").local_modes;
        let before = modes();
        let this_test = "cli::top::screen::tests::a_panic_gives_the_terminal_back_before_its_message";
        let mut command = Command::new(std::env::current_exe().expect("is running"));
        command.args(["--exact", this_test, "--nocapture"]).env(PANICS, "1");
        let mut child = command.stdin(open()).stdout(open()).stderr(open()).spawn().expect("starts");
        drop(command);
        let reader = std::thread::spawn(move || {
            let (mut terminal, mut output, mut bytes) = (File::from(terminal), Vec::new(), [0; 4_096]);
            // Reads end once no process has the terminal open.
            while let Ok(read @ 1..) = terminal.read(&mut bytes) {
                output.extend_from_slice(&bytes[..read]);
            }
            output
        });
        assert!(!child.wait().expect("it ends").success());
        assert_eq!(modes(), before);
        drop(held);
        let output = reader.join().expect("does not panic");
        let first = |what: &[u8]| output.windows(what.len()).position(|bytes| bytes == what);
        let [entered, left, message] = [ENTER, LEAVE, MESSAGE.as_bytes()].map(first);
        let shown = String::from_utf8_lossy(&output);
        assert!(entered.is_some() && entered < left && left < message, "{shown}");
    }
}
