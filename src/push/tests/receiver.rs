//! An endpoint under the control of a test: it sends the bytes that it is told to send.

use std::{net::Ipv4Addr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::push::connection::Stream;

/// Listens on loopback.
pub struct Receiver {
    listener: TcpListener,
}

impl Receiver {
    pub async fn new() -> Self {
        Self::listen(Ipv4Addr::LOCALHOST, 0).await
    }

    pub async fn listen(address: Ipv4Addr, port: u16) -> Self {
        Self { listener: TcpListener::bind((address, port)).await.expect("loopback can be listened on") }
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().expect("is bound").port()
    }

    /// The next connection.
    pub async fn accept(&self) -> Peer<TcpStream> {
        Peer::new(self.listener.accept().await.expect("can accept").0)
    }

    /// Accepts a connection and answers its first request.
    pub async fn answer(&self, answer: &[u8]) -> Peer<TcpStream> {
        let mut peer = self.accept().await;
        peer.answer(answer).await;
        peer
    }
}

/// The endpoint's side of a connection.
pub struct Peer<S> {
    pub stream: S,
}

impl<S: Stream> Peer<S> {
    pub fn new(stream: S) -> Self {
        Self { stream }
    }

    /// The bytes of the next request: its head, and the body that its length announces.
    pub async fn read_request(&mut self) -> String {
        let mut bytes = Vec::new();
        loop {
            let read = self.stream.read_buf(&mut bytes).await.expect("can be read");
            assert_ne!(read, 0, "the connection ended within a request: {bytes:?}");
            let text = String::from_utf8_lossy(&bytes);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().expect("a number")) {
                return text.into_owned();
            }
        }
    }

    /// Sends bytes; `false` if the connection has ended.
    pub async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok() && self.stream.flush().await.is_ok()
    }

    /// Reads a request and answers it.
    pub async fn answer(&mut self, answer: &[u8]) -> String {
        let request = self.read_request().await;
        assert!(self.send(answer).await, "the connection is open");
        request
    }

    /// Waits until the caller closes the connection.
    pub async fn closed(mut self) {
        let mut rest = Vec::new();
        // A reset is an end as well.
        let _ = self.stream.read_to_end(&mut rest).await;
    }
}

impl Peer<TcpStream> {
    /// Ends the connection by a reset.
    pub fn reset(self) {
        self.stream.set_zero_linger().expect("can be set");
    }
}

/// Fails a test that hangs.
pub async fn soon<T>(step: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), step).await.expect("takes less than a minute")
}
