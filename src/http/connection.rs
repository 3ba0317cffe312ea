//! One connection, from its first byte to its last: hyper with every wait bounded.
//!
//! A silent or dripping client is cut, a client that reads too slowly is cut, and a client that was
//! refused still gets its answer. Long polls are none of these and have no bound here.

use std::time::Duration;

use axum::{Router, extract::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{
    App, Tls,
    pace::{Paced, Turns},
};
use crate::metrics::Cut;

/// hyper's one timer would count the reading of an answer as idle time, so `pace` has the real ones. Set
/// beyond all of them it still serves: only with it does hyper ask for the next request after an answer.
const BEYOND: Duration = Duration::from_secs(365 * 24 * 3_600);

/// What requests come over: a socket, or TLS on one.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    fn socket(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Wire for TlsStream<TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// Serves the requests of one connection, one after the other.
pub(super) async fn drive(app: &App, stream: TcpStream, router: Router, shutdown: CancellationToken) {
    // Answers are small and written at once; waiting to fill a packet only adds delay.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "the connection is gone already");
        return;
    }
    match &app.tls {
        None => converse(app, stream, router, &shutdown).await,
        Some(tls) => {
            if let Some(stream) = secured(app, tls, stream, &shutdown).await {
                converse(app, stream, router, &shutdown).await;
            }
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
        () = app.clock.sleep(app.options.header_timeout) => Err(std::io::ErrorKind::TimedOut.into()),
        () = shutdown.cancelled() => return None,
    };
    agreed
        .map_err(|error| {
            tracing::debug!(%error, "TLS was not agreed on");
            app.metrics.connections.cut(Cut::Handshake);
        })
        .ok()
}

/// Speaks HTTP/1, and lets a client that was refused have its answer.
async fn converse(app: &App, stream: impl Wire, router: Router, shutdown: &CancellationToken) {
    let (stream, taken) = requests(app, stream, router, shutdown).await;
    if !taken {
        // The system would keep trying to send what the client does not take, and hold it meanwhile.
        let _ = stream.socket().set_zero_linger();
        return;
    }
    tokio::select! {
        () = linger(stream) => {}
        () = app.clock.sleep(app.options.linger) => {}
        () = shutdown.cancelled() => {}
    }
}

/// Speaks HTTP/1 until either side ends it, or after the request at work on `shutdown`. Returns the stream,
/// and whether the client took its answers.
async fn requests<S: Wire>(app: &App, stream: S, router: Router, shutdown: &CancellationToken) -> (S, bool) {
    let turns = Turns::default();
    let stream = Paced::new(stream, app, turns.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (work, router) = (turns.work(), router.clone());
        async move {
            let answer = router.oneshot(request).await;
            drop(work);
            answer
        }
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(BEYOND)
        .max_header_size(app.options.max_header_bytes)
        .max_headers(app.options.max_headers)
        .serve_connection(TokioIo::new(stream), service);
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
        if error.is_parse_too_large() {
            app.metrics.connections.cut(Cut::HeadTooLarge);
        } else if error.is_parse() {
            app.metrics.connections.cut(Cut::Malformed);
        }
    }
    connection.into_parts().io.into_inner().into_inner()
}

/// Says that nothing more will come, then reads what the client still sends. Closing with unread bytes
/// would reset the connection, and the client would lose the answer (RFC 9112, 9.6).
pub(super) async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut discarded = [0; 4_096];
    if stream.shutdown().await.is_ok() {
        while stream.read(&mut discarded).await.is_ok_and(|read| read > 0) {}
    }
}
