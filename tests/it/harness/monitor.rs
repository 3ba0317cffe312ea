//! The commands that a Redis server runs, as `MONITOR` shows them.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    time::Duration,
};

use super::redis::RedisServer;

/// A connection that shows every command that the server runs from now on.
pub struct Monitor(BufReader<TcpStream>);

impl Monitor {
    pub fn start(server: &RedisServer) -> Self {
        let mut stream = TcpStream::connect(server.address()).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("can be set");
        stream.write_all(b"MONITOR\r\n").expect("sends");
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line).expect("answers");
        assert_eq!(line, "+OK\r\n");
        Self(lines)
    }

    /// A line for each command, as soon as it runs. A script's commands follow its own line.
    pub fn lines(self) -> impl Iterator<Item = String> {
        self.0.lines().map(|line| line.expect("the next command arrives"))
    }

    /// Blocks until the server runs a command with this text.
    pub fn wait_for(self, text: &str) {
        assert!(self.lines().any(|line| line.contains(text)), "the server closed the connection");
    }
}
