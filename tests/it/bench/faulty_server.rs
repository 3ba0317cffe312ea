//! Servers with a fault: the bench must report it and fail.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Result, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Output,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use serde_json::Value;

use super::{bench, json};
use crate::harness::process::stderr;

/// The fault of a server. Some faults affect only its third job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The third job is never delivered.
    LosesJob,
    /// The third job is delivered twice.
    DeliversTwice,
    /// All jobs are delivered before they are due.
    IgnoresDelays,
    /// The add of the third job is refused.
    RefusesAdd,
    /// A timeline counts a job too many.
    MiscountsTimelines,
    /// The connection is closed instead of a response to the pop of the third job.
    ClosesConnection,
}

/// A server that stores ids in memory and has just what a bench needs.
struct FaultyServer {
    fault: Fault,
    ready: Mutex<VecDeque<String>>,
    stop: AtomicBool,
}

impl FaultyServer {
    /// The status and the body of a response. `None` closes the connection.
    fn respond(&self, line: &str, body: &str) -> Option<(u16, String)> {
        let mut ready = self.ready.lock().expect("not poisoned");
        if line.starts_with("POST /jobs HTTP") {
            let job: Value = serde_json::from_str(body).expect("is JSON");
            let id = job["id"].as_str().expect("has an id").to_owned();
            match self.fault {
                Fault::RefusesAdd if is_third(&id) => return Some((507, problem())),
                Fault::LosesJob if is_third(&id) => {}
                Fault::DeliversTwice
                | Fault::IgnoresDelays
                | Fault::RefusesAdd
                | Fault::MiscountsTimelines
                | Fault::ClosesConnection
                | Fault::LosesJob => {
                    ready.push_back(id.clone());
                }
            }
            return Some((201, job_json(&id, "")));
        }
        if line.starts_with("GET /topics/") && line.contains("/pop?") {
            let Some(id) = ready.pop_front() else { return Some((204, String::new())) };
            match self.fault {
                Fault::DeliversTwice if is_third(&id) => ready.push_back(format!("{id}?")),
                Fault::ClosesConnection if is_third(&id) => return None,
                Fault::DeliversTwice
                | Fault::IgnoresDelays
                | Fault::RefusesAdd
                | Fault::MiscountsTimelines
                | Fault::ClosesConnection
                | Fault::LosesJob => {}
            }
            // The mark of a second delivery is not part of the id.
            let id = id.trim_end_matches('?');
            let until = "2026-11-21T06:11:00.000Z";
            let reserved = format!(r#","reserved_until":"{until}","receipt":"00","attempt":1,"late":0"#);
            return Some((200, job_json(id, &reserved)));
        }
        if line.starts_with("GET /timeline?") {
            // The first topic has two jobs.
            let counts = r#""counts":[1,1],"outside":1,"ready":0,"reserved":0"#;
            return Some((200, format!(r#"{{"now":"2026-11-21T06:10:00.000Z",{counts}}}"#)));
        }
        if line.starts_with("GET /version") {
            let version = r#"{"version":"0","engine":"broken","engine_version":"0","durability":"none"}"#;
            return Some((200, version.to_owned()));
        }
        if line.starts_with("DELETE /topics/") {
            return Some((200, r#"{"deleted":0}"#.to_owned()));
        }
        assert!(line.contains("/finish?"), "{line}");
        Some((204, String::new()))
    }

    /// Answers the requests of one connection until it ends.
    fn serve(&self, mut stream: TcpStream) -> Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let (mut line, mut length) = (String::new(), 0);
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            loop {
                let mut header = String::new();
                reader.read_line(&mut header)?;
                if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a number");
                }
                if header.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            let body = String::from_utf8(body).expect("is text");
            let Some((status, response)) = self.respond(&line, &body) else { return Ok(()) };
            let length =
                if status == 204 { String::new() } else { format!("content-length: {}\r\n", response.len()) };
            stream.write_all(format!("HTTP/1.1 {status} x\r\n{length}\r\n{response}").as_bytes())?;
        }
    }
}

/// A job as the API returns it, with these additional fields.
fn job_json(id: &str, more: &str) -> String {
    let moment = "2026-11-21T06:10:00.000Z";
    format!(
        r#"{{"id":"{id}","topic":"t","state":"any","created_at":"{moment}","due_at":"{moment}","ttr":600,
        "attempts":0,"max_attempts":16,"body":null{more}}}"#
    )
}

fn is_third(id: &str) -> bool {
    id.ends_with(".2")
}

#[test]
fn a_wrong_timeline_ends_the_bench() {
    let output = run_against(Fault::MiscountsTimelines, &["look", "--batch", "1"]);
    assert_eq!(output.status.code(), Some(1));
    let why = "timeline of 24 h, a topic: the server answers 3 of 2 jobs";
    assert!(stderr(&output).contains(why), "{output:?}");
}

fn problem() -> String {
    r#"{"status":507,"code":"store_full","detail":"there is no room"}"#.to_owned()
}

/// Runs a scenario of ten jobs against a server with this fault.
fn run_against(fault: Fault, arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address: SocketAddr = listener.local_addr().expect("has an address");
    let faulty = FaultyServer { fault, ready: Mutex::default(), stop: AtomicBool::new(false) };
    thread::scope(|scope| {
        scope.spawn(|| {
            for stream in listener.incoming() {
                if faulty.stop.load(Ordering::Relaxed) {
                    break;
                }
                let stream = stream.expect("a connection");
                scope.spawn(|| faulty.serve(stream));
            }
        });
        let url = format!("http://{address}");
        let options = ["--jobs", "10", "--connections", "2", "--json", "--url", &url];
        let output = bench(&[arguments, &options].concat(), &[], directory.path());
        faulty.stop.store(true, Ordering::Relaxed);
        // Wakes the listener, so that it sees `stop`.
        drop(TcpStream::connect(address));
        output
    })
}

/// Asserts that the bench fails and counts these jobs as lost, doubled and early.
#[track_caller]
fn assert_counted(output: &Output, counts: [u64; 3]) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found = json(output);
    let counted = ["lost", "doubled", "early"].map(|name| found["totals"][name].as_u64());
    assert_eq!(counted, counts.map(Some), "{found}");
    assert_eq!(found["totals"]["jobs"], 10, "{found}");
}

#[test]
fn a_lost_job_is_counted() {
    assert_counted(&run_against(Fault::LosesJob, &["throughput"]), [1, 0, 0]);
}

#[test]
fn a_doubled_job_is_counted() {
    assert_counted(&run_against(Fault::DeliversTwice, &["throughput"]), [0, 1, 0]);
}

#[test]
fn early_jobs_are_counted() {
    assert_counted(&run_against(Fault::IgnoresDelays, &["lateness"]), [0, 0, 10]);
}

#[test]
fn an_unexpected_response_ends_the_bench() {
    let output = run_against(Fault::RefusesAdd, &["throughput"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("add: the server answers 507: store_full, there is no room"),
        "{output:?}"
    );
    assert!(json(&output)["failure"].as_str().is_some_and(|why| why.contains("store_full")), "{output:?}");
    let output = run_against(Fault::ClosesConnection, &["throughput"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("pop: "), "{output:?}");
}
