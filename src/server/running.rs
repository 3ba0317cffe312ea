//! A running server: starts its parts, and stops them in order.

use std::{
    io::{self, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpSocket},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    clock_watch, file_permissions, open_files,
    outcome::{RunOutcome, StartError},
    reload::Reload,
    shutdown::Shutdown,
    supervisor, traces, wiring,
};
use crate::{
    clock::{Clock, PauseDetector, SystemClock},
    config::Config,
    http::{self, App},
    messages::printable,
    metrics::Metrics,
    net::{self, ListenerOptions, Transport},
    push::Callbacks,
    queue::{Queue, StoreEvents},
};

/// Connections that may wait in the kernel to be accepted, for example when thousands of workers reconnect after a
/// restart. The system may allow fewer (net.core.somaxconn).
const BACKLOG: u32 = 4_096;

/// What remains of the grace of a shutdown when unanswered callbacks are given up.
const SETTLING_TIME: Duration = Duration::from_secs(2);

/// The parts of a server that serves.
pub(super) struct Running {
    shutdown: Shutdown,
    queue: Arc<Queue>,
    /// Cancelled to stop accepting connections and let requests in flight finish.
    closing: CancellationToken,
    serving: JoinHandle<()>,
    /// Cancelled to begin no more callbacks. Those in progress have the time until shortly before the end of the grace.
    stop_calls: CancellationToken,
    calling: JoinHandle<()>,
    /// Cancelled once no part needs the timer.
    stop_timer: CancellationToken,
    address: SocketAddr,
    scheme: &'static str,
    engine: String,
}

impl Running {
    pub async fn start(
        config: &Config,
        system_clock: Arc<SystemClock>,
        metrics: Metrics,
    ) -> Result<Self, StartError> {
        let clock: Arc<dyn Clock> = system_clock.clone();
        let reload = read_files(config).await?;
        // Bound before the store is opened, so that the store is not opened if the port is in use. It listens only
        // afterwards, so that no connection is accepted before it can be served.
        let socket = bind(config.server.listen)?;
        let (events, engine) = (Arc::new(StoreEvents::default()), wiring::engine(config));
        let redis_tls = reload.redis_tls.clone();
        let store = wiring::open_store(config, clock.clone(), events.clone(), &metrics, redis_tls).await;
        let store = store.map_err(StartError::Store)?;
        file_permissions::warn(config);
        let limits = config.queue.clone();
        let queue = Queue::new(store, &events, clock.clone(), limits, metrics.queue.clone());
        let listener = listen(socket, config.server.listen)?;
        let address = listener.local_addr()?;
        let (clock_metrics, certificate_metrics) = (metrics.clock.clone(), metrics.certificates.clone());
        reload.publish(&certificate_metrics);
        let options = listener_options(config);
        let transport = Transport::new(options, clock.clone(), &metrics, http::too_many_connections)
            .with_tls(reload.tls.clone());
        let callbacks = wiring::callbacks(config, &queue, &clock, &metrics)
            .map_err(|fault| StartError::Files(vec![fault]))?;
        let exporter = traces::exporter(config, &queue, &clock, &metrics)?;
        let mut app = App::new(queue.clone(), clock, metrics, config.server.http.clone())
            .with_auth(reload.authenticator.clone())
            .with_ui(config.ui.clone())
            .with_pause_detector(PauseDetector::start()?);
        if let Some(callbacks) = &callbacks {
            app = app.with_callbacks(callbacks.clone());
        }
        let scheme = if reload.tls.is_some() { "https" } else { "http" };
        let shutdown = Shutdown::new();
        let [closing, stop_calls, stop_timer] = std::array::from_fn(|_| CancellationToken::new());
        spawn_timer(&shutdown, &queue, &stop_timer);
        let grace = config.server.shutdown_grace.saturating_sub(SETTLING_TIME);
        let calling = spawn_callbacks(&shutdown, callbacks, &stop_calls, grace);
        // Until nothing is called or answered any more.
        shutdown.spawn("traces", stop_timer.clone(), traces::export(exporter, stop_timer.clone()));
        let watch = clock_watch::watch(system_clock.clone(), clock_metrics, stop_timer.clone());
        shutdown.spawn("clock watch", stop_timer.clone(), watch);
        let stop = stop_timer.clone();
        shutdown.spawn("watchdog", stop_timer.clone(), async move {
            supervisor::feed_watchdog(&system_clock, stop).await;
        });
        let (hangups, stop) = (Reload::signals()?, closing.clone());
        shutdown.spawn("reloading", closing.clone(), async move {
            reload.run(hangups, stop, certificate_metrics).await;
        });
        let stop = closing.clone();
        let serving = net::serve(transport, listener, http::router(&app), stop);
        let serving = shutdown.spawn("HTTP server", closing.clone(), serving);
        Ok(Self {
            shutdown,
            queue,
            closing,
            serving,
            stop_calls,
            calling,
            stop_timer,
            address,
            scheme,
            engine,
        })
    }

