//! The report of `scripts/prove`: what it counts, that no failure vanishes from it, and that it names the state of the
//! program that was tried. It runs in a repository of its own, on a plan of commands that only print figures.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use crate::harness::{
    process::{stderr, stdout},
    wait::TimeLimit,
};

/// What a short run of the script should take at most, in seconds.
const LONGEST_RUN: &str = "60";

/// A load without faults, one with faults, a control, and a step that breaks a promise until the file `mended` is there.
const PLAN: &str = r#"
[[part]]
name = "calm"
command = ["echo", "proof: what=calm runs=1 faults=0 jobs=1000 lost=0"]

[[part]]
name = "storm"
command = ["echo", "proof: what=storm runs=1 faults=20 jobs=300 lost=0 late_ms=7"]
rounds = 2

[[part]]
name = "control"
command = ["echo", "proof: what=control control=may_be_lost runs=1 faults=5 jobs=50 lost=9"]

[[part]]
name = "flaky"
command = ["sh", "-c", "[ -e ../../../mended ] && echo proof: what=flaky faults=1 jobs=4 lost=0 || ! echo proof: what=flaky faults=1 jobs=4 lost=3 violations=3"]
"#;

const PAGE: &str =
    "# Proof\n<!-- scripts/prove writes from here -->\nstate 000000000000\n<!-- to here -->\nend\n";
const README: &str = "<!-- scripts/prove writes the next line -->\n(2000-01-01)\nend\n";

/// A repository with the script and a product of one file.
struct Repository(tempfile::TempDir);

/// Two steps of which each waits until the other one has begun.
const PLAN_OF_A_PAIR: &str = r#"
[[part]]
name = "pair"
command = ["sh", "-c", "touch began-{round}; until [ -e began-1 ] && [ -e began-2 ]; do sleep 0.05; done; echo proof: what=pair runs=1"]
rounds = 2
"#;

/// A step that names its process and would take minutes.
const PLAN_OF_A_LONG_STEP: &str = r#"
[[part]]
name = "long"
command = ["sh", "-c", "echo $$ > ../../../pid.new; mv ../../../pid.new ../../../pid; exec sleep 600"]
"#;

impl Repository {
    fn new() -> Self {
        Self::with_plan(PLAN)
    }

    fn with_plan(plan: &str) -> Self {
        let repository = Self(tempfile::tempdir().expect("a directory"));
        let script =
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/prove")).expect("is read");
        for (name, text) in [
            ("src/lib.rs", "first"),
            ("tests/prove.toml", plan),
            ("docs/proof.md", PAGE),
            ("README.md", README),
            (".gitignore", "target\nmended\n"),
            // There is nothing to build.
            ("bin/cargo", "#!/bin/sh\n"),
            ("scripts/prove", &script),
        ] {
            repository.write(name, text);
        }
        for program in ["bin/cargo", "scripts/prove"] {
            let path = repository.path().join(program);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("is made a program");
        }
        let name = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        repository.run(&["git", "init", "--quiet"]);
        repository.run(&["git", "add", "."]);
        repository.run(&[&["git"], &name[..], &["commit", "--quiet", "--message", "first"]].concat());
        repository
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("is in a folder")).expect("a folder");
        fs::write(path, text).expect("is written");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).expect("is read")
    }

    fn try_run(&self, command: &[&str]) -> Output {
        let path = format!("{}:{}", self.path().join("bin").display(), env::var("PATH").expect("is set"));
        let mut limited = Command::new("timeout");
        limited.arg(LONGEST_RUN).args(command).current_dir(self.path()).env("PATH", path);
        limited.output().expect("runs")
    }

    fn run(&self, command: &[&str]) -> String {
        let output = self.try_run(command);
        assert!(output.status.success(), "{command:?}: {}{}", stdout(&output), stderr(&output));
        stdout(&output)
    }

    /// The first row of the page that begins with this cell.
    fn row(&self, first: &str) -> String {
        let (page, begin) = (self.read("docs/proof.md"), format!("| {first} | "));
        let row = page.lines().find_map(|line| line.strip_prefix(&begin));
        row.unwrap_or_else(|| panic!("no row of {first}: {page}")).trim_end_matches([' ', '|']).to_owned()
    }
}

