//! Fault injection with `strace`: the real program on a real file system, where one system call returns an error
//! instead of being executed.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The files whose calls are traced.
const FILES: [&str; 7] =
    ["", "linger.db", "linger.db-wal", "linger.db-journal", "linger.db-shm", "lock", "growth_probe"];

/// One call that fails once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub call: &'static str,
    pub error: &'static str,
    /// The number of the call within its thread, from 1.
    pub nth: usize,
}

/// The output file of a run of `strace`.
#[derive(Debug)]
pub struct Trace(PathBuf);

/// The options that trace only calls on the store in `data`.
fn file_options(data: &Path) -> Vec<String> {
    let path = |file: &str| data.join(file).display().to_string().trim_end_matches('/').to_owned();
    FILES.into_iter().flat_map(|file| ["-P".to_owned(), path(file)]).collect()
}

/// Returns why a process cannot be traced here, if it cannot.
pub fn check_available() -> Result<(), String> {
    let output = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("strace: {error}")),
    }
}

impl Trace {
    /// Writes the trace into this file.
    pub fn new(file: PathBuf) -> Self {
        Self(file)
    }

    /// The prefix of a command line that records these calls on the store in `data` and injects `fault`. The traced
    /// program stays the child of this process; the tracer runs beside it.
    pub fn wrapper(&self, data: &Path, calls: &[&str], fault: Option<&Fault>) -> Vec<String> {
        Self::command_prefix([file_options(data), self.options(calls, fault)].concat())
    }

    /// The same for calls on all files, including those whose names are not known in advance.
    pub fn wrapper_for_all_files(&self, calls: &[&str], fault: Option<&Fault>) -> Vec<String> {
        Self::command_prefix(self.options(calls, fault))
    }

    fn command_prefix(options: Vec<String>) -> Vec<String> {
        let own = ["strace", "-D", "-f"].map(str::to_owned);
        own.into_iter().chain(options).chain(["--".to_owned()]).collect()
    }

    /// Injects `fault` into a running process; counting begins now. Ends with that process.
    pub fn attach(&self, pid: u32, data: &Path, calls: &[&str], fault: Option<&Fault>) -> Child {
        Self::attach_with(pid, data, self.options(calls, fault))
    }

    /// Makes these calls of a running process fail until the tracer ends.
    pub fn attach_failing(&self, pid: u32, data: &Path, calls: &[&str], error: &str) -> Child {
        let inject = format!("inject={}:error={error}", calls.join(","));
        Self::attach_with(pid, data, [self.options(calls, None), vec!["-e".to_owned(), inject]].concat())
    }

    fn attach_with(pid: u32, data: &Path, options: Vec<String>) -> Child {
        let mut tracer = Command::new("strace")
            .args(["-f", "-p", &pid.to_string()])
            .args(file_options(data))
            .args(options)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace starts");
        let mut lines = BufReader::new(tracer.stderr.take().expect("piped")).lines();
        let attached = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(" attached")));
        assert!(attached.is_some(), "strace could not attach to {pid}");
        // strace also reports every new thread. An unread pipe must not stop it.
        std::thread::spawn(move || lines.for_each(drop));
        tracer
    }

    fn options(&self, calls: &[&str], fault: Option<&Fault>) -> Vec<String> {
        let mut words = vec!["-o".to_owned(), self.0.display().to_string()];
        words.extend(["-e".to_owned(), format!("trace={}", calls.join(","))]);
        if let Some(Fault { call, error, nth }) = fault {
            words.extend(["-e".to_owned(), format!("inject={call}:error={error}:when={nth}")]);
        }
        words
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap_or_default()
    }

    /// Whether the fault happened.
    pub fn was_hit(&self) -> bool {
        self.text().contains("(INJECTED)")
    }

    /// The calls after the fault, of all threads.
    pub fn after_fault(&self) -> Vec<String> {
        calls_after_fault(&self.text()).map(str::to_owned).collect()
    }

    /// For each call, how often the thread that made it most often did so.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut by_thread: BTreeMap<(String, String), usize> = BTreeMap::new();
        for line in self.text().lines() {
            let Some((thread, rest)) = line.split_once(' ') else { continue };
            let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
            *by_thread.entry((thread.to_owned(), call.to_owned())).or_default() += 1;
        }
        let mut counts = BTreeMap::new();
        for ((_, call), count) in by_thread {
            let most: &mut usize = counts.entry(call).or_default();
            *most = (*most).max(count);
        }
        counts
    }
}

/// The calls after the fault in the text of a trace. Other lines are signals (`---`), exits (`+++`), and `???` where a thread
/// ended before strace could read which call it was about to make.
fn calls_after_fault(text: &str) -> impl Iterator<Item = &str> {
    let after = text.lines().skip_while(|line| !line.contains("(INJECTED)")).skip(1);
    after.filter(|line| ![" ---", " +++", " ???("].iter().any(|other| line.contains(other)))
}

#[test]
fn only_calls_count_as_use_of_the_files() {
    let trace = "7 fsync(9</d/w>) = -1 EIO (INJECTED)\n8 pwrite64(9</d/w>, \"a\"...) = 1\n8 --- SIGTERM ---\n\
                 9 ???( <unfinished ...>\n8 fsync(9</d/w> <unfinished ...>\n8 +++ exited with 1 +++\n";
    let calls: Vec<_> = calls_after_fault(trace).collect();
    assert_eq!(calls, ["8 pwrite64(9</d/w>, \"a\"...) = 1", "8 fsync(9</d/w> <unfinished ...>"]);
}
