//! A Prometheus that scrapes servers of a test and evaluates rules, and `promtool`, which checks them.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use serde_json::Value;

use super::{redis::free_port, wait::TimeLimit};

/// A Prometheus with a configuration and data of its own; killed when dropped.
pub struct Prometheus {
    child: Child,
    address: SocketAddr,
    dir: tempfile::TempDir,
}

impl Prometheus {
    /// Starts it with this configuration, and waits until it answers.
    pub fn start(configuration: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("prometheus.yml"), configuration).expect("writes");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let log = File::create(dir.path().join("log")).expect("a file");
        let mut command = Command::new("prometheus");
        command.current_dir(&dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
        command.arg(format!("--web.listen-address={address}"));
        let child = command.spawn().expect("prometheus is installed (scripts/test does that)");
        let mut this = Self { child, address, dir };
        let time_limit = TimeLimit::new();
        while this.curl("/-/ready", None).is_none_or(|answer| !answer.contains("is Ready")) {
            assert!(this.child.try_wait().expect("is a child").is_none(), "it has ended: {}", this.log());
            time_limit.check(|| this.log());
            pause();
        }
        this
    }

    /// The log so far.
    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// The results of an expression, or what is wrong with it.
    pub fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let answer = self.get("/api/v1/query", Some(expression));
        match &answer["data"]["result"] {
            Value::Array(results) => Ok(results.clone()),
            _ => Err(answer["error"].to_string()),
        }
    }

    /// The answer of a page of its API.
    pub fn get(&self, path: &str, query: Option<&str>) -> Value {
        let text = self.curl(path, query).unwrap_or_else(|| panic!("{path}: {}", self.log()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Waits until an expression has results, and returns them.
    #[track_caller]
    pub fn wait_for(&self, expression: &str) -> Vec<Value> {
        let time_limit = TimeLimit::new();
        loop {
            let results = self.query(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
            if !results.is_empty() {
                return results;
            }
            time_limit.check(|| format!("{expression} has no results: {}", self.log()));
            pause();
        }
    }

    /// What `curl` gets: our own client for tests does not know the transfer codings of others.
    fn curl(&self, path: &str, query: Option<&str>) -> Option<String> {
        let mut command = Command::new("curl");
        command
            .args(["-sG", "--noproxy", "*", "--max-time", "60"])
            .arg(format!("http://{}{path}", self.address));
        if let Some(query) = query {
            command.arg("--data-urlencode").arg(format!("query={query}"));
        }
        let output = command.output().expect("curl is installed");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Between two questions: each starts a process, and the answer changes only with the next scrape.
fn pause() {
    std::thread::park_timeout(Duration::from_millis(50));
}

/// Runs `promtool` in a directory.
pub fn promtool(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command.output().expect("promtool is installed (scripts/test does that)")
}
