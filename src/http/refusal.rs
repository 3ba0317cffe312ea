//! The answer to a connection for which there is no place: 503 and close, so that a client neither hangs
//! nor has to guess. Reads no request.

use std::{fmt::Write, sync::Arc};

use axum::body::to_bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

use super::{
    App,
    connection::linger,
    errors::Problem,
    middleware::request_span::{RequestId, protect},
};

/// Most connections that are being told so at a time; any more are closed without a word. Each is an open
/// file beyond the places (`server/open_files.rs` leaves room for them).
const AT_A_TIME: usize = 128;

/// Tells connections that there is no place.
#[derive(Clone)]
pub(super) struct Refusals {
    app: App,
    room: Arc<Semaphore>,
}

impl Refusals {
    pub fn new(app: &App) -> Self {
        Self { app: app.clone(), room: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// What it takes to tell `stream`, in a task of its own; none when too many are being told already, and
    /// none with TLS, where each word costs a handshake.
    pub fn of(
        &self,
        mut stream: TcpStream,
        shutdown: CancellationToken,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        if self.app.tls.is_some() {
            return None;
        }
        let (app, place) = (self.app.clone(), self.room.clone().try_acquire_owned().ok()?);
        Some(async move {
            let told = async {
                // An answer before the request would confuse a client that keeps connections for later.
                if stream.read(&mut [0; 4_096]).await.is_ok_and(|read| read > 0)
                    && stream.write_all(&answer().await).await.is_ok()
                {
                    linger(stream).await;
                }
            };
            tokio::select! {
                () = told => {}
                () = app.clock.sleep(app.options.linger) => {}
                () = shutdown.cancelled() => {}
            }
            drop(place);
        })
    }
}

/// The answer as it stands on the wire.
async fn answer() -> Vec<u8> {
    let response = Problem::no_place().render(RequestId::new().as_str());
    let (mut head, body) = response.into_parts();
    protect(&mut head.headers);
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let mut text = format!("HTTP/1.1 {}\r\ncontent-length: {}\r\n", head.status, body.len());
    for (name, value) in &head.headers {
        let _ = write!(text, "{name}: {}\r\n", value.to_str().unwrap_or_default());
    }
    [text.as_bytes(), b"\r\n", &body].concat()
}
