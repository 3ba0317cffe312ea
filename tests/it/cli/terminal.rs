//! A command on a terminal of its own, which keeps the screen as a person would see it.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    process::{Child, Command},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use rustix::{
    io::{FdFlags, fcntl_setfd},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

use crate::harness::wait::TimeLimit;

pub struct Terminal {
    keyboard: File,
    /// Another end for the command's side, so that the terminal outlives the command.
    held: File,
    child: Child,
    screen: Arc<Mutex<vt100::Parser>>,
    reader: JoinHandle<()>,
    is_closing: Arc<AtomicBool>,
}

/// How a command left its terminal.
#[derive(Debug)]
pub struct Left {
    pub code: Option<i32>,
    /// Whether lines are edited and echoed by the terminal again, the cursor shows, and the first screen is back.
    pub is_restored: bool,
    pub text: String,
}

impl Terminal {
    /// Starts a command on a new terminal of this size.
    pub fn start(mut command: Command, columns: u16, rows: u16) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
        // A command that had this end too would not notice that its terminal is closed.
        fcntl_setfd(&keyboard, FdFlags::CLOEXEC).expect("is open");
        grantpt(&keyboard).and_then(|()| unlockpt(&keyboard)).expect("the terminal is ours");
        let name = ptsname(&keyboard, Vec::new()).expect("it has a name");
        let name = name.to_str().expect("is text");
        let open = || OpenOptions::new().read(true).write(true).open(name).expect("can be opened");
        let (keyboard, held) = (File::from(keyboard), open());
        set_size(&keyboard, columns, rows);
        let child = command.stdin(open()).stdout(open()).stderr(open()).spawn().expect("linger starts");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let (shown, mut output) = (screen.clone(), keyboard.try_clone().expect("can be cloned"));
        let is_closing = Arc::new(AtomicBool::new(false));
        let closing = is_closing.clone();
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while !closing.load(Ordering::Relaxed)
                && let Ok(read @ 1..) = output.read(&mut bytes)
            {
                shown.lock().expect("not poisoned").process(&bytes[..read]);
            }
        });
        Self { keyboard, held, child, screen, reader, is_closing }
    }

    /// The lines of the screen, without blanks at their ends.
    pub fn text(&self) -> String {
        let text = self.screen.lock().expect("not poisoned").screen().contents();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    /// Waits until the screen has such a line. Returns the screen.
    #[track_caller]
    pub fn wait_for(&self, is_wanted: impl Fn(&str) -> bool) -> String {
        let time_limit = TimeLimit::new();
        loop {
            let text = self.text();
            if text.lines().any(&is_wanted) {
                return text;
            }
            time_limit.check(|| text);
            time_limit.pause_thread();
        }
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str) {
        self.keyboard.write_all(key.as_bytes()).expect("can be typed");
    }

    /// Changes the size, as by pulling at a corner of the window.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.screen.lock().expect("not poisoned").screen_mut().set_size(rows, columns);
        set_size(&self.keyboard, columns, rows);
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Whether the terminal edits and echoes lines, and so is not in the hands of a program.
    fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.held).expect("is a terminal").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Panics unless the command has taken the terminal.
    #[track_caller]
    pub fn assert_taken(&self) {
        let is_other_screen = self.screen.lock().expect("not poisoned").screen().alternate_screen();
        assert!(is_other_screen && !self.is_cooked(), "the terminal is as it was: {}", self.text());
    }

    /// Closes the terminal, once the command has drawn again, and waits for its end. Returns the exit code.
    pub fn close(mut self) -> Option<i32> {
        self.is_closing.store(true, Ordering::Relaxed);
        self.reader.join().expect("the reader does not panic");
        drop((self.keyboard, self.held));
        self.child.wait().expect("it ends").code()
    }

    /// Waits for the end of the command.
    pub fn wait(mut self) -> Left {
        let code = self.child.wait().expect("it ends").code();
        let is_cooked = self.is_cooked();
        // The terminal ends for its reader once nobody has it open.
        drop(self.held);
        self.reader.join().expect("the reader does not panic");
        let parser = self.screen.lock().expect("not poisoned");
        let screen = parser.screen();
        let is_restored = is_cooked && !screen.alternate_screen() && !screen.hide_cursor();
        Left { code, is_restored, text: screen.contents() }
    }
}

fn set_size(terminal: &File, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("the terminal has a size");
}
