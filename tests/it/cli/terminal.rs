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
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize},
};

use crate::harness::{process::wait_for_exit, wait::TimeLimit};

pub struct Terminal {
    keyboard: File,
    /// Another end for the command's side, so that the terminal outlives the command.
    held: File,
    command: Started,
    screen: Arc<Mutex<vt100::Parser>>,
    reader: JoinHandle<()>,
    is_closing: Arc<AtomicBool>,
}

/// A command, which ends with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
        let (keyboard, open) = open_terminal();
        let held = open();
        set_size(&keyboard, columns, rows);
        let child = command.stdin(open()).stdout(open()).stderr(open()).spawn().expect("linger starts");
        let command = Started(child);
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
        Self { keyboard, held, command, screen, reader, is_closing }
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
        kill_process(self.pid(), signal).expect("it runs");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.command.0)
    }

    /// Waits until a signal has stopped the command.
    #[track_caller]
    pub fn wait_until_stopped(&self) {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let time_limit = TimeLimit::new();
        while waitid(WaitId::Pid(self.pid()), options).expect("it has not ended").is_none() {
            time_limit.check(|| self.text());
            time_limit.pause_thread();
        }
    }

    /// Whether the terminal edits and echoes lines, and so is not in the hands of a program.
    fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.held).expect("is a terminal").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Has the terminal edit and echo lines again, as a shell does when it finds a command stopped.
    pub fn cook(&self) {
        let mut modes = tcgetattr(&self.held).expect("is a terminal");
        modes.local_modes.insert(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&self.held, OptionalActions::Now, &modes).expect("is a terminal");
    }

    /// Waits until the command has taken the terminal, or has given it back.
    #[track_caller]
    pub fn wait_until_taken(&self, is_taken: bool) {
        let time_limit = TimeLimit::new();
        let is_so = || {
            let parser = self.screen.lock().expect("not poisoned");
            let screen = parser.screen();
            [screen.alternate_screen(), screen.hide_cursor(), !self.is_cooked()] == [is_taken; 3]
        };
        while !is_so() {
            time_limit.check(|| self.text());
            time_limit.pause_thread();
        }
    }

    /// Closes the terminal, once the command has drawn again, and waits for its end. Returns the exit code.
    #[track_caller]
    pub fn close(mut self) -> Option<i32> {
        self.is_closing.store(true, Ordering::Relaxed);
        self.reader.join().expect("the reader does not panic");
        drop((self.keyboard, self.held));
        wait_for_exit(&mut self.command.0).code()
    }

    /// Waits for the end of the command.
    #[track_caller]
    pub fn wait(mut self) -> Left {
        let code = wait_for_exit(&mut self.command.0).code();
        let is_cooked = self.is_cooked();
        // The reader of the terminal sees its end once no process has the other side open.
        drop(self.held);
        self.reader.join().expect("the reader does not panic");
        let parser = self.screen.lock().expect("not poisoned");
        let screen = parser.screen();
        let is_restored = is_cooked && !screen.alternate_screen() && !screen.hide_cursor();
        Left { code, is_restored, text: screen.contents() }
    }
}

/// A new terminal: the end of a person, and what opens the end of a command.
pub fn open_terminal() -> (File, impl Fn() -> File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
    // A command that had this end too would not notice that its terminal is closed.
    fcntl_setfd(&person, FdFlags::CLOEXEC).expect("is open");
    grantpt(&person).and_then(|()| unlockpt(&person)).expect("the terminal is ours");
    let name = ptsname(&person, Vec::new()).expect("it has a name");
    let name = name.into_string().expect("is text");
    (File::from(person), move || {
        OpenOptions::new().read(true).write(true).open(&name).expect("can be opened")
    })
}

fn set_size(terminal: &File, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("the terminal has a size");
}
