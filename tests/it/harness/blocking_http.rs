//! HTTP calls over blocking sockets, so that no client library repeats a call, reuses a connection or hides an error.

use std::{
    io::{Error, ErrorKind, Read, Result, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use super::wait::TimeLimit;

/// A response that was read to its end.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub body: String,
}

impl Response {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Longer than any response takes, long polls included, so that a server that hangs fails its test.
const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// Calls `address` on a connection of its own.
pub fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> Result<Response> {
    call_with(address, method, path, "", body)
}

/// Like [`call`], but a call that the server has not begun, because its process was paused, is sent again, as the answer asks: a
/// busy machine can hold up any process for over a second.
pub fn call_until_begun(address: SocketAddr, method: &str, path: &str, body: &str) -> Result<Response> {
    call_with_until_begun(address, method, path, "", body)
}

/// The same, with more headers, each of which ends with `\r\n`.
pub fn call_with_until_begun(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Result<Response> {
    let time_limit = TimeLimit::new();
    loop {
        let answer = call_with(address, method, path, headers, body)?;
        if !is_not_begun(answer.status, answer.body.as_bytes()) {
            return Ok(answer);
        }
        time_limit.check(|| format!("{method} {path} is not begun"));
        time_limit.pause_thread();
    }
}

/// Whether an answer says that the call was not begun.
pub fn is_not_begun(status: u16, body: &[u8]) -> bool {
    status == 503 && String::from_utf8_lossy(body).contains(r#""code":"not_begun""#)
}

/// What an answer of any dialect says if the call was not begun because the process was paused.
pub const PAUSED: &str = "the server was paused and cannot know";

/// Like [`call`], with more headers, each of which ends with `\r\n`.
pub fn call_with(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Result<Response> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    stream.write_all(
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .as_bytes(),
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let broken = || Error::new(ErrorKind::UnexpectedEof, "the response is incomplete");
    let (head, body) = response.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
    let announced = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    if announced.is_some_and(|len| len != body.len().to_string()) {
        return Err(broken());
    }
    Ok(Response { status, body: body.to_owned() })
}
