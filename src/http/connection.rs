//! One connection, from its first byte to its last: hyper with every wait bounded.
//!
//! A silent or dripping client is cut, a client that reads too slowly is cut, and a client that was
//! refused still gets its answer. Long polls are none of these and have no bound here.

use std::time::Duration;

use axum::{Router, extract::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{
    App,
    pace::{Paced, Turns},
};
use crate::metrics::Cut;

/// hyper's one timer would count the reading of an answer as idle time, so `pace` has the real ones. Set
/// beyond all of them it still serves: only with it does hyper ask for the next request after an answer.
const BEYOND: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Serves the requests of one connection, one after the other.
pub(super) async fn drive(app: &App, stream: TcpStream, router: Router, shutdown: CancellationToken) {
    // Answers are small and written at once; waiting to fill a packet only adds delay.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "the connection is gone already");
        return;
    }
    let (stream, taken) = requests(app, stream, router, &shutdown).await;
    if !taken {
        // The system would keep trying to send what the client does not take, and hold it meanwhile.
        let _ = stream.set_zero_linger();
        return;
    }
    tokio::select! {
        () = linger(stream) => {}
        () = app.clock.sleep(app.options.linger) => {}
        () = shutdown.cancelled() => {}
    }
}

/// Speaks HTTP/1 until either side ends it, or after the request at work on `shutdown`. Returns the stream,
/// and whether the client took its answers.
async fn requests<S>(app: &App, stream: S, router: Router, shutdown: &CancellationToken) -> (S, bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let turns = Turns::default();
    let stream = Paced::new(stream, app, turns.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (work, router) = (turns.work(), router.clone());
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
