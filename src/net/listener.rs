//! The accept loop: one tracked task per connection, up to the connection limit.
//!
//! Not `axum::serve`, which has no timeout for a request's head: a silent connection would stay open for ever.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use super::{
    connection::{self, Spoken},
    protocol::Protocol,
    refusal::refuse,
    tls::ServerTls,
    transport::Transport,
};
use crate::metrics::RefusalReason;

/// Pause after the system could not accept a connection for lack of file descriptors or memory: an immediate retry
/// would only burn the processor. Clients wait in the listener's backlog meanwhile.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens, and what is spoken on its connections.
#[derive(Debug)]
pub struct ServedSocket<P> {
    /// The socket.
    pub listener: TcpListener,
    /// What is spoken on its connections.
    pub protocol: P,
    /// If there is a certificate, only TLS is spoken.
    pub tls: Option<ServerTls>,
}

/// Serves the connections of a socket until `shutdown`; then stops accepting, lets requests in flight finish and returns. The
/// sockets of one `transport` share its limits. Does not end parked polls: drain the queue first.
pub async fn serve<P: Protocol>(
    transport: Arc<Transport>,
    socket: ServedSocket<P>,
    shutdown: CancellationToken,
) {
    let ServedSocket { listener, protocol, tls } = socket;
    let spoken = Arc::new(Spoken { protocol, tls });
    let connections = TaskTracker::new();
    let mut failing = false;
    while let Some(accepted) = shutdown.run_until_cancelled(accept(&transport, &listener, &mut failing)).await
    {
        let Some((stream, peer)) = accepted else { continue };
        let span = tracing::debug_span!("connection", %peer);
        match transport.limit.try_acquire(peer.ip()) {
            Ok(permit) => {
                let (transport, spoken, shutdown) = (transport.clone(), spoken.clone(), shutdown.clone());
                let task = async move {
                    let _open = transport.metrics.opened();
                    connection::drive(&transport, &spoken, stream, peer.ip(), &shutdown).await;
                    drop(permit);
                };
                connections.spawn(task.instrument(span));
            }
            Err(reason) => {
                transport.metrics.refused(reason);
                if let Some(task) = refuse(&transport, &spoken, stream, shutdown.clone()) {
                    connections.spawn(task.instrument(span));
                }
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// The next connection, or `None` if it could not be accepted. `failing` tells whether the last attempt failed.
async fn accept(
    transport: &Transport,
    listener: &TcpListener,
    failing: &mut bool,
) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => {
            if std::mem::take(failing) {
                tracing::info!("connections are accepted again");
            }
            Some(accepted)
        }
        Err(error) if is_peer_error(&error) => None,
        Err(error) => {
            // Logged when it begins, not ten times a second.
            if !std::mem::replace(failing, true) {
                tracing::warn!(%error, "connections cannot be accepted; retrying until they can");
            }
            transport.metrics.refused(RefusalReason::System);
            transport.clock.sleep(RETRY_PAUSE).await;
            None
        }
    }
}

/// Whether only this connection failed, because the peer closed it before it was accepted.
fn is_peer_error(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}
