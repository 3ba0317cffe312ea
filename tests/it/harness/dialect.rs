//! A server that speaks the dialect of another one on a port of its own, called byte for byte over raw sockets.

use std::{
    io::{Read, Write},
    marker::PhantomData,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use super::{
    blocking_http::PAUSED,
    process::Server,
    redis::{fresh_prefix, shared},
    wait::TimeLimit,
};

/// Where the jobs of a test are.
#[derive(Debug, Clone, Copy)]
pub enum Engine {
    Embedded,
    Redis,
}

/// Makes two tests of each case: one for each engine.
macro_rules! on_each_engine {
    ($($case:ident,)*) => {
        mod embedded {
            $(#[test]
            fn $case() {
                super::$case($crate::harness::dialect::Engine::Embedded);
            })*
        }
        mod redis {
            $(#[test]
            fn $case() {
                super::$case($crate::harness::dialect::Engine::Redis);
            })*
        }
    };
}
pub(crate) use on_each_engine;

/// How a dialect is switched on. The type that has it gives a [`DialectSite`] its calls.
pub trait Dialect {
    /// The variable for its address.
    const LISTEN: &str;
    /// What the log says when it listens.
    const LISTENING: &str;
}

/// The address at which a server listens that logs this when it does.
#[track_caller]
pub fn address_of(server: &Server, listening: &str) -> SocketAddr {
    server.wait_for_log(listening);
    let log = server.log();
    let line = log.lines().find(|line| line.contains(listening)).expect("is logged");
    let line: serde_json::Value = serde_json::from_str(line).expect("is JSON");
    line["address"].as_str().and_then(|address| address.parse().ok()).expect("has the address")
}

/// A server that speaks a dialect.
pub struct DialectSite<D> {
    pub server: Server,
    pub address: SocketAddr,
    _directory: tempfile::TempDir,
    _dialect: PhantomData<fn() -> D>,
}

/// An answer as it was received.
#[derive(Debug)]
pub struct Answer {
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Its status.
    pub fn status(&self) -> u16 {
        let status = self.head.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.expect("an answer has a status")
    }
}

impl<D: Dialect> DialectSite<D> {
    /// With otherwise default settings.
    pub fn new(engine: Engine) -> Self {
        Self::with(engine, &[])
    }

    /// With these settings besides.
    pub fn with(engine: Engine, variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut all = vec![(D::LISTEN, "127.0.0.1:0")];
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
        let address = address_of(&server, D::LISTENING);
        Self { server, address, _directory: directory, _dialect: PhantomData }
    }

    /// Sends a call with these headers besides, each of which ends with `\r\n`.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &str, body: impl AsRef<[u8]>) -> Answer {
        let (address, body) = (self.address, body.as_ref());
        let len = body.len();
        let host = if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
        let head = format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n{headers}");
        let request = [format!("{head}Content-Length: {len}\r\n\r\n").as_bytes(), body].concat();
        let time_limit = TimeLimit::new();
        loop {
            let answer = self.send_raw(&request);
            // A busy machine can hold up any process for over a second. The answer asks for another call then.
            if !answer.body.contains(PAUSED) {
                return answer;
            }
            time_limit.check(|| format!("{method} {path} is not begun"));
            time_limit.pause_thread();
        }
    }

    /// Sends these bytes and reads the answer until the server closes the connection.
    #[track_caller]
    pub fn send_raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(240))).expect("is set");
        stream.write_all(bytes).expect("sends");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("is text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole answer");
        Answer { head: head.to_owned(), body: body.to_owned() }
    }

    /// A call of the native API.
    #[track_caller]
    pub fn native(&self, method: &str, path: &str, body: &str, status: u16) -> serde_json::Value {
        let answer = self.server.call(method, path, body);
        assert_eq!(answer.status, status, "{answer:?}");
        if answer.body.is_empty() { serde_json::Value::Null } else { answer.json() }
    }
}
