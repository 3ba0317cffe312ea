//! What is spoken on a connection. A protocol is a file of this part.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::{client::ConnectedClient, io_timeouts::TimedStream, transport::Transport};

/// A protocol.
pub trait Protocol: Send + Sync + 'static {
    /// Serves one connection until either side ends it; on `shutdown`, once what is in flight is answered. Returns the stream.
    fn serve<S>(
        &self,
        transport: &Transport,
        stream: TimedStream<S>,
        client: ConnectedClient,
        shutdown: &CancellationToken,
    ) -> impl Future<Output = TimedStream<S>> + Send
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// What a client beyond the limit of connections is sent once its first bytes have come.
    fn refusal(&self) -> Vec<u8>;
}