    /// Notifies systemd, and prints the start line on stdout: the address, the engine and its durability.
    pub fn announce(&self) {
        let (scheme, address, engine, info) = (self.scheme, self.address, &self.engine, self.queue.info());
        let (version, durability) = (env!("CARGO_PKG_VERSION"), &info.durability);
        tracing::info!(%address, engine, durability, engine_version = info.version, version, "listening");
        let status = format!("listening on {scheme}://{address}, engine {engine}, durability {durability}");
        // It contains text from Redis and the name of the directory.
        let status = printable::escape_line(&status).into_owned();
        supervisor::notify_ready(&status);
        let line = format!("linger {version} {status}\n");
        // In a task that nothing waits for: stdout may be a pipe that is full and not read.
        tokio::task::spawn_blocking(move || {
            let mut stdout = io::stdout().lock();
            if let Err(error) = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()) {
                tracing::warn!(%error, "cannot write to stdout");
            }
        });
    }

    /// Waits until a part has failed.
    pub async fn failed(&self) {
        self.shutdown.failed().await;
    }

    /// Reports the server as not ready. It still serves.
    pub fn announce_shutdown(&self) {
        self.queue.announce_shutdown();
    }

    /// Stops the parts in order. Waiting polls are answered first, because they would keep their connections open. The
    /// store closes last, because all other parts use it.
    pub async fn stop(self) -> RunOutcome {
        self.queue.drain();
        self.closing.cancel();
        self.stop_calls.cancel();
        // `shutdown` has recorded a panic of them.
        let _ = self.serving.await;
        let _ = self.calling.await;
        self.stop_timer.cancel();
        self.shutdown.wait().await;
        if let Err(error) = self.queue.close().await {
            tracing::error!(%error, "the store did not close cleanly");
            return RunOutcome::Failed;
        }
        if self.shutdown.failure().is_some() { RunOutcome::Failed } else { RunOutcome::Clean }
    }
}

/// Runs what the queue does by itself.
fn spawn_timer(shutdown: &Shutdown, queue: &Arc<Queue>, stop_timer: &CancellationToken) {
    let (timer_queue, stop) = (queue.clone(), stop_timer.clone());
    shutdown.spawn("timer", stop_timer.clone(), async move { timer_queue.run_timer(stop).await });
    let (watched_queue, stop) = (queue.clone(), stop_timer.clone());
    shutdown.spawn("store watch", stop_timer.clone(), async move {
        watched_queue.watch_store(stop).await;
    });
}

/// Makes calls, if callbacks are enabled. Those in progress at `stop_calls` have `grace` to be answered.
fn spawn_callbacks(
    shutdown: &Shutdown,
    callbacks: Option<Callbacks>,
    stop_calls: &CancellationToken,
    grace: Duration,
) -> JoinHandle<()> {
    let stop = stop_calls.clone();
    shutdown.spawn("callbacks", stop_calls.clone(), async move {
        match callbacks {
            Some(callbacks) => callbacks.run(stop, grace).await,
            None => stop.cancelled().await,
        }
    })
}

/// Reads the files on a thread of its own: a file system may hang, and signals must still work.
async fn read_files(config: &Config) -> Result<Reload, StartError> {
    let config = config.clone();
    let reload = tokio::task::spawn_blocking(move || Reload::new(&config)).await;
    reload.expect("reading files does not panic").map_err(StartError::Files)
}

/// The options of the listener, with as many connections as the limit of open files permits.
fn listener_options(config: &Config) -> ListenerOptions {
    let mut options = config.server.listener.clone();
    let was_configured = options.max_connections != ListenerOptions::default().max_connections;
    let room = open_files::make_room_for(options.max_connections, was_configured);
    options.lower_max_connections(room);
    options
}

fn bind(address: SocketAddr) -> Result<TcpSocket, StartError> {
    let bound = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart must not wait for the connections of the previous process.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bound().map_err(|source| StartError::Listen { address, source })
}

fn listen(socket: TcpSocket, address: SocketAddr) -> Result<TcpListener, StartError> {
    socket.listen(BACKLOG).map_err(|source| StartError::Listen { address, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn binding_detects_a_port_in_use() {
        let loopback = "127.0.0.1:0".parse().expect("is an address");
        let first = listen(bind(loopback).expect("binds"), loopback).expect("listens");
        let in_use = first.local_addr().expect("has an address");
        assert!(matches!(bind(in_use), Err(StartError::Listen { .. })));
    }
}
