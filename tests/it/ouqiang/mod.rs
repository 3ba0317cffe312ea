//! The dialect of ouqiang/delay-queue: the real program on both engines, called as the old clients call, byte for byte.
//!
//! Delays and TTRs are whole seconds there, so that a pop waits for its job for about a second.

mod calls;
mod frame;
mod neighbors;
mod refusals;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::harness::{
    process::Server,
    redis::{fresh_prefix, shared},
    wait::TimeLimit,
};

/// Where the jobs of a test are.
#[derive(Debug, Clone, Copy)]
enum Engine {
    Embedded,
    Redis,
}

/// Makes two tests of each case: one for each engine.
macro_rules! on_each_engine {
    ($($case:ident,)*) => {
        mod embedded {
            $(#[test]
            fn $case() {
                super::$case($crate::ouqiang::Engine::Embedded);
            })*
        }
        mod redis {
            $(#[test]
            fn $case() {
                super::$case($crate::ouqiang::Engine::Redis);
            })*
        }
    };
}
use on_each_engine;

/// What the log says when the dialect listens.
const LISTENING: &str = "listening for clients of ouqiang/delay-queue";

/// The answer to a call that succeeded and has no data.
const DONE: &str = r#"{"code":0,"message":"操作成功","data":null}"#;
/// The answer to a push that succeeded.
const ADDED: &str = r#"{"code":0,"message":"添加成功","data":null}"#;

/// The address at which a server speaks the dialect, once it does.
#[track_caller]
pub fn address_of(server: &Server) -> SocketAddr {
    server.wait_for_log(LISTENING);
    let log = server.log();
    let line = log.lines().find(|line| line.contains(LISTENING)).expect("is logged");
    let line: serde_json::Value = serde_json::from_str(line).expect("is JSON");
    line["address"].as_str().and_then(|address| address.parse().ok()).expect("has the address")
}

/// A server that speaks the dialect on a port of its own.
struct Site {
    server: Server,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

/// An answer as it was received.
#[derive(Debug)]
struct Answer {
    head: String,
    body: String,
}

impl Site {
    /// With otherwise default settings.
    fn new(engine: Engine) -> Self {
        Self::with(engine, &[])
    }

    fn with(engine: Engine, variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut all = vec![("LINGER__COMPAT__OUQIANG__LISTEN", "127.0.0.1:0")];
        let (url, prefix) = match engine {
            Engine::Embedded => Default::default(),
            Engine::Redis => (shared().url(), fresh_prefix()),
        };
        if let Engine::Redis = engine {
            all.extend([
                ("LINGER__STORE__ENGINE", "redis"),
                ("LINGER__REDIS__URL", &url),
                ("LINGER__REDIS__PREFIX", &prefix),
            ]);
        }
        all.extend(variables);
        let server = Server::serve(&[], &all, directory.path());
        let address = address_of(&server);
        Self { server, address, _directory: directory }
    }

    /// Calls the dialect; the answer must have the status 200.
    #[track_caller]
    fn call(&self, path: &str, body: impl AsRef<[u8]>) -> String {
        let answer = self.send("POST", path, "", body);
        assert!(answer.head.starts_with("HTTP/1.1 200 "), "{answer:?}");
        answer.body
    }

    /// Sends a call with these headers besides, each of which ends with `\r\n`.
    #[track_caller]
    fn send(&self, method: &str, path: &str, headers: &str, body: impl AsRef<[u8]>) -> Answer {
        let (address, body) = (self.address, body.as_ref());
        let len = body.len();
        let host = if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
        let head = format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n{headers}");
        let request = [format!("{head}Content-Length: {len}\r\n\r\n").as_bytes(), body].concat();
        let time_limit = TimeLimit::new();
        loop {
            let answer = self.send_raw(&request);
            // A busy machine can hold up any process for over a second. The answer asks for another call then.
            if !answer.body.contains("the server was paused and cannot know") {
                return answer;
            }
            time_limit.check(|| format!("{method} {path} is not begun"));
            time_limit.pause_thread();
        }
    }

    /// Sends these bytes and reads the answer until the server closes the connection.
    #[track_caller]
    fn send_raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(240))).expect("is set");
        stream.write_all(bytes).expect("sends");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("is text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole answer");
        Answer { head: head.to_owned(), body: body.to_owned() }
    }

    /// Pushes a job of `topic` that is due in a second and has this TTR in seconds.
    #[track_caller]
    fn push(&self, topic: &str, id: &str, ttr: u32, body: &str) {
        let job = serde_json::json!({"topic": topic, "id": id, "delay": 1, "ttr": ttr, "body": body});
        assert_eq!(self.call("/push", job.to_string()), ADDED);
    }

    /// Pops a job of these topics; waits for it.
    #[track_caller]
    fn pop(&self, topics: &str) -> serde_json::Value {
        let answer = self.call("/pop", serde_json::json!({"topic": topics}).to_string());
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("is JSON");
        assert_eq!((&answer["code"], &answer["message"]), (&0.into(), &"操作成功".into()), "{answer}");
        answer["data"].clone()
    }

    /// A call of the native API.
    #[track_caller]
    fn native(&self, method: &str, path: &str, body: &str, status: u16) -> serde_json::Value {
        let answer = self.server.call(method, path, body);
        assert_eq!(answer.status, status, "{answer:?}");
        if answer.body.is_empty() { serde_json::Value::Null } else { answer.json() }
    }
}

/// An answer with the code 1.
fn refusal(message: &str) -> String {
    format!(r#"{{"code":1,"message":"{message}","data":null}}"#)
}
