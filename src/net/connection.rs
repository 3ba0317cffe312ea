//! One connection, from its first byte to its last: TLS, what the protocol does with it, and its end.
//!
//! Silent clients, slow senders and slow readers are disconnected; a refused client still receives its response. Long
//! polls wait for the server, not for the client, and have no timeout here.

use std::{io, net::IpAddr, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::{
    client::ConnectedClient, io_timeouts::TimedStream, protocol::Protocol, shared_socket::SharedSocket,
    tls::ServerTls, transport::Transport,
};
use crate::metrics::CloseReason;

/// Most bytes of responses that the system may buffer without having sent them.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MAX_UNSENT_BYTES: u32 = 128 * 1_024;

/// What is spoken on the connections of a socket.
#[derive(Debug)]
pub(super) struct Spoken<P> {
    pub protocol: P,
    /// If there is a certificate, only TLS is spoken.
    pub tls: Option<ServerTls>,
}

/// Serves one connection from `address`.
pub(super) async fn drive(
    transport: &Arc<Transport>,
    Spoken { protocol, tls }: &Spoken<impl Protocol>,
    stream: TcpStream,
    address: IpAddr,
    shutdown: &CancellationToken,
) {
    if let Err(error) = configure_socket(&stream) {
        tracing::debug!(%error, "the connection is already closed");
        return;
    }
    let socket = SharedSocket::new(stream);
    let client = ConnectedClient::new(address, socket.clone());
    match tls {
        None => {
            let (stream, all_read) = serve(transport, protocol, socket, client, shutdown).await;
            if all_read { close(transport, stream, shutdown).await } else { reset(&stream) }
        }
        // Boxed to keep the future of plain connections small.
        Some(tls) => Box::pin(drive_tls(transport, (protocol, tls), socket, client, shutdown)).await,
    }
}

async fn drive_tls(
    transport: &Arc<Transport>,
    (protocol, tls): (&impl Protocol, &ServerTls),
    socket: SharedSocket,
    client: ConnectedClient,
    shutdown: &CancellationToken,
) {
    let Some(stream) = handshake(transport, tls, socket, shutdown).await else { return };
    let (stream, all_read) = serve(transport, protocol, stream, client, shutdown).await;
    if all_read { close(transport, stream, shutdown).await } else { reset(stream.get_ref().0) }
}

/// Has the protocol serve the connection on a stream with timeouts. Returns the stream without them, and whether the client
/// has read all answers.
async fn serve<S>(
    transport: &Arc<Transport>,
    protocol: &impl Protocol,
    stream: S,
    client: ConnectedClient,
    shutdown: &CancellationToken,
) -> (S, bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TimedStream::new(stream, transport.clone(), client.phase.clone());
    protocol.serve(transport, stream, client, shutdown).await.into_inner()
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

/// Closes the sending side, then reads and discards what the client still sends. Closing with unread bytes would reset
/// the connection, and the client would lose the response (RFC 9112, 9.6).
pub(super) async fn drain_until_closed(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut discarded = [0; 4_096];
    if stream.shutdown().await.is_ok() {
        while stream.read(&mut discarded).await.is_ok_and(|read| read > 0) {}
    }
}
