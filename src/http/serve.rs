//! The accept loop: one task per connection, all tracked, as many as the cap allows.
//!
//! Not `axum::serve`, which has no timeout for a request's head: a silent connection stays open for ever.

use std::{sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use super::{App, connection};

/// Pause after the system refused a connection for want of something (file descriptors, memory): trying
/// again at once would only burn the processor.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts until `shutdown`, then waits for the connections to end.
pub(super) async fn serve(app: &App, listener: TcpListener, shutdown: CancellationToken) {
    let connections = TaskTracker::new();
    let room = Arc::new(Semaphore::new(app.options.max_connections.min(Semaphore::MAX_PERMITS)));
    let router = app.router();
    loop {
        // A place first: a connection that has none waits in the listener's backlog.
        let accepted = async {
            let place = room.clone().acquire_owned().await.expect("the semaphore is never closed");
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = shutdown.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (app, router, shutdown) = (app.clone(), router.clone(), shutdown.clone());
                let task = async move {
                    let _present = app.metrics.http.connection();
                    connection::drive(&app, stream, router, shutdown).await;
                    drop(place);
                };
                connections.spawn(task.instrument(tracing::debug_span!("connection", %peer)));
            }
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                app.clock.sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Whether only this connection failed: the peer went away before it was accepted.
fn is_of_the_peer(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}
