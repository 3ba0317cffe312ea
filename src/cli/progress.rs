//! A line on stderr that says how far a command is, and is written anew while it works: on a terminal only, and not in the
//! first second, so that short work has none. Does not know what is done.

use std::{
    io::{IsTerminal, Write, stderr},
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use super::{
    output::print_error,
    text::{counted, span},
};
use crate::{
    clock::{Clock, SystemClock},
    server::Watcher,
};

/// How long work has no line, and how often a line is written anew.
const FIRST: Duration = Duration::from_secs(1);
const NEXT: Duration = Duration::from_millis(250);

/// Goes to the beginning of the line and erases it.
const ERASE: &str = "\r\x1b[K";

/// The line of a command; it goes when this is dropped.
pub(super) struct ProgressLine {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    count: AtomicU64,
    line: Mutex<ShownLine>,
    ended: Condvar,
}

#[derive(Default)]
struct ShownLine {
    is_shown: bool,
    has_ended: bool,
}

impl ProgressLine {
    /// Shows how many of a thing, such as a job, `command` has done, if there is a terminal for it.
    pub fn counting(command: &'static str, thing: &'static str) -> Self {
        Self::start(command, move |count| match count {
            // An import checks its file first.
            0 => String::new(),
            count => format!("{}, ", counted(count, thing)),
        })
    }

    /// Shows how long `command` takes, if there is a terminal for it.
    pub fn time(command: &'static str) -> Self {
        Self::start(command, |_| String::new())
    }

    /// Shows nothing.
    pub fn none() -> Self {
        Self { shared: Arc::default(), thread: None }
    }

    fn start(command: &'static str, amount: impl Fn(u64) -> String + Send + 'static) -> Self {
        let shared = Arc::<Shared>::default();
        let has_terminal =
            stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let thread = has_terminal.then(|| {
            let shared = shared.clone();
            let show = move || {
                shared.show(|count, took| format!("linger: {command}: {}{}", amount(count), span(took)))
            };
            std::thread::Builder::new().name("progress".to_owned()).spawn(show)
        });
        // Without its line the work goes on.
        Self { shared, thread: thread.and_then(Result::ok) }
    }

    /// So many more are done.
    pub fn add(&self, count: u64) {
        self.shared.count.fetch_add(count, Ordering::Relaxed);
    }

    /// Prints something else while the line is away.
    pub fn interrupt<T>(&self, print: impl FnOnce() -> T) -> T {
        let mut line = self.shared.line();
        line.erase();
        print()
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.shared.line().has_ended = true;
        self.shared.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.shared.line().erase();
    }
}

impl Watcher for &ProgressLine {
    fn named(&mut self, sentence: &str) {
        self.interrupt(|| print_error(&sentence));
    }

    fn advanced(&mut self, jobs: u64) {
        self.add(jobs);
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, ShownLine> {
        self.line.lock().expect("no code panics while it holds the line")
    }

    /// Writes the line again and again until the end.
    fn show(&self, text: impl Fn(u64, Duration) -> String) {
        let clock = SystemClock::new();
        let (began_us, mut pause) = (clock.now_micros(), FIRST);
        let mut line = self.line();
        loop {
            let waited = self.ended.wait_timeout_while(line, pause, |line| !line.has_ended);
            line = waited.expect("no code panics while it holds the line").0;
            if line.has_ended {
                return;
            }
            let took = Duration::from_micros(clock.now_micros().abs_diff(began_us));
            // To the second: more would only flicker.
            let text = text(self.count.load(Ordering::Relaxed), Duration::from_secs(took.as_secs()));
            let _ = write!(stderr(), "{ERASE}{text}");
            (line.is_shown, pause) = (true, NEXT);
        }
    }
}

impl ShownLine {
    fn erase(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(stderr(), "{ERASE}");
        }
    }
}
