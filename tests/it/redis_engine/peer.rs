//! A connection through the proxy, as a test sees it: what it is for, and whether it is half-open.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use tokio_util::sync::{CancellationToken, DropGuard};

/// What a half-open connection swallows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swallow {
    /// Requests and answers: the server hears nothing.
    Both,
    /// Answers alone: the server goes on acting.
    Answers,
}

/// One connection of a client, as the test sees it.
#[derive(Default)]
pub struct Peer {
    subscribes: AtomicBool,
    waits: AtomicBool,
    replicates: AtomicBool,
    /// What it swallows, once `half_open` is cancelled.
    swallow: Mutex<Option<Swallow>>,
    half_open: CancellationToken,
    reset: AtomicBool,
    closed: CancellationToken,
}

impl Peer {
    /// Whether announcements come by it.
    pub fn subscribes(&self) -> bool {
        self.subscribes.load(Ordering::Relaxed)
    }

    /// Whether it has waited for replicas.
    pub fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Whether it is a replica's.
    pub fn replicates(&self) -> bool {
        self.replicates.load(Ordering::Relaxed)
    }

    /// Whether it passes everything on.
    pub fn passes(&self) -> bool {
        !self.half_open.is_cancelled() && !self.closed.is_cancelled()
    }

    /// Whether the client closed it by a reset, which drops what it still held unsent.
    pub fn was_reset(&self) -> bool {
        self.reset.load(Ordering::Relaxed)
    }

    /// Takes in how reading from the client ended.
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

    /// What it swallows, if it is half-open.
    pub fn swallows(&self) -> Option<Swallow> {
        *self.swallow.lock().expect("not poisoned")
    }

    /// Counts as closed once this is dropped.
    pub fn close_on_drop(&self) -> DropGuard {
        self.closed.clone().drop_guard()
    }

    pub fn make_half_open(&self, swallow: Swallow) {
        *self.swallow.lock().expect("not poisoned") = Some(swallow);
        self.half_open.cancel();
    }

    /// Takes in a request that it passes on.
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
