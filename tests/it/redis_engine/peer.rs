//! The state of one connection through the proxy: what the client uses it for, and whether it is half-open.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use tokio_util::sync::{CancellationToken, DropGuard};

/// What a half-open connection discards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discard {
    /// Requests and replies: the server receives nothing.
    Both,
    /// Replies only: the server still executes the requests.
    Replies,
}

/// One connection of a client.
#[derive(Default)]
pub struct Peer {
    subscribes: AtomicBool,
    waits: AtomicBool,
    replicates: AtomicBool,
    /// What it discards, once `half_open` is cancelled.
    discard: Mutex<Option<Discard>>,
    half_open: CancellationToken,
    reset: AtomicBool,
    closed: CancellationToken,
}

impl Peer {
    /// Whether it has subscribed to announcements.
    pub fn subscribes(&self) -> bool {
        self.subscribes.load(Ordering::Relaxed)
    }

    /// Whether it has sent `WAIT`.
    pub fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Whether a replica uses it.
    pub fn replicates(&self) -> bool {
        self.replicates.load(Ordering::Relaxed)
    }

    /// Whether it is open and not half-open.
    pub fn passes(&self) -> bool {
        !self.half_open.is_cancelled() && !self.closed.is_cancelled()
    }

    /// Whether the client closed it by a reset, which discards unsent requests.
    pub fn was_reset(&self) -> bool {
        self.reset.load(Ordering::Relaxed)
    }

    /// Records how reading from the client ended.
    pub fn ended(&self, read: &std::io::Result<u64>) {
        let reset = read.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset);
        self.reset.store(reset, Ordering::Relaxed);
    }

    /// Waits until the client has closed it.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Waits until it is half-open.
    pub async fn becomes_half_open(&self) {
        self.half_open.cancelled().await;
    }

    /// What it discards, if it is half-open.
    pub fn discards(&self) -> Option<Discard> {
        *self.discard.lock().expect("not poisoned")
    }

    /// The connection counts as closed once the guard is dropped.
    pub fn close_on_drop(&self) -> DropGuard {
        self.closed.clone().drop_guard()
    }

    pub fn make_half_open(&self, discard: Discard) {
        *self.discard.lock().expect("not poisoned") = Some(discard);
        self.half_open.cancel();
    }

    /// Records what a request shows about the use of the connection.
    pub fn notice(&self, request: &[u8]) {
        let command = request.split(|byte| *byte == b'\n').nth(2).unwrap_or_default();
        match command {
            b"SUBSCRIBE\r" => self.subscribes.store(true, Ordering::Relaxed),
            b"REPLCONF\r" => self.replicates.store(true, Ordering::Relaxed),
            b"WAIT\r" => self.waits.store(true, Ordering::Relaxed),
            _ => {}
        }
    }
}
