//! Timeouts for every wait for a client: a stream whose reads and writes fail when the client takes too long.
//!
//! hyper has one timer for a request's head and for the idle time before it, and none for slow readers.
//! Here each wait has its own. Knows bytes and the phase of a request, not what the bytes mean.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::transport::Transport;
use crate::metrics::CloseReason;

#[cfg(test)]
mod tests;

/// Bytes of a request's body that must arrive within each body timeout, and bytes of a response that must be read
/// within each write timeout.
pub(crate) const WINDOW_BYTES: usize = 64 * 1_024;

/// Most bytes that a client may send after a poll that is not answered yet. Clients do not pipeline after polls, and
/// the end of the connection can only be found after all bytes that were sent before it.
const MAX_READ_AHEAD_BYTES: usize = 4 * 1_024;

/// Whether a connection waits for a request or works on one.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestPhase(Arc<PhaseState>);

#[derive(Debug, Default)]
struct PhaseState {
    /// Incremented when a request's head is complete and again when its response is ready to be written, so it is odd
    /// while a request is in flight.
    number: AtomicU64,
    /// Whether the request in flight is dropped when its client closes the sending side.
    cancelled_on_close: AtomicBool,
}

/// Marks a request as in flight until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight(RequestPhase);

impl RequestPhase {
    /// Call it when a request's head is complete.
    pub fn begin(&self) -> InFlight {
        self.0.number.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    /// Drops the request in flight as soon as the client closes its sending side.
    pub fn cancel_on_close(&self) {
        self.0.cancelled_on_close.store(true, Ordering::Relaxed);
    }

    fn is_cancelled_on_close(&self) -> bool {
        self.0.cancelled_on_close.load(Ordering::Relaxed)
    }

    // Relaxed suffices: one task drives the stream and the requests of a connection.
    fn number(&self) -> u64 {
        self.0.number.load(Ordering::Relaxed)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let state = &self.0.0;
        state.cancelled_on_close.store(false, Ordering::Relaxed);
        state.number.fetch_add(1, Ordering::Relaxed);
    }
}

type Timeout = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A stream whose reads and writes fail once the client has kept them waiting for too long.
pub struct TimedStream<S> {
    stream: S,
    transport: Arc<Transport>,
    phase: RequestPhase,
    head: HeadWait,
    /// Fires at the end of a wait for a head, or earlier.
    timer: Option<HeadTimer>,
    /// Set while a part of a response waits to be read by the client.
    write_window: Option<WriteWindow>,
    /// Bytes that the client sent after a request that is cancelled on close; hyper reads them afterwards.
    read_ahead: Vec<u8>,
}

/// The wait for a request's head.
#[derive(Default)]
struct HeadWait {
    /// The phase to which this wait belongs.
    phase_number: u64,
    /// Whether a part of the head has arrived.
    begun: bool,
    /// When the wait has lasted too long, by the clock; `None` before it.
    ends_us: Option<i64>,
}

/// A timeout that outlasts the wait it was set for: with one for each wait, every request would set one and cancel it.
struct HeadTimer {
    /// When it fires, by the clock.
    fires_us: i64,
    timeout: Timeout,
}

/// A stretch of a response: the client must read [`WINDOW_BYTES`] of it in time.
struct WriteWindow {
    written: usize,
    timeout: Timeout,
}

impl<S> TimedStream<S> {
    pub(super) fn new(stream: S, transport: Arc<Transport>, phase: RequestPhase) -> Self {
        Self {
            stream,
            transport,
            phase,
            head: HeadWait::default(),
            timer: None,
            write_window: None,
            read_ahead: Vec::new(),
        }
    }

    /// The stream without timeouts, and whether the client has read all responses.
    pub(super) fn into_inner(self) -> (S, bool) {
        (self.stream, self.write_window.is_none())
    }

    fn timeout(&self, limit: Duration) -> Timeout {
        let clock = self.transport.clock.clone();
        Box::pin(async move { clock.sleep(limit).await })
    }

    /// Counts that the server closes the connection, and returns the error that ends it.
    fn close_error(&self, reason: CloseReason, message: &'static str) -> io::Error {
        self.transport.metrics.closed(reason);
        io::Error::new(io::ErrorKind::TimedOut, message)
    }

    /// Ready once a wait for the next request, or for the rest of its head, has lasted too long.
    fn poll_head_timeout(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let options = &self.transport.options;
        let (limit, reason, message) = match (self.head.begun, self.head.phase_number) {
            (true, _) => (options.header_timeout, CloseReason::Head, "the head of a request takes too long"),
            (false, 0) => (options.header_timeout, CloseReason::FirstByte, "the client sends nothing"),
            (false, _) => {
                (options.keep_alive_timeout, CloseReason::Idle, "the client sends no further request")
            }
        };
        let limit_us = i64::try_from(limit.as_micros()).unwrap_or(i64::MAX);
        let mut now_us = self.transport.clock.now_micros();
        let ends_us = *self.head.ends_us.get_or_insert(now_us.saturating_add(limit_us));
        while now_us < ends_us {
            ready!(self.poll_timer(cx, now_us, ends_us));
            now_us = self.transport.clock.now_micros();
        }
        Poll::Ready(self.close_error(reason, message))
    }

