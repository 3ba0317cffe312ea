//! Runs the shell blocks of the pages. Each page gets a fresh directory, one shell, and a server.
//!
//! | Fence | Comment on the line before | What the test does with the block |
//! |---|---|---|
//! | `sh` | | runs it, after the blocks before it, in the same shell; a command that fails ends the page |
//! | `sh` | `background` | starts it, and goes on when the server listens; it ends with the page |
//! | `output` | | compares it with what the `sh` block before it prints; `...` stands for anything |
//! | `console` | `not run: REASON` | nothing: the block needs what a test cannot have |
//! | any other | `file: NAME` | writes it to this file of the directory |
//!
//! A page that starts the server has a block in the background. For others that call one, the test starts it. A response of
//! 400 or more ends the page, unless the output of the block shows a problem.

use std::{
    fs::{self, File},
    net::SocketAddr,
    os::unix::{fs::symlink, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::harness::{
    pages::{Block, TRY_CURL, blocks, pages, read, root},
    process::{Server, linger},
    redis::{RedisServer, free_port},
    wait::TimeLimit,
};

/// The pages whose blocks other tests run, and these tests.
const ELSEWHERE: [(&str, &str); 2] =
    [("README.md", "tests/it/binary/readme.rs"), ("docs/callbacks.md", "tests/it/examples/callbacks.rs")];

/// How many pages run at the same time.
const PAGES_AT_ONCE: usize = 8;

/// What is in the Redis of another product before the page about it brings its jobs over, as a script that stores it.
const OLD_JOBS: [(&str, &str); 3] = [
    (
        "ouqiang.md",
        "redis.call('SELECT', 1) redis.call('ZADD', 'dq_bucket_2', 4102444800, '15702398321') \
         redis.call('SET', '15702398321', cmsgpack.pack({['1'] = 'order', ['2'] = '15702398321', \
         ['3'] = 4102444800, ['4'] = 120, ['5'] = '{\"uid\": 10829378}'})) \
         redis.call('ZADD', 'dq_bucket_2', 4102444800, '15702398322') \
         redis.call('SET', '15702398322', cmsgpack.pack({['1'] = 'order', ['2'] = '15702398322', \
         ['3'] = 4102444800, ['4'] = 120, ['5'] = string.char(182, 169, 181, 165)}))",
    ),
    (
        "lmstfy.md",
        "for id, body in pairs({['01HZZZZZZZZZZZZZZZZZZZZZZZ'] = 'a body', \
         ['01HZZZZZZZZZZZZZZZZZZZZZZY'] = string.char(8, 150, 255)}) do \
         redis.call('SET', 'j/ns/q/' .. id, body) redis.call('ZADD', 'timer_set', 4102444800, \
         struct.pack('Hc0Hc0HHc0', 2, 'ns', 1, 'q', 3, 26, id)) end",
    ),
    (
        "redisson.md",
        "redis.call('ZADD', 'redisson_delay_queue_timeout:{orders}', 4102444800001, \
         struct.pack('Bc0Lc0', 8, 'a-random', 2, '{}'))",
    ),
];

/// How many characters of each output a failure shows.
const LONGEST_REPORT: usize = 2_000;

/// A block that is not run.
const NOT_RUN: &str = "not run: ";
/// A block that is a file.
const FILE: &str = "file: ";
/// A block that runs until the page ends.
const BACKGROUND: &str = "background";

/// The name of the file that a block is.
fn name_of_file(block: &Block) -> Option<&str> {
    block.mark.as_deref()?.strip_prefix(FILE)
}

/// Where a page finds what it names.
struct Fixture {
    directory: tempfile::TempDir,
    address: SocketAddr,
    redis: Option<RedisServer>,
    _server: Option<Server>,
}

impl Fixture {
    fn new(page: &Path, blocks: &[Block]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        fs::create_dir(path.join("bin")).expect("is made");
        let program = linger(&[], path).get_program().to_owned();
        symlink(root().join(program), path.join("bin/linger")).expect("is made");
        for folder in ["clients", "examples"] {
            symlink(root().join(folder), path.join(folder)).expect("is made");
        }
        let runs = |block: &&Block| block.language == "sh" || name_of_file(block).is_some();
        let uses = |text: &str| blocks.iter().filter(runs).any(|block| block.code.contains(text));
        let starts = blocks.iter().any(|block| block.mark.as_deref() == Some(BACKGROUND));
        let server = (uses(":9277") && !starts).then(|| Server::serve(&[], &[], path));
        let address = server
            .as_ref()
            .map_or_else(|| SocketAddr::from(([127, 0, 0, 1], free_port())), |server| server.address);
        let redis = uses("10.0.0.5:6379").then(RedisServer::start);
        for (_, script) in OLD_JOBS.iter().filter(|(name, _)| page.ends_with(name)) {
            let url = redis.as_ref().expect("the page reads from Redis").url();
            let stored = Command::new("redis-cli").args(["-u", &url, "EVAL", script, "0"]).output();
            let stored = stored.expect("redis-cli starts; scripts/test installs it");
            assert!(stored.status.success() && stored.stdout == b"\n", "{page:?}: {stored:?}");
        }
        Self { directory, address, redis, _server: server }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A text of the page with the addresses and directories of this fixture.
    fn localize(&self, text: &str) -> String {
        let redis = self.redis.as_ref().map_or_else(String::new, |redis| redis.address().to_string());
        let text = text.replace("localhost:9277", &self.address.to_string());
        let text = text.replace(":9277", &format!(":{}", self.address.port()));
        let text = text.replace("10.0.0.5:6379", &redis);
        ["/var/lib/linger", "/etc/linger"].iter().fold(text, |text, directory| {
            text.replace(directory, &format!("{}{directory}", self.path().display()))
        })
    }

    /// One script of all blocks. Each prints into a file of its own.
    fn script(&self, blocks: &[Block]) -> String {
        let mut script = format!(
            "set -euo pipefail\nmkdir -p \"$PWD/var/lib\" \"$PWD/etc/linger\"\n{TRY_CURL}\
             curl() {{ try_curl \"$@\" || {{ [ $? = 22 ] && [ \"$may_fail\" ]; }}; }}\n"
        );
        let mut blocks = blocks.iter().peekable();
        while let Some(block) = blocks.next() {
            let (code, line) = (self.localize(&block.code), block.line);
            if let Some(name) = name_of_file(block) {
                fs::write(self.path().join(name), code).expect("can be written");
            } else if block.language == "sh" && block.mark.as_deref() == Some(BACKGROUND) {
                let port = self.address.port();
                script += &format!(
                    "cat > block-{line} <<'END OF BLOCK'\n{code}END OF BLOCK\n\
                     bash -euo pipefail block-{line} > output-{line} 2> errors-{line} &\n\
                     until (: < /dev/tcp/127.0.0.1/{port}) 2> /dev/null; do kill -0 $!; sleep 0.02; done\n"
                );
            } else if block.language == "sh" {
                let shown = blocks.peek().filter(|next| next.language == "output");
                let may_fail = shown.is_some_and(|output| output.code.contains("\"code\":"));
                let may_fail = if may_fail { "yes" } else { "" };
                script += &format!("may_fail={may_fail}\n{{\n: line {line}\n{code}}} > output-{line}\n");
            }
        }
        script
    }

    /// What the block of this line has printed so far.
    fn printed(&self, line: usize) -> String {
        fs::read_to_string(self.path().join(format!("output-{line}"))).unwrap_or_default()
    }

    /// Everything that the blocks wrote to stderr, and what they printed.
    fn report(&self) -> String {
        let mut files: Vec<PathBuf> = fs::read_dir(self.path())
            .expect("a folder")
            .map(|entry| entry.expect("readable").path())
            .collect();
        files.sort();
        let mut report = String::new();
        for file in files {
            let name = file.file_name().expect("a file").to_string_lossy().into_owned();
            if name.starts_with("output-") || name.starts_with("errors") {
                let text = fs::read_to_string(&file).unwrap_or_default();
                report += &format!("\n== {name}\n{}", text.chars().take(LONGEST_REPORT).collect::<String>());
            }
        }
        report
    }
}

/// Where Go keeps what it has compiled.
fn go_cache() -> String {
    let told = Command::new("go").args(["env", "GOCACHE"]).output();
    let told = told.expect("go starts; scripts/test installs it").stdout;
    String::from_utf8(told).expect("is text").trim_end().to_owned()
}

/// A shell, which ends with all that it started when this is dropped.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Runs the blocks of a page, and compares what they print.
fn run(page: &Path) {
    let blocks = blocks(&read(page));
    let fixture = Fixture::new(page, &blocks);
    let script = fixture.script(&blocks);
    let path = std::env::var("PATH").expect("PATH is set");
    let bin = fixture.path().join("bin");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(fixture.path()).env_clear().process_group(0);
    command.env("PATH", format!("{}:{path}", bin.display())).env("HOME", fixture.path());
    // In a home without its cache, Go would compile its standard library anew.
    if blocks.iter().any(|block| block.language == "sh" && block.code.contains("go build")) {
        command.env("GOCACHE", go_cache());
    }
    command.env("LINGER_URL", format!("http://{}", fixture.address));
    command.env("LINGER__SERVER__LISTEN", fixture.address.to_string());
    let errors = File::create(fixture.path().join("errors")).expect("is made");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let mut shell = Shell(command.spawn().expect("bash starts"));
    let time_limit = TimeLimit::new();
    let status = loop {
        if let Some(status) = shell.0.try_wait().expect("is a child of this process") {
            break status;
        }
        time_limit.check(|| format!("{} still runs: {}", page.display(), fixture.report()));
        time_limit.pause_thread();
    };
    assert!(status.success(), "{}: {status}{}", page.display(), fixture.report());
    for pair in blocks.windows(2).filter(|pair| pair[1].language == "output") {
        let expected = fixture.localize(&pair[1].code);
        // What runs in the background may print it later.
        while !matches(&expected, &fixture.printed(pair[0].line)) {
            let observed = || format!("{}:{}{}", page.display(), pair[1].line, fixture.report());
            assert!(pair[0].mark.as_deref() == Some(BACKGROUND), "not what is printed: {}", observed());
            time_limit.check(observed);
            time_limit.pause_thread();
        }
    }
}

/// Whether a text is what a page shows, where `...` stands for anything.
fn matches(expected: &str, text: &str) -> bool {
    let mut parts = expected.trim_end().split("...");
    let Some(mut rest) = parts.next().and_then(|first| text.trim_end().strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, parts)) = parts.split_last() else { return rest.is_empty() };
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

fn is_elsewhere(page: &Path) -> bool {
    ELSEWHERE.iter().any(|(name, _)| page == Path::new(name))
}

fn is_for_users(page: &Path) -> bool {
    page.starts_with("docs") || page == Path::new("README.md")
}

#[test]
fn the_shell_blocks_of_every_page_do_what_the_page_says() {
    let has_shell = |page: &PathBuf| blocks(&read(page)).iter().any(|block| block.language == "sh");
    let ours = pages().into_iter().filter(|page| is_for_users(page) && !is_elsewhere(page));
    let ours: Vec<PathBuf> = ours.filter(has_shell).collect();
    assert!(ours.len() > 8, "{ours:?}");
    let mut wrong = Vec::new();
    for some in ours.chunks(PAGES_AT_ONCE) {
        std::thread::scope(|scope| {
            let running: Vec<_> = some.iter().map(|page| (page, scope.spawn(move || run(page)))).collect();
            wrong.extend(running.into_iter().filter_map(|(page, run)| run.join().is_err().then_some(page)));
        });
    }
    assert!(wrong.is_empty(), "these pages do not work; see above: {wrong:?}");
}

#[test]
fn a_block_runs_or_says_why_it_does_not() {
    let mut wrong = Vec::new();
    for page in pages().into_iter().filter(|page| is_for_users(page)) {
        let text = read(&page);
        let blocks = blocks(&text);
        for block in &blocks {
            let mark = block.mark.as_deref().unwrap_or_default();
            let right = match block.language.as_str() {
                "console" => mark.starts_with(NOT_RUN),
                "sh" => is_elsewhere(&page) || mark.is_empty() || mark == BACKGROUND,
                "" | "bash" | "shell" | "zsh" => false,
                _ => true,
            };
            if !right {
                wrong.push(format!("{}:{}: {} {mark:?}", page.display(), block.line, block.language));
            }
        }
        for (index, block) in blocks.iter().enumerate().filter(|(_, block)| block.language == "output") {
            if index == 0 || blocks[index - 1].language != "sh" {
                wrong.push(format!("{}:{}: no sh block before this output", page.display(), block.line));
            }
        }
        // A block without a fence has no language.
        let outside = super::prose(&text).collect::<Vec<_>>();
        let code = outside.windows(2).filter(|pair| pair[0].is_empty() && pair[1].starts_with("    "));
        wrong.extend(code.map(|pair| format!("{}: a block without a fence: {}", page.display(), pair[1])));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (page, test) in ELSEWHERE {
        assert!(read(test).contains(page), "{test} does not run {page}");
    }
}

#[test]
fn output_is_compared_part_by_part() {
    for (expected, text, same) in [
        ("a\n", "a\n", true),
        ("a", "ab", false),
        ("a...c", "abbc\n", true),
        ("a...c...", "ab\ncd", true),
        ("...c", "abc", true),
        ("a...b...c", "ab", false),
        ("...", "", true),
        ("", "a", false),
    ] {
        assert_eq!(matches(expected, text), same, "{expected:?} {text:?}");
    }
}