#[test]
fn report_keeps_every_failure_and_counts_only_jobs_under_faults() {
    let repository = Repository::new();
    let first = repository.try_run(&["scripts/prove"]);
    assert_eq!(first.status.code(), Some(1), "{}", stderr(&first));
    let summary = repository.read("README.md");
    for figures in
        ["put 600 jobs through 40 kills,", ": jobs lost: 3, promises broken: 3. 1 of 5 attempts failed."]
    {
        assert!(summary.contains(figures), "{figures}: {summary}");
    }
    let seed = repository.row("flaky").rsplit(' ').next().expect("a seed").to_owned();

    repository.write("mended", "");
    let second = repository.run(&["scripts/prove"]);
    assert_eq!(second.lines().count(), 1, "only the failed step is run again: {second}");
    let summary = repository.read("README.md");
    for figures in
        ["put 604 jobs through 41 kills,", ": jobs lost: 3, promises broken: 3. 1 of 6 attempts failed."]
    {
        assert!(summary.contains(figures), "{figures}: {summary}");
    }
    assert_eq!(repository.row("failed attempt"), format!("flaky-01, attempt 1, seed {seed}"));
    let flaky = repository.row("flaky");
    let seeds = flaky.strip_prefix("1 of 1 | 2 | 1 | 0 | ").unwrap_or_else(|| panic!("{flaky}"));
    let (old, new) = seeds.split_once(' ').expect("two seeds");
    assert!(old == seed && new != seed, "{seeds}");
    let page = repository.read("docs/proof.md");
    for row in [
        "| calm | 1 | 0 |  | 1,000 |  | 0 |  |  |",
        "| storm | 2 | 40 |  | 600 | 600 | 0 |  | late ms 7 |",
        "| control | may be lost | runs 1, faults 5, jobs 50, lost 9 |",
    ] {
        assert!(page.contains(row), "{row}: {page}");
    }
}

#[test]
fn report_of_another_state_of_the_program_says_so() {
    let repository = Repository::new();
    repository.write("mended", "");
    let check = || repository.try_run(&["scripts/prove", "--check"]).status.success();
    assert!(!check(), "the pages name a state that never was");
    repository.run(&["scripts/prove"]);
    assert!(check());
    repository.write("docs/other.md", "a page is no part of the program");
    assert!(check());
    repository.write("src/lib.rs", "second");
    assert!(!check());
    repository.run(&["scripts/prove", "--label"]);
    for page in ["docs/proof.md", "README.md"] {
        assert_eq!(repository.read(page).matches(", an earlier build").count(), 1, "{page}");
    }
    assert!(check());
    repository.write("src/lib.rs", "first");
    assert!(!check(), "the label is wrong again");
}

#[test]
fn interrupted_attempt_is_counted() {
    let repository = Repository::new();
    repository.write("mended", "");
    repository.run(&["scripts/prove", "--only", "calm"]);
    let page = repository.read("docs/proof.md");
    let (_, state) = page.split_once("state ").expect("names a state");
    let folder = format!("target/prove/{}", &state[..12]);
    assert!(repository.path().join(&folder).join("calm-01.1.log").exists(), "{folder}");
    repository.write(&format!("{folder}/storm-01.1.log"), "began");
    repository.run(&["scripts/prove"]);
    assert!(repository.row("storm").starts_with("2 of 2 | 3 | 0 | 1 | "), "{}", repository.row("storm"));
}

#[test]
fn two_steps_run_at_a_time_when_asked_to() {
    let repository = Repository::with_plan(PLAN_OF_A_PAIR);
    repository.run(&["scripts/prove", "--jobs", "2"]);
    let time = repository.row("time");
    assert!(time.ends_with("h of steps, at most 2 at a time"), "{time}");
    assert_eq!(repository.row("steps"), "2 of 2 run so far, all passed");
    assert!(repository.row("pair").starts_with("2 of 2 | 2 | 0 | 0 | "), "{}", repository.row("pair"));
}

#[test]
fn a_run_that_is_ended_ends_its_steps() {
    let repository = Repository::with_plan(PLAN_OF_A_LONG_STEP);
    let path = format!("{}:{}", repository.path().join("bin").display(), env::var("PATH").expect("is set"));
    let mut script = Command::new("scripts/prove");
    let mut running = script.current_dir(repository.path()).env("PATH", path).spawn().expect("runs");
    let (pid, time_limit) = (repository.path().join("pid"), TimeLimit::new());
    while !pid.exists() {
        time_limit.check(|| "the step has not begun".to_owned());
        time_limit.pause_thread();
    }
    let step = fs::read_to_string(pid).expect("is read").trim().to_owned();
    let ended = Command::new("kill").arg(running.id().to_string()).status().expect("runs");
    assert!(ended.success());
    assert_eq!(running.wait().expect("ends").code(), Some(128 + 15));
    assert!(!Path::new("/proc").join(&step).exists(), "the step still runs as {step}");
}
