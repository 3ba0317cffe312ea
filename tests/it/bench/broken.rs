//! Servers that break their promises: the bench must say which, and fail.

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

/// What is wrong with a server; with its third job, where it is one job's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It is forgotten.
    Loses,
    /// It is handed out twice.
    Doubles,
    /// Delays are not kept.
    Hurries,
    /// Its add is refused.
    Refuses,
    /// Its pop is answered by the end of the connection.
    Breaks,
}

/// A server that keeps ids in memory; all that a bench needs of it and no more.
struct Broken {
    fault: Fault,
    ready: Mutex<VecDeque<String>>,
    is_over: AtomicBool,
}

impl Broken {
    /// What is answered: the status and the body. None ends the connection.
    fn answer(&self, line: &str, body: &str) -> Option<(u16, String)> {
        let mut ready = self.ready.lock().expect("not poisoned");
        if line.starts_with("POST /jobs HTTP") {
            let job: Value = serde_json::from_str(body).expect("is JSON");
            let id = job["id"].as_str().expect("has an id").to_owned();
            match self.fault {
                Fault::Refuses if is_third(&id) => return Some((507, problem())),
                Fault::Loses if is_third(&id) => {}
                Fault::Doubles | Fault::Hurries | Fault::Refuses | Fault::Breaks | Fault::Loses => {
                    ready.push_back(id.clone());
                }
            }
            return Some((201, job_answer(&id, "")));
        }
        if line.starts_with("GET /topics/") && line.contains("/pop?") {
            let Some(id) = ready.pop_front() else { return Some((204, String::new())) };
            match self.fault {
                Fault::Doubles if is_third(&id) => ready.push_back(format!("{id}?")),
                Fault::Breaks if is_third(&id) => return None,
                Fault::Doubles | Fault::Hurries | Fault::Refuses | Fault::Breaks | Fault::Loses => {}
            }
            // The mark of a second delivery is not part of the id.
            let id = id.trim_end_matches('?');
            let until = "2026-11-21T06:11:00.000Z";
            let reserved = format!(r#","reserved_until":"{until}","receipt":"00","attempt":1,"late":0"#);
            return Some((200, job_answer(id, &reserved)));
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
            let Some((status, answer)) = self.answer(&line, &body) else { return Ok(()) };
            let length =
                if status == 204 { String::new() } else { format!("content-length: {}\r\n", answer.len()) };
            stream.write_all(format!("HTTP/1.1 {status} x\r\n{length}\r\n{answer}").as_bytes())?;
        }
    }
}

/// A job as the API shows it, with these fields besides.
fn job_answer(id: &str, more: &str) -> String {
    let moment = "2026-11-21T06:10:00.000Z";
    format!(
        r#"{{"id":"{id}","topic":"t","state":"any","created_at":"{moment}","due_at":"{moment}","ttr":600,
        "attempts":0,"max_attempts":16,"body":null{more}}}"#
    )
}

fn is_third(id: &str) -> bool {
    id.ends_with(".2")
}

fn problem() -> String {
    r#"{"code":"store_full","detail":"there is no room"}"#.to_owned()
}

/// Runs a scenario of ten jobs against a server with this fault.
fn against(fault: Fault, arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address: SocketAddr = listener.local_addr().expect("has an address");
    let broken = Broken { fault, ready: Mutex::default(), is_over: AtomicBool::new(false) };
    thread::scope(|scope| {
        scope.spawn(|| {
            for stream in listener.incoming() {
                if broken.is_over.load(Ordering::Relaxed) {
                    break;
                }
                let stream = stream.expect("a connection");
                scope.spawn(|| broken.serve(stream));
            }
        });
        let url = format!("http://{address}");
        let few = ["--jobs", "10", "--connections", "2", "--json", "--url", &url];
        let output = bench(&[arguments, &few].concat(), &[], directory.path());
        broken.is_over.store(true, Ordering::Relaxed);
        // Wakes the listener, which then sees that it is over.
        drop(TcpStream::connect(address));
        output
    })
}

/// Fails with just these jobs lost, doubled and early.
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
    assert_counted(&against(Fault::Loses, &["throughput"]), [1, 0, 0]);
}

#[test]
fn a_doubled_job_is_counted() {
    assert_counted(&against(Fault::Doubles, &["throughput"]), [0, 1, 0]);
}

#[test]
fn early_jobs_are_counted() {
    assert_counted(&against(Fault::Hurries, &["lateness"]), [0, 0, 10]);
}

#[test]
fn an_answer_that_is_not_as_it_should_be_ends_the_bench() {
    let output = against(Fault::Refuses, &["throughput"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("add: the server answers 507: store_full, there is no room"),
        "{output:?}"
    );
    assert!(json(&output)["failure"].as_str().is_some_and(|why| why.contains("store_full")), "{output:?}");
    let output = against(Fault::Breaks, &["throughput"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("pop: "), "{output:?}");
}
