//! One connection, from its first byte to its last: hyper with every wait bounded.
//!
//! A silent or dripping client is cut, a client that stops reading is cut, and a client that was refused
//! still gets its answer. Long polls are none of these and have no bound here.

use std::{
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::{App, Tls};
use crate::clock::Clock;

/// Serves the requests of one connection, one after the other.
pub(super) async fn drive(app: &App, stream: TcpStream, router: Router, shutdown: CancellationToken) {
    // Answers are small and written at once; waiting to fill a packet only adds delay.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "the connection is gone already");
        return;
    }
    match &app.tls {
        None => {
            let stream = requests(app, stream, router, &shutdown).await;
            leave(app, stream, &shutdown).await;
        }
        Some(tls) => {
            let Some(stream) = secured(app, tls, stream, &shutdown).await else { return };
            let stream = requests(app, stream, router, &shutdown).await;
            leave(app, stream, &shutdown).await;
        }
    }
}

/// The connection once both sides have agreed on keys, for which they have as long as for a request's head.
async fn secured(
    app: &App,
    tls: &Tls,
    stream: TcpStream,
    shutdown: &CancellationToken,
) -> Option<TlsStream<TcpStream>> {
    // On the heap, since it is large and short-lived, and a connection's task is neither.
    let agreed = tokio::select! {
        agreed = Box::pin(tls.acceptor().accept(stream)) => agreed,
        () = app.clock.sleep(app.options.header_timeout) => Err(io::ErrorKind::TimedOut.into()),
        () = shutdown.cancelled() => return None,
    };
    agreed.map_err(|error| tracing::debug!(%error, "TLS was not agreed on")).ok()
}

/// Speaks HTTP/1 until either side ends it, or after the request at work on `shutdown`.
async fn requests<S>(app: &App, stream: S, router: Router, shutdown: &CancellationToken) -> S
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Impatient::new(stream, app.options.write_timeout, app.clock.clone());
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.options.header_timeout)
        .max_header_size(app.options.max_header_bytes)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let ended = tokio::select! {
        // Shutdown first: an answer that it brought about then says that the connection closes.
        biased;
        () = shutdown.cancelled() => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
        ended = &mut connection => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "the connection ended early");
    }
    connection.into_parts().io.into_inner().stream
}

/// Lets a client that was refused have its answer.
async fn leave(app: &App, stream: impl AsyncRead + AsyncWrite + Unpin, shutdown: &CancellationToken) {
    tokio::select! {
        () = linger(stream) => {}
        () = app.clock.sleep(app.options.linger) => {}
        () = shutdown.cancelled() => {}
    }
}

/// Says that nothing more will come, then reads what the client still sends. Closing with unread bytes
/// would reset the connection, and the client would lose the answer (RFC 9112, 9.6).
async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut discarded = [0; 4_096];
    if stream.shutdown().await.is_ok() {
        while stream.read(&mut discarded).await.is_ok_and(|read| read > 0) {}
    }
}

/// A stream on which no write waits for longer than a timeout.
struct Impatient<S> {
    stream: S,
    timeout: Duration,
    clock: Arc<dyn Clock>,
    /// Runs while a write waits.
    too_long: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> Impatient<S> {
    fn new(stream: S, timeout: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { stream, timeout, clock, too_long: None }
    }

    /// Lets a write through that is done, and one that waits only as long as the timeout runs.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, write: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.too_long = None;
            return write;
        }
        let too_long = self.too_long.get_or_insert_with(|| {
            let (clock, timeout) = (self.clock.clone(), self.timeout);
            Box::pin(async move { clock.sleep(timeout).await })
        });
        ready!(too_long.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing of its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = pin!(&mut self.stream).poll_write(cx, bytes);
        self.bounded(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = pin!(&mut self.stream).poll_write_vectored(cx, parts);
        self.bounded(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_shutdown(cx)
    }
}
