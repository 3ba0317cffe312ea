//! HTTP/1 on a connection: hyper, with the timeouts of `io_timeouts`. Knows no route: a service answers the requests.

use std::{
    convert::Infallible,
    error::Error,
    fmt::Write,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body::Body;
use hyper::{
    Request, Response,
    body::Incoming,
    rt::{Sleep, Timer},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

use super::{client::ConnectedClient, io_timeouts::TimedStream, protocol::Protocol, transport::Transport};
use crate::metrics::CloseReason;

/// hyper's timer, which never fires, whatever the timeout: hyper would count the reading of a response as idle time, so
/// `io_timeouts` enforces the real ones. hyper must still have a timeout, or it does not read the next request after a
/// response.
#[derive(Debug, Clone, Copy)]
struct EndlessTimer;

/// A wait of an [`EndlessTimer`].
struct EndlessSleep;

impl Timer for EndlessTimer {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(EndlessSleep)
    }

    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(EndlessSleep)
    }
}

impl Sleep for EndlessSleep {}

impl Future for EndlessSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// Answers requests: every service of tower that cannot fail, such as a router.
pub trait HttpService: Clone + Send + Sync + 'static {
    /// The body of a response.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// Answers a request, which has its [`ConnectedClient`] as an extension.
    fn answer(
        self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Self::Body>, Infallible>> + Send + 'static;
}

impl<S, B> HttpService for S
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    type Body = B;

    fn answer(
        self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<B>, Infallible>> + Send + 'static {
        self.oneshot(request)
    }
}

/// HTTP/1 over a service.
#[derive(Debug, Clone)]
pub struct Http1<S> {
    service: S,
    refusal: fn() -> Response<Bytes>,
}

impl<S: HttpService> Http1<S> {
    /// A connection beyond the limit receives `refusal`.
    pub fn new(service: S, refusal: fn() -> Response<Bytes>) -> Self {
        Self { service, refusal }
    }
}

impl<H: HttpService> Protocol for Http1<H> {
    /// A client may close its sending side behind its request. If that is known before the request is carried out, the
    /// request is refused ([`ConnectedClient::has_left`]): a client that gave up and sent its request elsewhere looks the
    /// same. A request that has begun is answered, unless it is to [end](ConnectedClient::cancel_on_close) with its client.
    async fn serve<S>(
        &self,
        transport: &Transport,
        stream: TimedStream<S>,
        client: ConnectedClient,
        shutdown: &CancellationToken,
    ) -> TimedStream<S>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = self.service.clone();
        let handle = service_fn(move |mut request: Request<Incoming>| {
            let in_flight = client.phase.begin();
            request.extensions_mut().insert(client.clone());
            let answered = service.clone().answer(request);
            async move {
                let response = answered.await;
                drop(in_flight);
                response
            }
        });
        let mut connection = http1::Builder::new()
            .half_close(true)
            .timer(EndlessTimer)
            .header_read_timeout(Duration::ZERO)
            .max_header_size(transport.options.max_header_bytes)
            // At most 100 headers: hyper's own limit, since any that is set costs each request a copy of 3 kB.
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
        connection.into_parts().io.into_inner()
    }

    fn refusal(&self) -> Vec<u8> {
        to_bytes(&(self.refusal)())
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
