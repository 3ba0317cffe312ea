//! The answer to a connection beyond the limit: a refusal of the protocol, such as a 503, and the end of the connection, so
//! that a client neither hangs nor has to guess. Parses no request.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

use super::{
    connection::{Spoken, drain_until_closed},
    protocol::Protocol,
    transport::Transport,
};

/// A task that refuses `stream`. `None` if too many refusals are being sent already, and with TLS, where an answer costs a
/// handshake.
pub(super) fn refuse(
    transport: &Arc<Transport>,
    spoken: &Arc<Spoken<impl Protocol>>,
    mut stream: TcpStream,
    shutdown: CancellationToken,
) -> Option<impl Future<Output = ()> + Send + 'static> {
    if spoken.tls.is_some() {
        return None;
    }
    let slot = transport.refusal_slots.clone().try_acquire_owned().ok()?;
    let (transport, spoken) = (transport.clone(), spoken.clone());
    Some(async move {
        let refused = async {
            // A response before the request would confuse clients that keep connections for later requests.
            if stream.read(&mut [0; 4_096]).await.is_ok_and(|read| read > 0)
                && stream.write_all(&spoken.protocol.refusal()).await.is_ok()
            {
                drain_until_closed(stream).await;
            }
        };
        tokio::select! {
            () = refused => {}
            () = transport.clock.sleep(transport.options.linger) => {}
            () = shutdown.cancelled() => {}
        }
        drop(slot);
    })
}
