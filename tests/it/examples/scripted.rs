//! A server whose responses are written by the test: one request per connection, in the order of arrival.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use linger::clock::{Clock, SystemClock};

use crate::harness::wait::TimeLimit;

/// The longest wait for the rest of a request that has begun.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

pub struct ScriptedServer {
    listener: TcpListener,
    clock: SystemClock,
}

/// A request that waits for its response.
pub struct Request {
    stream: TcpStream,
    /// Method and target, such as `GET /jobs/x`.
    pub line: String,
    pub headers: Vec<String>,
    pub body: String,
    /// When the request arrived, in microseconds of the server's clock.
    pub received_us: i64,
}

impl ScriptedServer {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("can be set");
        Self { listener, clock: SystemClock::new() }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().expect("has an address"))
    }

    pub fn now_us(&self) -> i64 {
        self.clock.now_micros()
    }

    /// Waits for the next complete request.
    #[track_caller]
    pub fn next(&self) -> Request {
        let time_limit = TimeLimit::new();
        loop {
            if let Some(request) = self.next_or_pause() {
                return request;
            }
            time_limit.check(|| "no request arrived".to_owned());
        }
    }

    /// The next complete request if one has arrived; otherwise pauses for a moment. A client that gives up may close its
    /// connection before its request is complete: that is none.
    pub fn next_or_pause(&self) -> Option<Request> {
        match self.listener.accept() {
            Ok((stream, _)) => Request::read(stream, self.now_us()),
            Err(_) => {
                std::thread::park_timeout(Duration::from_millis(2));
                None
            }
        }
    }

    /// Whether no request has arrived since the last one. To be called when the client has ended. A connection without a
    /// request does not count, because some clients open one in advance.
    pub fn receives_nothing_more(&self) -> bool {
        let Ok((mut stream, _)) = self.listener.accept() else { return true };
        stream.set_nonblocking(false).expect("can be set");
        stream.set_read_timeout(Some(READ_TIMEOUT)).expect("can be set");
        !matches!(stream.read(&mut [0]), Ok(1))
    }
}

/// `None` if the connection was closed. Any other error ends the test.
fn unless_closed<T>(read: std::io::Result<T>) -> Option<T> {
    match read {
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => None,
        read => Some(read.expect("the request arrives")),
    }
}

impl Request {
    /// `None` if the connection ends before the request is complete.
    fn read(stream: TcpStream, received_us: i64) -> Option<Self> {
        stream.set_nonblocking(false).expect("can be set");
        stream.set_read_timeout(Some(READ_TIMEOUT)).expect("can be set");
        let mut from = BufReader::new(stream.try_clone().expect("can be shared"));
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            unless_closed(from.read_line(&mut line))?;
            match line.strip_suffix("\r\n")? {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let request = lines.remove(0);
        let line = request.strip_suffix(" HTTP/1.1").or_else(|| request.strip_suffix(" HTTP/1.0"));
        let length = lines.iter().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().expect("a length"))
        });
        let mut body = vec![0; length.unwrap_or(0)];
        unless_closed(from.read_exact(&mut body))?;
        let body = String::from_utf8(body).expect("text");
        Some(Self { stream, line: line.expect("a request").to_owned(), headers: lines, body, received_us })
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let split =
            |line: &'_ String| line.split_once(':').map(|(name, value)| (name.len(), value.trim().len()));
        self.headers.iter().find_map(|line| {
            let (length, _) = split(line)?;
            line[..length].eq_ignore_ascii_case(name).then(|| line[length + 1..].trim())
        })
    }

    /// Sends a complete response.
    pub fn respond(self, status: u16, body: &str) {
        self.respond_with(status, "", body);
    }

    /// Like [`respond`](Self::respond), with more headers, each of which ends with `\r\n`.
    pub fn respond_with(mut self, status: u16, headers: &str, body: &str) {
        self.write(status, headers, body);
    }

    /// The same, and waits until the client has read it and closes the connection.
    pub fn respond_until_read(mut self, status: u16, headers: &str, body: &str) {
        self.write(status, headers, body);
        self.wait_until_closed();
    }

    fn write(&mut self, status: u16, headers: &str, body: &str) {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}{}\r\n",
            if status == 204 { String::new() } else { format!("content-length: {length}\r\n") }
        );
        // The write fails if the client has closed the connection.
        let _ = self.stream.write_all(format!("{head}{body}").as_bytes());
    }

    /// Sends the first half of `body`, then closes the connection.
    pub fn cut_off(mut self, status: u16, body: &str) {
        let head =
            format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        let half = &body[..body.len() / 2];
        let _ = self.stream.write_all(format!("{head}{half}").as_bytes());
    }

    /// Closes the connection without a response.
    pub fn close(self) {}

    /// Waits until the client closes the connection.
    pub fn wait_until_closed(mut self) {
        let mut more = [0; 16];
        let time_limit = TimeLimit::new();
        self.stream.set_read_timeout(Some(Duration::from_millis(50))).expect("can be set");
        // A reset also closes the connection.
        while let Err(error) = self.stream.read(&mut more) {
            if error.kind() == ErrorKind::ConnectionReset {
                return;
            }
            time_limit.check(|| "the connection stays open".to_owned());
        }
    }
}
