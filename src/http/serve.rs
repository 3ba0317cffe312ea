//! The accept loop: one task per connection, all tracked, as many as there are places.
//!
//! Not `axum::serve`, which has no timeout for a request's head: a silent connection stays open for ever.

use std::{io, time::Duration};

use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use super::{App, connection, refusal::Refusals, seats::Seats};
use crate::metrics::Refusal;

/// Pause after the system refused a connection for want of something (file descriptors, memory): trying
/// again at once would only burn the processor. Clients wait in the listener's backlog meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts until `shutdown`, then waits for the connections to end.
pub(super) async fn serve(app: &App, listener: TcpListener, shutdown: CancellationToken) {
    let connections = TaskTracker::new();
    let (seats, refusals, router) = (Seats::new(&app.options), Refusals::new(app), app.router());
    let mut failing = false;
    while let Some(accepted) = shutdown.run_until_cancelled(next(app, &listener, &mut failing)).await {
        let Some((stream, peer)) = accepted else { continue };
        let span = tracing::debug_span!("connection", %peer);
        match seats.take(peer.ip()) {
            Ok(seat) => {
                let (app, router, shutdown) = (app.clone(), router.clone(), shutdown.clone());
                let task = async move {
                    let _present = app.metrics.connections.opened();
                    connection::drive(&app, stream, peer.ip(), router, shutdown).await;
                    drop(seat);
                };
                connections.spawn(task.instrument(span));
            }
            Err(why) => {
                app.metrics.connections.refused(why);
                if let Some(task) = refusals.of(stream, shutdown.clone()) {
                    connections.spawn(task.instrument(span));
                }
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// The next connection; none where it could not be accepted.
async fn next(
    app: &App,
    listener: &TcpListener,
    failing: &mut bool,
) -> Option<(TcpStream, std::net::SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => {
            if std::mem::take(failing) {
                tracing::info!("connections can be accepted again");
            }
            Some(accepted)
        }
        Err(error) if is_of_the_peer(&error) => None,
        Err(error) => {
            // Once, not ten times a second for as long as it lasts.
            if !std::mem::replace(failing, true) {
                tracing::warn!(%error, "connections cannot be accepted; trying again until they can");
            }
            app.metrics.connections.refused(Refusal::System);
            app.clock.sleep(PAUSE).await;
            None
        }
    }
}

/// Whether only this connection failed: the peer went away before it was accepted.
fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}
