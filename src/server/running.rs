//! A running server: starts its parts, and stops them in order.

use std::{
    io::{self, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use super::{
    clock_watch, file_permissions,
    listeners::{self, BoundSocket, Listeners},
    outcome::{RunOutcome, StartError},
    reload::Reload,
    supervisor,
    tasks::{BackgroundTasks, Stage},
    traces, wiring,
};
use crate::{
    clock::{Clock, PauseDetector, SystemClock},
    config::Config,
    http::{self, App, Edge},
    messages::printable,
    metrics::{ClockMetrics, Metrics},
    queue::{Queue, StoreEvents},
};

/// What remains of the grace of a shutdown when unanswered callbacks are given up.
const SETTLING_TIME: Duration = Duration::from_secs(2);

/// The parts of a server that serves.
pub(super) struct Running {
    tasks: BackgroundTasks,
    queue: Arc<Queue>,
    address: SocketAddr,
    scheme: &'static str,
    engine: String,
}

/// The sockets for the clients of other servers, where their dialects are on.
struct DialectSockets {
    lmstfy: Option<BoundSocket>,
    ouqiang: Option<BoundSocket>,
}

impl DialectSockets {
    fn bind(config: &Config) -> Result<Self, StartError> {
        let bind = |listen: Option<SocketAddr>| listen.map(BoundSocket::bind).transpose();
        Ok(Self { lmstfy: bind(config.lmstfy.listen)?, ouqiang: bind(config.ouqiang.listen)? })
    }

    fn serve(
        self,
        config: &Config,
        tasks: &BackgroundTasks,
        listeners: &Listeners,
        (queue, edge): (&Arc<Queue>, &Edge),
    ) -> Result<(), StartError> {
        if let Some(socket) = self.lmstfy {
            let listener = socket.listen()?;
            tracing::info!(address = %listener.local_addr()?, "listening for clients of lmstfy");
            let protocol = http::lmstfy::protocol(queue, edge, &config.lmstfy);
            listeners.serve(tasks, "lmstfy server", listener, protocol);
        }
        if let Some(socket) = self.ouqiang {
            let listener = socket.listen()?;
            tracing::info!(address = %listener.local_addr()?, "listening for clients of ouqiang/delay-queue");
            let protocol = http::ouqiang::protocol(queue, edge, &config.ouqiang);
            listeners.serve(tasks, "ouqiang server", listener, protocol);
        }
        Ok(())
    }
}

impl Running {
    pub async fn start(
        config: &Config,
        system_clock: Arc<SystemClock>,
        metrics: Metrics,
    ) -> Result<Self, StartError> {
        // From the start on, which may wait for Redis, and before the files are read: one that changes later is read again.
        let hangups = Reload::signals()?;
        let clock: Arc<dyn Clock> = system_clock.clone();
        let reload = read_files(config).await?;
        // Bound before the store is opened, so that the store is not opened if the port is in use. It listens only
        // afterwards, so that no connection is accepted before it can be served.
        let socket = BoundSocket::bind(config.server.listen)?;
        let dialects = DialectSockets::bind(config)?;
        let (events, engine) = (Arc::new(StoreEvents::default()), wiring::engine(config));
        let redis_tls = reload.redis_tls.clone();
        let store = wiring::open_store(config, clock.clone(), events.clone(), &metrics, redis_tls).await;
        let store = store.map_err(StartError::Store)?;
        file_permissions::warn(config);
        let limits = config.queue.clone();
        let queue = Queue::new(store, &events, clock.clone(), limits, metrics.queue.clone());
        let listener = socket.listen()?;
        let address = listener.local_addr()?;
        let (clock_metrics, certificate_metrics) = (metrics.clock.clone(), metrics.certificates.clone());
        reload.publish(&certificate_metrics);
        let listeners =
            Listeners::new(listeners::options(config), clock.clone(), &metrics, reload.tls.clone());
        let callbacks = wiring::callbacks(config, &queue, &clock, &metrics)
            .map_err(|fault| StartError::Files(vec![fault]))?;
        let exporter = traces::exporter(config, &queue, &clock, &metrics)?;
        let edge = Edge::new(clock, metrics, config.server.http.clone())
            .with_auth(reload.authenticator.clone())
            .with_pause_detector(PauseDetector::start()?);
        let app = App::new(queue.clone(), edge.clone()).with_ui(config.ui.clone());
        let tasks = BackgroundTasks::default();
        let timer_queue = queue.clone();
        tasks.spawn(Stage::Supporting, "timer", |stop| async move { timer_queue.run_timer(stop).await });
        let schedule_queue = queue.clone();
        tasks.spawn(Stage::Serving, "schedules", |stop| async move {
            schedule_queue.run_schedules(http::read_template, stop).await;
        });
        // Until nothing is called or answered any more, which makes spans.
        if let Some(exporter) = exporter {
            tasks.spawn(Stage::Supporting, "traces", |stop| exporter.run(stop));
        }
        spawn_watches(&tasks, queue.clone(), system_clock, clock_metrics);
        // Calls in progress have until shortly before the end of the grace to be answered.
        let grace = config.server.shutdown_grace.saturating_sub(SETTLING_TIME);
        if let Some(callbacks) = callbacks {
            tasks.spawn(Stage::Serving, "callbacks", move |stop| async move {
                callbacks.run(stop, grace).await;
            });
        }
        tasks.spawn(Stage::Serving, "reloading", |stop| reload.run(hangups, stop, certificate_metrics));
        listeners.serve(&tasks, "HTTP server", listener, http::protocol(&app));
        dialects.serve(config, &tasks, &listeners, (&queue, &edge))?;
        Ok(Self { tasks, queue, address, scheme: listeners.scheme(), engine })
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
        self.tasks.failed().await;
    }

    /// Reports the server as not ready. It still serves.
    pub fn announce_shutdown(&self) {
        self.queue.announce_shutdown();
    }

    /// Stops the parts in order. Waiting polls are answered first, because they would keep their connections open. The
    /// store closes last, because all other parts use it.
    pub async fn stop(self) -> RunOutcome {
        self.queue.drain();
        self.tasks.stop(Stage::Serving).await;
        self.tasks.stop(Stage::Supporting).await;
        if let Err(error) = self.queue.close().await {
            tracing::error!(%error, "the store did not close cleanly");
            return RunOutcome::Failed;
        }
        if self.tasks.failure().is_some() { RunOutcome::Failed } else { RunOutcome::Clean }
    }
}

/// Starts the tasks that watch the store, the machine's clock and the process itself.
fn spawn_watches(
    tasks: &BackgroundTasks,
    queue: Arc<Queue>,
    clock: Arc<SystemClock>,
    clock_metrics: ClockMetrics,
) {
    tasks.spawn(Stage::Supporting, "store watch", |stop| async move { queue.watch_store(stop).await });
    let watched_clock = clock.clone();
    tasks.spawn(Stage::Supporting, "clock watch", |stop| {
        clock_watch::watch(watched_clock, clock_metrics, stop)
    });
    tasks.spawn(Stage::Supporting, "watchdog", |stop| async move {
        supervisor::feed_watchdog(&clock, stop).await;
    });
}

/// Reads the files on a thread of its own: a file system may hang, and signals must still work.
async fn read_files(config: &Config) -> Result<Reload, StartError> {
    let config = config.clone();
    let reload = tokio::task::spawn_blocking(move || Reload::new(&config)).await;
    reload.expect("reading files does not panic").map_err(StartError::Files)
}
