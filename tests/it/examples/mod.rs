//! The workers and producers under `examples/`: against a real server (`queue`), and against one that refuses requests, cuts
//! responses off and closes connections (`faults`). The receiver of callbacks (`callbacks`), and the functions of the
//! documentation that verify signatures (`signatures`).

mod callbacks;
mod faults;
mod queue;
pub mod scripted;
mod signatures;

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, OnceLock},
    thread::JoinHandle,
};

use rustix::process::{Pid, Signal};

use crate::harness::wait::{TimeLimit, join};

/// The token that the examples receive.
const TOKEN: &str = "a-token";

/// One language of the examples.
#[derive(Debug)]
struct Language {
    worker: &'static str,
    producer: &'static str,
    /// The command that runs a file. If it is empty, the file is compiled.
    interpreter: &'static [&'static str],
    /// Whether the examples are compiled once for all tests, and run as classes of Java.
    has_classes: bool,
    /// The part of the worker that prints the body, and the code that replaces it to make the work fail.
    printing: &'static str,
    failing: &'static str,
    /// How often its HTTP client repeats a `GET` without telling the program, if the server closes the connection.
    silent_repeats: usize,
}

const BASH: Language = Language {
    worker: "worker.sh",
    producer: "producer.sh",
    interpreter: &["bash"],
    has_classes: false,
    printing: "  cat\n",
    failing: "  false\n",
    silent_repeats: 0,
};

const PYTHON: Language = Language {
    worker: "worker.py",
    producer: "producer.py",
    interpreter: &["python3"],
    has_classes: false,
    printing: "print(json.dumps(body), flush=True)",
    failing: "raise RuntimeError(\"broken\")",
    silent_repeats: 0,
};

const NODE: Language = Language {
    worker: "worker.js",
    producer: "producer.js",
    interpreter: &["node"],
    has_classes: false,
    printing: "console.log(JSON.stringify(body))",
    failing: "throw new Error('broken')",
    silent_repeats: 0,
};

const PHP: Language = Language {
    worker: "worker.php",
    producer: "producer.php",
    interpreter: &["php"],
    has_classes: false,
    printing: "echo json_encode($body), \"\\n\";",
    failing: "throw new RuntimeException('broken');",
    silent_repeats: 0,
};

const GO: Language = Language {
    worker: "worker.go",
    producer: "producer.go",
    interpreter: &[],
    has_classes: false,
    printing: "_, err := fmt.Println(string(body))\n\treturn err",
    failing: "return errors.New(\"broken\")",
    silent_repeats: 0,
};

const JAVA: Language = Language {
    worker: "Worker.java",
    producer: "Producer.java",
    interpreter: &["java"],
    has_classes: false,
    printing: "System.out.println(body);",
    failing: "throw new Exception(\"broken\");",
    silent_repeats: 1,
};

/// Java for tests that are not about the start: `java FILE` compiles the file at each, for more than a second of a
/// processor's time.
const JAVA_CLASSES: Language = Language { has_classes: true, ..JAVA };

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

/// The folder with the classes of Java, compiled once.
fn java_classes() -> &'static Path {
    static COMPILED: OnceLock<PathBuf> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java-examples");
        let mut compile = Command::new("javac");
        compile.arg("-d").arg(&folder).args([JAVA.worker, JAVA.producer].map(example));
        assert!(
            compile.status().expect("javac starts; scripts/test installs it").success(),
            "the examples do not compile"
        );
        folder
    })
}

impl Language {
    /// The command that runs a program of this language. A compiled one is built in `directory`.
    fn command(&self, file: &Path, directory: &Path) -> Command {
        let Some((program, arguments)) = self.interpreter.split_first() else {
            let built = directory.join("built");
            let mut build = Command::new("go");
            build.args(["build", "-o"]).arg(&built).arg(file).current_dir(directory);
            let status = build.status().expect("go starts; scripts/test installs it");
            assert!(status.success(), "{file:?} does not compile");
            return Command::new(built);
        };
        let mut command = Command::new(program);
        command.args(arguments).arg(file);
        command
    }

    /// The command that runs an example.
    fn example(&self, name: &str, directory: &Path) -> Command {
        if !self.has_classes {
            return self.command(&example(name), directory);
        }
        let mut command = Command::new("java");
        command.arg("-cp").arg(java_classes()).arg(name.trim_end_matches(".java"));
        command
    }

    fn worker(&self, url: &str, directory: &Path) -> Program {
        Program::start(self.example(self.worker, directory), url, directory)
    }

    /// The worker with work that always fails.
    fn failing_worker(&self, url: &str, directory: &Path) -> Program {
        let source = std::fs::read_to_string(example(self.worker)).expect("the example exists");
        assert_eq!(
            source.matches(self.printing).count(),
            1,
            "{} does not print the body exactly once",
            self.worker
        );
        let file = directory.join(self.worker);
        std::fs::write(&file, source.replace(self.printing, self.failing)).expect("can be written");
        Program::start(self.command(&file, directory), url, directory)
    }

    fn producer(&self, url: &str, directory: &Path) -> Program {
        let mut command = self.example(self.producer, directory);
        command.args(["1001", "15m"]);
        Program::start(command, url, directory)
    }
}

/// A running example; killed when dropped, with the processes that it started.
struct Program {
    child: Child,
    stdout: Option<BufReader<std::process::ChildStdout>>,
    errors: Arc<Mutex<String>>,
    reading: Option<JoinHandle<()>>,
}

impl Program {
    fn start(mut command: Command, url: &str, directory: &Path) -> Self {
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.env("LINGER_URL", url).env("LINGER_TOKEN", TOKEN).env("TOPIC", "work");
        command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start ({error}); run scripts/test"));
        let stdout = child.stdout.take().map(BufReader::new);
        let errors = Arc::<Mutex<String>>::default();
        let (stderr, written) = (child.stderr.take().expect("piped"), errors.clone());
        let reading = Some(std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut written = written.lock().expect("not poisoned");
                written.push_str(&line);
                written.push('\n');
            }
        }));
        Self { child, stdout, errors, reading }
    }

    /// The next line on the program's stdout.
    fn line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.stdout.as_mut().expect("the program runs");
        stdout.read_line(&mut line).expect("stdout is text");
        assert!(!line.is_empty(), "the program ended: {}", self.errors());
        line
    }

    fn errors(&self) -> String {
        self.errors.lock().expect("not poisoned").clone()
    }

    /// Sends SIGTERM to the program alone.
    fn terminate(&self) {
        rustix::process::kill_process(self.pid(), Signal::TERM).expect("the program runs");
    }

    fn pid(&self) -> Pid {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a valid process id")
    }

    /// Waits for the program's end, after which no process that it started runs. Returns its status, the rest of its stdout
    /// and all of its stderr.
    fn wait(mut self) -> (ExitStatus, String, String) {
        let time_limit = TimeLimit::new();
        while self.child.try_wait().expect("the program is a child of this process").is_none() {
            time_limit.check(|| format!("the program still runs: {}", self.errors()));
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        let is_left = rustix::process::test_kill_process_group(self.pid()).is_ok();
        assert!(!is_left, "a process of the program goes on after its end: {}", self.errors());
        let mut rest = String::new();
        let mut stdout = self.stdout.take().expect("the program was started");
        stdout.read_to_string(&mut rest).expect("stdout is text");
        join("the log", self.reading.take().expect("the program was started"));
        (self.child.wait().expect("the program has ended"), rest, self.errors())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}
