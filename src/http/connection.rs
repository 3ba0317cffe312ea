//! One connection, from its first byte to its last: hyper with every wait bounded.
//!
//! A silent or dripping client is cut, a client that reads too slowly is cut, and a client that was
//! refused still gets its answer. Long polls are none of these and have no bound here.

use std::{io, net::IpAddr, time::Duration};

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
    App,
    client::Client,
    pace::{Paced, Turns},
};
use crate::metrics::Cut;
use crate::net::Tls;

/// hyper's one timer would count the reading of an answer as idle time, so `pace` has the real ones. Set
/// beyond all of them it still serves: only with it does hyper ask for the next request after an answer.
const BEYOND: Duration = Duration::from_secs(365 * 24 * 3_600);

/// What the system may hold of answers that it has not sent yet.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT_BYTES: u32 = 128 * 1_024;

/// Serves the requests of one connection from `address`, one after the other.
pub(super) async fn drive(
    app: &App,
    stream: TcpStream,
    address: IpAddr,
    router: Router,
    shutdown: CancellationToken,
) {
    if let Err(error) = prepare(&stream) {
        tracing::debug!(%error, "the connection is gone already");
        return;
    }
    match &app.tls {
        None => {
            let (stream, taken) = requests(app, stream, address, router, &shutdown).await;
            if taken { leave(app, stream, &shutdown).await } else { abort(&stream) }
        }
        // On the heap, so that a connection without TLS, which is the usual one, has no room for it.
        Some(tls) => Box::pin(drive_secured(app, tls, stream, address, router, &shutdown)).await,
    }
}

async fn drive_secured(
    app: &App,
    tls: &Tls,
    stream: TcpStream,
    address: IpAddr,
    router: Router,
    shutdown: &CancellationToken,
) {
    let Some(stream) = secured(app, tls, stream, shutdown).await else { return };
    let (stream, taken) = requests(app, stream, address, router, shutdown).await;
    if taken { leave(app, stream, shutdown).await } else { abort(stream.get_ref().0) }
}

/// Sets how the system is to send.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    // Answers are small and written at once; waiting to fill a packet only adds delay.
    stream.set_nodelay(true)?;
    // What a client does not take is to wait here, where its pace is seen, and not by the megabyte in the
    // system's buffers.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES)?;
    Ok(())
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
        () = app.clock.sleep(app.options.header_timeout) => {
            app.metrics.connections.cut(Cut::Handshake);
            return None;
        }
        () = shutdown.cancelled() => return None,
    };
    agreed.map_err(|error| tracing::debug!(%error, "TLS was not agreed on")).ok()
}

/// Ends a connection whose client does not take its answer: the system would hold it and go on trying.
fn abort(stream: &TcpStream) {
    if let Err(error) = stream.set_zero_linger() {
        tracing::debug!(%error, "the connection is gone already");
    }
}

/// Lets a client that was refused have its answer.
async fn leave(app: &App, stream: impl AsyncRead + AsyncWrite + Unpin, shutdown: &CancellationToken) {
    tokio::select! {
        () = linger(stream) => {}
        () = app.clock.sleep(app.options.linger) => {}
        () = shutdown.cancelled() => {}
    }
}

/// Speaks HTTP/1 until either side ends it, or after the request at work on `shutdown`. Returns the stream,
/// and whether the client took its answers.
///
/// A client that closes its sending side has left, also if it did so behind a whole request: a request that a
/// client gave up and sent elsewhere must not be carried out afterwards.
async fn requests<S>(
    app: &App,
    stream: S,
    address: IpAddr,
    router: Router,
    shutdown: &CancellationToken,
) -> (S, bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let turns = Turns::default();
    let stream = Paced::new(stream, app, turns.clone());
    let client = Client::new(address, turns.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (work, router) = (turns.work(), router.clone());
        request.extensions_mut().insert(client.clone());
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