    /// Ready at `ends_us` or earlier: the timer of a wait that ended early is used on, and set anew once it has fired. Timers
    /// stop while the machine is suspended, and the clock does not: one that should have fired is not used on. One that was set
    /// before a suspension and still has to fire does so later by the length of it, as every sleep does.
    fn poll_timer(&mut self, cx: &mut Context<'_>, now_us: i64, ends_us: i64) -> Poll<()> {
        let set = self.timer.take().filter(|timer| (now_us..=ends_us).contains(&timer.fires_us));
        let mut timer = set.unwrap_or_else(|| {
            let left = Duration::from_micros(ends_us.abs_diff(now_us));
            HeadTimer { fires_us: ends_us, timeout: self.timeout(left) }
        });
        let fired = timer.timeout.as_mut().poll(cx);
        if fired.is_pending() {
            self.timer = Some(timer);
        }
        fired
    }

    /// Ready once the client has read less than a window of a response for too long.
    fn poll_write_timeout(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let mut window = self.write_window.take().unwrap_or_else(|| WriteWindow {
            written: 0,
            timeout: self.timeout(self.transport.options.write_timeout),
        });
        let expired = window.timeout.as_mut().poll(cx);
        self.write_window = Some(window);
        ready!(expired);
        Poll::Ready(self.close_error(CloseReason::Answer, "the client reads its response too slowly"))
    }

    fn drain_read_ahead(&mut self, into: &mut ReadBuf<'_>) {
        let len = self.read_ahead.len().min(into.remaining());
        into.put_slice(&self.read_ahead[..len]);
        self.read_ahead.drain(..len);
        if self.read_ahead.is_empty() {
            // Frees the memory: hardly any client needs it again.
            self.read_ahead = Vec::new();
        }
    }

    /// Counts the bytes of a write towards the window, or checks the timeout of a write that is pending.
    fn after_write(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(len)) => {
                self.write_window = self.write_window.take().and_then(|mut window| {
                    window.written = window.written.saturating_add(len);
                    (window.written < WINDOW_BYTES).then_some(window)
                });
                written
            }
            Poll::Ready(Err(_)) => written,
            Poll::Pending => self.poll_write_timeout(cx).map(Err),
        }
    }
}

impl<S: AsyncRead + Unpin> TimedStream<S> {
    /// Fails once the client has closed its sending side. hyper stops checking for that after the first byte of another
    /// request; the bytes before the end are kept for it.
    fn check_not_closed(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        loop {
            let mut part = [0; 512];
            let mut part = ReadBuf::new(&mut part);
            let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, &mut part) else {
                return Ok(());
            };
            read?;
            if part.filled().is_empty() {
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the client left its poll"));
            }
            self.read_ahead.extend_from_slice(part.filled());
            if self.read_ahead.len() > MAX_READ_AHEAD_BYTES {
                return Err(self.close_error(CloseReason::Ahead, "the client sends too much after a poll"));
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let (phase_number, len_before) = (this.phase.number(), into.filled().len());
        if phase_number != this.head.phase_number {
            this.head = HeadWait { phase_number, ..HeadWait::default() };
        }
        let read = if this.read_ahead.is_empty() {
            Pin::new(&mut this.stream).poll_read(cx, into)
        } else {
            this.drain_read_ahead(into);
            Poll::Ready(Ok(()))
        };
        let waits_for_head = phase_number.is_multiple_of(2) && this.write_window.is_none();
        if !waits_for_head {
            this.head.ends_us = None;
        } else if read.is_pending() {
            return this.poll_head_timeout(cx).map(Err);
        } else if into.filled().len() > len_before && !this.head.begun {
            this.head = HeadWait { phase_number, begun: true, ends_us: None };
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.after_write(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.after_write(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes once it has written everything, so nothing waits to be read any more. It also flushes each time it
    /// has polled a request in flight, which is when a client that left is noticed.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        if flushed.is_pending() {
            return this.poll_write_timeout(cx).map(Err);
        }
        this.write_window = None;
        if this.phase.is_cancelled_on_close() {
            this.check_not_closed(cx)?;
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let closed = Pin::new(&mut this.stream).poll_shutdown(cx);
        // TLS sends a last message, which the client may not read.
        if closed.is_pending() { this.poll_write_timeout(cx).map(Err) } else { closed }
    }
}
