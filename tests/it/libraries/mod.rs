//! The libraries under `clients/`: one list of cases for all languages, against the real server. Each library has a program
//! that runs a case, says in JSON lines how far it is, and waits for lines of the test. No test sleeps.

mod arguments;
mod calls;
mod foreign;
mod fork;
mod go_only;
pub mod heartbeats;
mod leases;
mod many;
mod python_only;
mod replacing;
mod schedules;
mod user_code;
mod workers;

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, OnceLock},
    thread::JoinHandle,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    harness::{
        process::{Server, wait_for_exit},
        wait::{TimeLimit, join},
    },
    tidy::sources::files,
};

/// The token that the programs send.
const TOKEN: &str = "a-token";

/// The language of a library.
#[derive(Debug, Clone, Copy)]
enum Language {
    Go,
    Python,
}

/// Makes a test of each case in each language.
macro_rules! in_each_language {
    ($($case:ident,)*) => {
        mod go {
            $(#[test]
            fn $case() {
                super::$case($crate::libraries::Language::Go);
            })*
        }
        mod python {
            $(#[test]
            fn $case() {
                super::$case($crate::libraries::Language::Python);
            })*
        }
    };
}
use in_each_language;

/// The folder of a library.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name)
}

/// The program of the Go library, built once.
fn go_program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-library-cases");
        let mut build = Command::new("go");
        build.args(["build", "-buildvcs=false", "-o"]).arg(&built).arg("./internal/cases");
        build.current_dir(folder("go/linger"));
        assert!(
            build.status().expect("go starts; scripts/test installs it").success(),
            "it does not compile"
        );
        built
    })
}

/// A server on the default engine, and a directory for it.
struct Site {
    directory: tempfile::TempDir,
    server: Server,
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::serve(&[], &[], directory.path());
        Self { directory, server }
    }

    /// Adds a job of the topic `t` with this id and body; `more` is merged into it.
    #[track_caller]
    fn add(&self, id: &str, body: &str, more: Value) {
        let mut job = json!({ "topic": "t", "id": id, "body": body, "retry": ["1h"] });
        let more = more.as_object().expect("an object").clone();
        job.as_object_mut().expect("an object").extend(more);
        let added = self.server.call("POST", "/jobs", &job.to_string());
        assert_eq!(added.status, 201, "{added:?}");
    }

    /// How many jobs of the topic `t` are in each state; null if there are none.
    fn counts(&self) -> Value {
        self.server.call("GET", "/topics/t", "").json()["counts"].clone()
    }
}

/// Starts a server with a certificate for `localhost`, which is `cert.pem` of the directory. Returns it with its URL.
fn serve_tls(directory: &Path) -> (Server, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("is made");
    let settings = "[tls]\ncertificate = 'cert.pem'\nkey = 'key.pem'\n";
    let key = made.signing_key.serialize_pem();
    for (name, text) in
        [("cert.pem", made.cert.pem()), ("key.pem", key), ("linger.toml", settings.to_owned())]
    {
        std::fs::write(directory.join(name), text).expect("can be written");
    }
    let server = Server::serve(&[], &[], directory);
    let url = format!("https://localhost:{}", server.address.port());
    (server, url)
}

/// A running program; killed when dropped.
struct Program {
    child: Child,
    stdin: ChildStdin,
    lines: Arc<Mutex<Vec<Value>>>,
    errors: Arc<Mutex<String>>,
    reading: Vec<JoinHandle<()>>,
}

impl Program {
    /// Starts a case of a library, with its arguments.
    fn start(language: Language, url: &str, case: &[&str]) -> Self {
        Self::start_with(language, url, case, &[])
    }

