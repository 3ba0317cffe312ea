//! One connection, from its first byte to its last: hyper on a stream whose waits for the client all end.
//!
//! Silent clients, slow senders and slow readers are disconnected; a refused client still receives its response. Long
//! polls wait for the server, not for the client, and have no timeout here.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

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
    io_timeouts::{RequestPhase, TimedStream},
    shared_socket::SharedSocket,
    tls::ServerTls,
    transport::Transport,
};
use crate::metrics::CloseReason;

/// Effectively no timeout: hyper's would count the reading of a response as idle time, so `io_timeouts` enforces the
/// real ones. hyper must still have one, or it does not read the next request after a response.
const HYPER_HEADER_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Most headers of a request.
const MAX_HEADERS: usize = 100;

/// Most bytes of responses that the system may buffer without having sent them.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MAX_UNSENT_BYTES: u32 = 128 * 1_024;

/// The other end of the connection on which a request arrived. Travels with the request as an extension.
#[derive(Debug, Clone)]
pub(crate) struct ConnectedClient {
    /// The address of the other end, which may be a proxy.
    pub address: IpAddr,
    socket: SharedSocket,
    phase: RequestPhase,
}

impl ConnectedClient {
    /// The client of `request`, or `None` if the request did not come over a connection.
    pub fn of_request(request: &Request) -> Option<Self> {
        request.extensions().get::<Self>().cloned()
    }

    /// Whether the client has closed its sending side or reset the connection, as the system knows it now. Such a client
    /// may have given up and sent its request elsewhere.
    pub fn has_left(&self) -> bool {
        self.socket.is_closed_by_client()
    }

    /// Until the request is answered, ends the connection and drops the request as soon as the client closes its
    /// sending side. Call it after the request's body was read.
    pub fn cancel_on_close(&self) {
        self.phase.cancel_on_close();
    }
}

/// Serves the requests of one connection from `address`, one after the other.
pub(super) async fn drive(
    transport: &Arc<Transport>,
    stream: TcpStream,
    address: IpAddr,
    service: Router,
    shutdown: CancellationToken,
) {
    if let Err(error) = configure_socket(&stream) {
        tracing::debug!(%error, "the connection is already closed");
        return;
    }
    let socket = SharedSocket::new(stream);
    let phase = RequestPhase::default();
    let client = ConnectedClient { address, socket: socket.clone(), phase };
    match &transport.tls {
        None => {
            let (stream, all_read) = serve_requests(transport, socket, client, service, &shutdown).await;
            if all_read { close(transport, stream, &shutdown).await } else { reset(&stream) }
        }
        // Boxed to keep the future of plain connections small.
        Some(tls) => Box::pin(drive_tls(transport, tls, socket, client, service, &shutdown)).await,
    }
}

async fn drive_tls(
    transport: &Arc<Transport>,
    tls: &ServerTls,
    socket: SharedSocket,
    client: ConnectedClient,
    service: Router,
    shutdown: &CancellationToken,
) {
    let Some(stream) = handshake(transport, tls, socket, shutdown).await else { return };
    let (stream, all_read) = serve_requests(transport, stream, client, service, shutdown).await;
    if all_read { close(transport, stream, shutdown).await } else { reset(stream.get_ref().0) }
}

fn configure_socket(stream: &TcpStream) -> io::Result<()> {
    // Responses are small and written at once; waiting to fill a packet would only add delay.
    stream.set_nodelay(true)?;
    // Unread responses must wait in this process, where the client's pace can be measured, and not by the megabyte in
    // the system's buffers.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(MAX_UNSENT_BYTES)?;
    Ok(())
}

/// Performs the TLS handshake, which may take as long as a request's head.
async fn handshake(
    transport: &Transport,
    tls: &ServerTls,
    socket: SharedSocket,
    shutdown: &CancellationToken,
) -> Option<TlsStream<SharedSocket>> {
    // Boxed because it is large and short-lived, unlike the connection's task.
    let accepted = tokio::select! {
        accepted = Box::pin(tls.acceptor().accept(socket)) => accepted,
        () = transport.clock.sleep(transport.options.header_timeout) => {
            transport.metrics.closed(CloseReason::Handshake);
            return None;
        }
        () = shutdown.cancelled() => return None,
    };
    accepted.map_err(|error| tracing::debug!(%error, "the TLS handshake failed")).ok()
}

/// Resets a connection whose client does not read its response: the system would keep the bytes and go on sending.
fn reset(socket: &SharedSocket) {
    if let Err(error) = socket.stream().set_zero_linger() {
        tracing::debug!(%error, "the connection is already closed");
    }
}

/// Closes a connection so that a refused client still receives its response.
async fn close(
    transport: &Transport,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    shutdown: &CancellationToken,
) {
    tokio::select! {
        () = drain_until_closed(stream) => {}
        () = transport.clock.sleep(transport.options.linger) => {}
        () = shutdown.cancelled() => {}
    }
}

/// Speaks HTTP/1 until either side ends the connection. On `shutdown`, finishes the request in flight first. Returns
/// the stream, and whether the client read all responses.
///
/// A client may close its sending side behind its request. If that is known before the request is carried out, the
/// request is refused ([`ConnectedClient::has_left`]): a client that gave up and sent its request elsewhere looks the same.
/// A request that has begun is answered.
async fn serve_requests<S>(
    transport: &Arc<Transport>,
    stream: S,
    client: ConnectedClient,
    service: Router,
    shutdown: &CancellationToken,
) -> (S, bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TimedStream::new(stream, transport.clone(), client.phase.clone());
    let handle = service_fn(move |mut request: Request<Incoming>| {
        let (in_flight, service) = (client.phase.begin(), service.clone());
        request.extensions_mut().insert(client.clone());
        async move {
            let response = service.oneshot(request).await;
            drop(in_flight);
            response
        }
    });
    let mut connection = http1::Builder::new()
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(HYPER_HEADER_TIMEOUT)
        .max_header_size(transport.options.max_header_bytes)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), handle);
    let ended = tokio::select! {
        // Shutdown first, so that a response caused by it announces the end of the connection.
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
            transport.metrics.closed(CloseReason::HeadTooLarge);
        } else if error.is_parse() {
            transport.metrics.closed(CloseReason::Malformed);
        }
    }
    connection.into_parts().io.into_inner().into_inner()
}

/// Closes the sending side, then reads and discards what the client still sends. Closing with unread bytes would reset
/// the connection, and the client would lose the response (RFC 9112, 9.6).
pub(super) async fn drain_until_closed(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut discarded = [0; 4_096];
    if stream.shutdown().await.is_ok() {
        while stream.read(&mut discarded).await.is_ok_and(|read| read > 0) {}
    }
}
