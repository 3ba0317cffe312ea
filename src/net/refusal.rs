//! The response to a connection beyond the limit: a 503 and the end of the connection, so that a client neither hangs
//! nor has to guess. Parses no request.

use std::{fmt::Write, sync::Arc};

use axum::{body::Bytes, http::Response};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

use super::{connection::drain_until_closed, transport::Transport};

/// Most connections that are answered with a refusal at a time; further ones are closed without a response. Each is an
/// open file beyond `max_connections` (`server/open_files.rs` leaves room for them).
const MAX_CONCURRENT: usize = 128;

/// Sends refusals.
#[derive(Clone)]
pub(super) struct Refusals {
    transport: Arc<Transport>,
    slots: Arc<Semaphore>,
}

impl Refusals {
    pub fn new(transport: Arc<Transport>) -> Self {
        Self { transport, slots: Arc::new(Semaphore::new(MAX_CONCURRENT)) }
    }

    /// A task that refuses `stream`. `None` if too many refusals are being sent already, and with TLS, where a response
    /// costs a handshake.
    pub fn refuse(
        &self,
        mut stream: TcpStream,
        shutdown: CancellationToken,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        if self.transport.tls.is_some() {
            return None;
        }
        let (transport, slot) = (self.transport.clone(), self.slots.clone().try_acquire_owned().ok()?);
        Some(async move {
            let refused = async {
                // A response before the request would confuse clients that keep connections for later requests.
                if stream.read(&mut [0; 4_096]).await.is_ok_and(|read| read > 0)
                    && stream.write_all(&to_bytes(&(transport.refusal_response)())).await.is_ok()
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
}

/// The response as HTTP/1.1 sends it.
fn to_bytes(response: &Response<Bytes>) -> Vec<u8> {
    let body = response.body();
    let mut head = format!("HTTP/1.1 {}\r\ncontent-length: {}\r\n", response.status(), body.len());
    for (name, value) in response.headers() {
        let _ = write!(head, "{name}: {}\r\n", value.to_str().unwrap_or_default());
    }
    [head.as_bytes(), b"\r\n", body].concat()
}
