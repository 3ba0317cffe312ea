//! The pace of a connection: a stream on which no wait for the client is without a bound.
//!
//! hyper has one timer for a request's head and for the idle time before it, and none for slow readers.
//! Here each wait has its own. Knows bytes and whose turn it is, not what the bytes mean.

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

use super::App;
use crate::metrics::Cut;

/// So much of a body has to arrive within each body timeout, and so much of an answer has to be taken
/// within each write timeout.
pub(super) const WINDOW_BYTES: usize = 64 * 1_024;

/// Most bytes that a client may send behind a poll that is not answered yet. Clients do not pipeline behind polls;
/// and the end of the connection is found only behind all that was sent before it.
const MAX_AHEAD_BYTES: usize = 4 * 1_024;

/// Whose turn it is on a connection: counts up when a request's head is complete and again when its answer
/// is ready to be written, so it is odd while a request is at work.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns(Arc<Phase>);

#[derive(Debug, Default)]
struct Phase {
    turn: AtomicU64,
    /// Whether the request at work ends with its client.
    watched: AtomicBool,
}

/// A request at work.
#[derive(Debug)]
pub(super) struct Work(Turns);

impl Turns {
    /// A request's head is complete.
    pub fn work(&self) -> Work {
        self.0.turn.fetch_add(1, Ordering::Relaxed);
        Work(self.clone())
    }

    /// The request at work is dropped as soon as the client closes its sending side.
    pub fn watch(&self) {
        self.0.watched.store(true, Ordering::Relaxed);
    }

    fn is_watched(&self) -> bool {
        self.0.watched.load(Ordering::Relaxed)
    }

    // The stream and the requests of a connection are driven by one task, so the order is given.
    fn now(&self) -> u64 {
        self.0.turn.load(Ordering::Relaxed)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let phase = &self.0.0;
        phase.watched.store(false, Ordering::Relaxed);
        phase.turn.fetch_add(1, Ordering::Relaxed);
    }
}

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A stream whose reads and writes fail once the client has kept them waiting for too long.
pub(super) struct Paced<S> {
    stream: S,
    app: App,
    turns: Turns,
    awaited: Awaited,
    /// Open while a part of an answer waits to be taken.
    window: Option<Window>,
    /// What the client sent behind a watched request; hyper reads it afterwards.
    ahead: Vec<u8>,
}

/// The wait for a request's head.
#[derive(Default)]
struct Awaited {
    /// In which turn.
    turn: u64,
    /// Whether a part of the head is there.
    begun: bool,
    timer: Option<Timer>,
}

/// A stretch of an answer of which [`WINDOW_BYTES`] have to be taken in time.
struct Window {
    taken: usize,
    timer: Timer,
}

impl<S> Paced<S> {
    pub fn new(stream: S, app: &App, turns: Turns) -> Self {
        Self { stream, app: app.clone(), turns, awaited: Awaited::default(), window: None, ahead: Vec::new() }
    }

    /// The stream without a bound, and whether nothing of an answer was left waiting to be taken.
    pub fn into_inner(self) -> (S, bool) {
        (self.stream, self.window.is_none())
    }

    fn timer(&self, limit: Duration) -> Timer {
        let clock = self.app.clock.clone();
        Box::pin(async move { clock.sleep(limit).await })
    }

    fn cut(&self, why: Cut, what: &'static str) -> io::Error {
        self.app.metrics.connections.cut(why);
        io::Error::new(io::ErrorKind::TimedOut, what)
    }

    /// Nothing came: fails when that was to be expected, and lasts too long.
    fn nothing_came(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let options = &self.app.options;
        let (limit, why, what) = match (self.awaited.begun, self.awaited.turn) {
            (true, _) => (options.header_timeout, Cut::Head, "the head of a request takes too long"),
            (false, 0) => (options.first_byte_timeout, Cut::FirstByte, "the client says nothing"),
            (false, _) => (options.keep_alive_timeout, Cut::Idle, "the client says nothing more"),
        };
        let mut timer = self.awaited.timer.take().unwrap_or_else(|| self.timer(limit));
        let too_long = timer.as_mut().poll(cx);
        self.awaited.timer = Some(timer);
        ready!(too_long);
        Poll::Ready(self.cut(why, what))
    }

    /// A part of an answer waits: fails when too little was taken for too long.
    fn nothing_taken(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let mut window = self
            .window
            .take()
            .unwrap_or_else(|| Window { taken: 0, timer: self.timer(self.app.options.write_timeout) });
        let too_long = window.timer.as_mut().poll(cx);
        self.window = Some(window);
        ready!(too_long);
        Poll::Ready(self.cut(Cut::Answer, "the client reads its answer too slowly"))
    }

    fn take_ahead(&mut self, into: &mut ReadBuf<'_>) {
        let len = self.ahead.len().min(into.remaining());
        into.put_slice(&self.ahead[..len]);
        self.ahead.drain(..len);
        if self.ahead.is_empty() {
            // Without its memory: hardly any client needs it again.
            self.ahead = Vec::new();
        }
    }

    fn written(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(len)) => {
                self.window = self.window.take().and_then(|mut window| {
                    window.taken = window.taken.saturating_add(len);
                    (window.taken < WINDOW_BYTES).then_some(window)
                });
                written
            }
            Poll::Ready(Err(_)) => written,
            Poll::Pending => self.nothing_taken(cx).map(Err),
        }
    }
}

impl<S: AsyncRead + Unpin> Paced<S> {
    /// Fails once the client has closed its sending side. hyper stops to look for that as soon as it has a byte of
    /// another request; whatever comes before the end is kept for it.
    fn watch(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
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
            self.ahead.extend_from_slice(part.filled());
            if self.ahead.len() > MAX_AHEAD_BYTES {
                return Err(self.cut(Cut::Ahead, "the client sends too much behind a poll"));
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let (turn, before) = (this.turns.now(), into.filled().len());
        if turn != this.awaited.turn {
            this.awaited = Awaited { turn, ..Awaited::default() };
        }
        let read = if this.ahead.is_empty() {
            Pin::new(&mut this.stream).poll_read(cx, into)
        } else {
            this.take_ahead(into);
            Poll::Ready(Ok(()))
        };
        let awaited = turn.is_multiple_of(2) && this.window.is_none();
        if !awaited {
            this.awaited.timer = None;
        } else if read.is_pending() {
            return this.nothing_came(cx).map(Err);
        } else if into.filled().len() > before && !this.awaited.begun {
            this.awaited = Awaited { turn, begun: true, timer: None };
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.written(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes once all that it has is written: then nothing waits any more. It also flushes whenever it
    /// has looked after a request at work.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        if flushed.is_pending() {
            return this.nothing_taken(cx).map(Err);
        }
        this.window = None;
        if this.turns.is_watched() {
            this.watch(cx)?;
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let closed = Pin::new(&mut this.stream).poll_shutdown(cx);
        // TLS has a last word to say, which the client may not take.
        if closed.is_pending() { this.nothing_taken(cx).map(Err) } else { closed }
    }
}
