//! The endpoint that callbacks of a bench go to, on loopback in this process, and a bare client to compare them with. Owns
//! what is recorded of a call.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::{
    Request, Response, StatusCode, body::Incoming, client::conn::http1::handshake, server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use crate::{
    failure::Failure,
    ledger::Delivery,
    now::now_us,
    times::Times,
    work::{Bench, Jobs},
};

/// How an endpoint answers, always with 204.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answering {
    AtOnce,
    After(Duration),
    Never,
}

/// The jobs of a step that are called, and their calls.
#[derive(Debug)]
pub(crate) struct Called {
    pub jobs: Arc<Jobs>,
    /// From the due moment to the receipt of the whole request.
    pub late: Times,
    bench: Arc<Bench>,
    received: AtomicUsize,
    first_us: AtomicI64,
    last_us: AtomicI64,
}

impl Called {
    pub fn new(bench: &Arc<Bench>, jobs: Arc<Jobs>) -> Arc<Self> {
        Arc::new(Self {
            jobs,
            late: Times::new(),
            bench: bench.clone(),
            received: AtomicUsize::new(0),
            first_us: AtomicI64::new(i64::MAX),
            last_us: AtomicI64::new(0),
        })
    }

    /// Whether every job was called.
    pub fn is_complete(&self) -> bool {
        self.received.load(Relaxed) >= self.jobs.count
    }

    /// When the first call and the last one were received.
    pub fn first_last_us(&self) -> (i64, i64) {
        (self.first_us.load(Relaxed), self.last_us.load(Relaxed))
    }

    /// A call for the job with this id was received.
    fn record(&self, id: &str, at_us: i64) {
        let Some(number) = self.jobs.number_of(id) else { return };
        if let Some(Delivery::First { late_us }) = self.jobs.ledger.deliver(number, at_us, &self.bench.tally)
        {
            self.late.record(late_us);
            self.received.fetch_add(1, Relaxed);
            self.first_us.fetch_min(at_us, Relaxed);
            self.last_us.fetch_max(at_us, Relaxed);
            self.bench.progress.step(1);
        }
    }
}

/// An endpoint. Dropping it closes its connections.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    answering: Answering,
    called: Option<Arc<Called>>,
    /// Calls in progress, and the most there were.
    in_progress: AtomicUsize,
    most: AtomicUsize,
}

impl Receiver {
    /// Starts an endpoint, which records its calls in `called`.
    pub async fn start(answering: Answering, called: Option<Arc<Called>>) -> Result<Self, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (in_progress, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let shared = Arc::new(Shared { answering, called, in_progress, most });
        let serving = tokio::spawn(serve(listener, shared.clone()));
        Ok(Self { address, shared, serving })
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Calls in progress.
    pub fn in_progress(&self) -> usize {
        self.shared.in_progress.load(Relaxed)
    }

    /// The most calls that were in progress at a time.
    pub fn most_in_progress(&self) -> usize {
        self.shared.most.load(Relaxed)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // Ends with this task.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(async move {
            let _ = stream.set_nodelay(true);
            let service = service_fn(|request| answer(&shared, request));
            // The server may close a connection whenever it wants.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let _in_progress = InProgress::begin(shared);
    let (head, body) = request.into_parts();
    body.collect().await?;
    if let Some(called) = &shared.called
        && let Some(id) = head.headers.get("linger-job").and_then(|id| id.to_str().ok())
    {
        called.record(id, now_us());
    }
    match shared.answering {
        Answering::AtOnce => {}
        Answering::After(pause) => sleep(pause).await,
        Answering::Never => std::future::pending().await,
    }
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// A call in progress, also if its connection is closed before the answer.
struct InProgress<'a>(&'a Shared);

impl<'a> InProgress<'a> {
    fn begin(shared: &'a Shared) -> Self {
        let others = shared.in_progress.fetch_add(1, Relaxed);
        shared.most.fetch_max(others + 1, Relaxed);
        Self(shared)
    }
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Relaxed);
    }
}

/// What the requests of the bare client cost it.
#[derive(Debug)]
pub(crate) struct BareCost {
    pub elapsed_us: i64,
    /// Processor time of all requests; none where Linux does not show it.
    pub cpu_us: Option<f64>,
}

/// Sends `count` POST requests with `body` to `address` over `connections` connections, in a thread that does nothing else.
pub(crate) async fn send_bare(
    address: SocketAddr,
    count: usize,
    connections: usize,
    body: String,
) -> Result<BareCost, Failure> {
    let sending = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (before_us, begun_us) = (thread_cpu_us(), now_us());
        runtime.block_on(send_all(address, count, connections, body.into()))?;
        let elapsed_us = now_us() - begun_us;
        let cpu_us = thread_cpu_us().zip(before_us).map(|(after_us, before_us)| after_us - before_us);
        Ok(BareCost { elapsed_us, cpu_us })
    });
    sending.await.map_err(|error| Failure::Unfit(error.to_string()))?
}

async fn send_all(address: SocketAddr, count: usize, connections: usize, body: Bytes) -> Result<(), Failure> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (next, body) = (next.clone(), body.clone());
        tasks.spawn(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let unfit = |error: hyper::Error| Failure::Unfit(format!("bare client: {error}"));
            let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(unfit)?;
            let driving = tokio::spawn(connection);
            while next.fetch_add(1, Relaxed) < count {
                let request = Request::post("/").header("host", address.to_string());
                let request = request.header("content-type", "application/json");
                let request = request.body(Full::new(body.clone()));
                let request = request.map_err(|error| Failure::Unfit(error.to_string()))?;
                let response = sender.send_request(request).await.map_err(unfit)?;
                response.into_body().collect().await.map_err(unfit)?;
                sender.ready().await.map_err(unfit)?;
            }
            driving.abort();
            Ok::<_, Failure>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| Failure::Unfit(error.to_string()))??;
    }
    Ok(())
}

/// Processor time of this thread so far.
fn thread_cpu_us() -> Option<f64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds / 1_000.0)
}
