//! One HTTP call over plain blocking sockets, so that no client library repeats, reuses or hides anything.

use std::{
    io::{Error, ErrorKind, Read, Result, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Longer than any answer takes, long polls included, so that a server that hangs fails its test.
const PATIENCE: Duration = Duration::from_secs(120);

/// Calls `address` on a connection of its own.
pub fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> Result<Answer> {
    call_with(address, method, path, "", body)
}

/// The same with these headers besides, each ended by `\r\n`.
pub fn call_with(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .as_bytes(),
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let broken = || Error::new(ErrorKind::UnexpectedEof, "the answer broke off");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
    let announced = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    if announced.is_some_and(|len| len != body.len().to_string()) {
        return Err(broken());
    }
    Ok(Answer { status, body: body.to_owned() })
}