    /// Like [`start`](Self::start), with more variables.
    fn start_with(language: Language, url: &str, case: &[&str], variables: &[(&str, &Path)]) -> Self {
        let mut command = match language {
            Language::Go => Command::new(go_program()),
            Language::Python => Command::new("python3"),
        };
        if let Language::Python = language {
            command.arg(folder("python").join("cases.py")).env("PYTHONDONTWRITEBYTECODE", "1");
        }
        command.args(case).env("LINGER_URL", url).env("LINGER_TOKEN", TOKEN);
        command.envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdin = child.stdin.take().expect("piped");
        let (stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let (lines, errors) = (Arc::<Mutex<Vec<Value>>>::default(), Arc::<Mutex<String>>::default());
        let (to_lines, to_errors) = (lines.clone(), errors.clone());
        let reading = vec![
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    let line = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "text": line }));
                    to_lines.lock().expect("not poisoned").push(line);
                }
            }),
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    *to_errors.lock().expect("not poisoned") += &format!("{line}\n");
                }
            }),
        ];
        Self { child, stdin, lines, errors, reading }
    }

    /// Starts the worker of a library with its default settings.
    fn worker(language: Language, url: &str) -> Self {
        Self::start(language, url, &["worker"])
    }

    fn lines(&self) -> Vec<Value> {
        self.lines.lock().expect("not poisoned").clone()
    }

    fn errors(&self) -> String {
        self.errors.lock().expect("not poisoned").clone()
    }

    /// Waits for the first line that has these members.
    #[track_caller]
    fn wait_for(&self, members: &Value) -> Value {
        self.wait_for_number(1, members)
    }

    /// Waits for the n-th line that has these members.
    #[track_caller]
    fn wait_for_number(&self, number: usize, members: &Value) -> Value {
        let time_limit = TimeLimit::new();
        let members = members.as_object().expect("an object");
        loop {
            let has_all = |line: &Value| members.iter().all(|(name, value)| line[name] == *value);
            if let Some(line) = self.lines().into_iter().filter(has_all).nth(number - 1) {
                return line;
            }
            time_limit.check(|| format!("no {members:?} in {:#?}\n{}", self.lines(), self.errors()));
            time_limit.pause_thread();
        }
    }

    /// Sends a line, for which the program waits.
    fn send(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).expect("the program reads");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the program runs");
    }

    /// Waits for the program's end.
    fn wait(&mut self) -> ExitStatus {
        let status = wait_for_exit(&mut self.child);
        self.reading.drain(..).for_each(|thread| join("the output", thread));
        status
    }

    /// Waits for the program's end without an error. Returns all that it said.
    #[track_caller]
    fn ends(&mut self) -> Vec<Value> {
        let status = self.wait();
        assert!(status.success(), "{status}: {:#?}\n{}", self.lines(), self.errors());
        self.lines()
    }

    /// Ends a worker in order. Returns all that it said before.
    #[track_caller]
    fn stop(mut self) -> Vec<Value> {
        self.signal(Signal::TERM);
        let mut lines = self.ends();
        assert_eq!(lines.pop(), Some(json!({ "ended": null })), "{lines:#?}");
        lines
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The events of a worker, with the ids of their jobs.
fn events(lines: &[Value]) -> Vec<String> {
    let events = lines.iter().filter(|line| line["event"].is_string());
    events.map(|line| [&line["event"], &line["id"]].map(|v| v.as_str().unwrap_or("-")).join(" ")).collect()
}

/// Like the sources of the server, which `tidy` checks.
#[test]
fn the_sources_are_formatted_and_short() {
    let mut wrong = Vec::new();
    for (file, text) in ["go", "py"].into_iter().flat_map(|ending| files("clients", ending)) {
        if text.lines().count() > 400 {
            wrong.push(file);
        }
    }
    assert!(wrong.is_empty(), "too long: {wrong:?}");
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(folder("go/linger")).output();
        output.unwrap_or_else(|error| panic!("{program} does not start ({error}); scripts/test installs it"))
    };
    let unformatted = run("gofmt", &["-l", "."]);
    assert!(unformatted.status.success() && unformatted.stdout.is_empty(), "{unformatted:?}");
    let checked = run("go", &["vet", "./..."]);
    assert!(checked.status.success(), "{checked:?}");
}
