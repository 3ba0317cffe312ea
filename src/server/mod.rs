//! The composition root: the only place that names an engine and sees the whole configuration. It
//! puts the parts together, waits for the end, and takes them apart in order.

mod clock_watch;
mod file_permissions;
mod maintenance;
mod open_files;
mod reload;
mod wiring;

use std::{
    io::{self, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpSocket},
    runtime,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::{Clock, SystemClock},
    config::{Config, FileFault},
    http::{self, App},
    metrics::Metrics,
    printable,
    queue::{Queue, StoreEvents},
    shutdown::Shutdown,
    signals::{Asked, Signals},
    telemetry::{self, Logging},
};
pub use maintenance::{Refusal, Report, backup, backup_to, restore, verify, verify_backup};
use reload::Reload;

/// Connections that wait in the kernel to be accepted, as when thousands of workers come back after a restart;
/// the system may allow fewer (net.core.somaxconn).
const BACKLOG: u32 = 4_096;

/// How long after the first signal another one counts as the same: GNU timeout sends two at once.
const SAME_SIGNAL_US: i64 = 1_000_000;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The threads or the signals of the process could not be set up.
    #[error("cannot start: {0}")]
    Process(#[from] io::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {}", why_not(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Files that the server needs cannot be used: the settings that name them, and why.
    #[error("cannot start: {}", listed(.0))]
    Files(Vec<FileFault>),
    /// The engine did not open; where and why.
    #[error("cannot open the store: {0}")]
    Store(String),
}

fn listed(faults: &[FileFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn why_not(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another process does already; choose another with --listen".to_owned(),
        io::ErrorKind::AddrNotAvailable => "no interface of this machine has that address".to_owned(),
        io::ErrorKind::PermissionDenied => format!("{error}; ports below 1024 need a privilege"),
        _ => error.to_string(),
    }
}

/// How a server that had started came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to, and everything was finished and flushed.
    Well,
    /// A part failed, or the end took too long; the log says which.
    Badly,
}

/// What is wrong with the files that the settings name, without starting anything; empty when nothing is.
#[must_use]
pub fn check_files(config: &Config) -> Vec<FileFault> {
    Reload::new(config).err().unwrap_or_default()
}

/// Serves until SIGINT or SIGTERM, and logs these warnings about the settings first. A second signal, a second or more
/// later, ends the process at once.
///
/// # Errors
/// Why it did not start.
pub fn run(config: &Config, warnings: &[String]) -> Result<Ended, Failure> {
    let metrics = Metrics::new();
    let logging = telemetry::init(&config.log, metrics.log.clone())?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let runtime = runtime::Builder::new_multi_thread().enable_all().thread_name("linger-worker").build()?;
    let ended = runtime.block_on(serve(config, metrics, &logging));
    // Not dropped: that would wait for a thread that hangs in the store.
    runtime.shutdown_background();
    ended
}

async fn serve(config: &Config, metrics: Metrics, logging: &Logging) -> Result<Ended, Failure> {
    let mut signals = Signals::new()?;
    let clock = Arc::new(SystemClock::new());
    let running = tokio::select! {
        running = Running::start(config, clock.clone(), metrics) => running?,
        asked = signals.next() => {
            tracing::info!(signal = asked.name(), "stopped before it served");
            return Ok(Ended::Well);
        }
    };
    running.announce();
    let drain_delay = tokio::select! {
        asked = signals.next() => {
            tracing::info!(signal = asked.name(), "shutting down");
            config.server.drain_delay
        }
        () = running.shutdown.failed() => Duration::ZERO,
    };
    let began_us = clock.now_micros();
    tokio::select! {
        ended = end(running, drain_delay, config.server.shutdown_grace, &*clock) => Ok(ended),
        asked = second_signal(&mut signals, began_us, &*clock) => {
            tracing::warn!(signal = asked.name(), "a second signal: stopping at once");
            logging.flush();
            std::process::exit(asked.exit_code().into())
        }
    }
}

/// Ends `running` in order: it goes on for `drain_delay`, and then has `grace` to finish what is in flight.
async fn end(running: Running, drain_delay: Duration, grace: Duration, clock: &dyn Clock) -> Ended {
    running.queue.announce_shutdown();
    tokio::select! {
        () = clock.sleep(drain_delay) => {}
        () = running.shutdown.failed() => {}
    }
    tokio::select! {
        ended = running.stop() => ended,
        () = clock.sleep(grace) => {
            tracing::error!(?grace, "shutting down took longer than server.shutdown_grace");
            Ended::Badly
        }
    }
}

/// The next signal that is not the same as the one at `first_us`.
async fn second_signal(signals: &mut Signals, first_us: i64, clock: &dyn Clock) -> Asked {
    loop {
        let asked = signals.next().await;
        if clock.now_micros() - first_us >= SAME_SIGNAL_US {
            return asked;
        }
        tracing::debug!(signal = asked.name(), "a second signal within a second of the first is ignored");
    }
}

/// A server at work.
struct Running {
    shutdown: Shutdown,
    queue: Arc<Queue>,
    /// Cancelled to stop accepting and let requests in flight finish.
    closing: CancellationToken,
    serving: JoinHandle<()>,
    /// Cancelled once nothing needs the timer any more.
    stop_timer: CancellationToken,
    address: SocketAddr,
    scheme: &'static str,
    engine: String,
}

impl Running {
    async fn start(config: &Config, system: Arc<SystemClock>, metrics: Metrics) -> Result<Self, Failure> {
        let clock: Arc<dyn Clock> = system.clone();
        // A file system may hang: signals are then still heeded.
        let settings = config.clone();
        let reload = tokio::task::spawn_blocking(move || Reload::new(&settings)).await;
        let reload = reload.expect("reading files does not panic").map_err(Failure::Files)?;
        // Bound before the store is opened, so that a taken port is no reason to open it; listened on
        // after, so that nobody is accepted before there is an answer.
        let socket = bind(config.server.listen)?;
        let (hints, engine) = (Arc::new(StoreEvents::default()), wiring::engine(config));
        let patience = config.redis.start_timeout;
        let store =
            wiring::open_store(config, clock.clone(), hints.clone(), metrics.engine.clone(), patience).await;
        let store = store.map_err(Failure::Store)?;
        file_permissions::warn(config);
        let limits = wiring::limits(&config.queue);
        let queue = Queue::new(store, &hints, clock.clone(), limits, metrics.queue.clone());
        let listener = listen(socket, config.server.listen)?;
        let address = listener.local_addr()?;
        let mut http = wiring::http_options(config);
        let asked = http.max_connections != http::Options::default().max_connections;
        let room = open_files::make_room_for(http.max_connections, asked);
        http.lower_connections(room);
        let clock_metrics = metrics.clock.clone();
        let app = App::new(queue.clone(), clock, metrics, http)
            .behind(reload.gate.clone())
            .over(reload.tls.clone());
        let (shutdown, closing, stop_timer) =
            (Shutdown::new(), CancellationToken::new(), CancellationToken::new());
        let scheme = if reload.tls.is_some() { "https" } else { "http" };
        let timer = queue.clone();
        let until = stop_timer.clone();
        shutdown.spawn("timer", stop_timer.clone(), async move { timer.run_timer(until).await });
        let (watched, until) = (queue.clone(), stop_timer.clone());
        shutdown.spawn("store watch", stop_timer.clone(), async move { watched.watch_store(until).await });
        let watching = clock_watch::watch(system, clock_metrics, stop_timer.clone());
        shutdown.spawn("clock watch", stop_timer.clone(), watching);
        if let Some(hangups) = reload.signals()? {
            let until = closing.clone();
            shutdown.spawn("reloading", closing.clone(), async move { reload.run(hangups, until).await });
        }
        let until = closing.clone();
        let serving =
            shutdown.spawn("HTTP server", closing.clone(), async move { app.serve(listener, until).await });
        Ok(Self { shutdown, queue, closing, serving, stop_timer, address, scheme, engine })
    }

    /// The one line on stdout: where, on which engine, with which durability.
    fn announce(&self) {
        let (scheme, address, engine, info) = (self.scheme, self.address, &self.engine, self.queue.info());
        let (version, durability) = (env!("CARGO_PKG_VERSION"), &info.durability);
        tracing::info!(%address, engine, durability, engine_version = info.version, version, "listening");
        let line = format!(
            "linger {version} listening on {scheme}://{address}, engine {engine}, durability {durability}"
        );
        // Redis has a say in it, and the directory's name.
        let line = printable::line(&line).into_owned() + "\n";
        // Nobody waits for it: stdout may be a pipe that is full and not read.
        tokio::task::spawn_blocking(move || {
            let mut stdout = io::stdout().lock();
            if let Err(error) = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()) {
                tracing::warn!(%error, "stdout takes nothing");
            }
        });
    }

    /// The orderly end. Parked polls are answered first, because they would keep their connections open;
    /// the store goes last, because all others use it.
    async fn stop(self) -> Ended {
        self.queue.drain();
        self.closing.cancel();
        // A panic in it is noted by `shutdown`.
        let _ = self.serving.await;
        self.stop_timer.cancel();
        self.shutdown.finished().await;
        if let Err(error) = self.queue.close().await {
            tracing::error!(%error, "the store did not close well");
            return Ended::Badly;
        }
        if self.shutdown.failure().is_some() {
            return Ended::Badly;
        }
        tracing::info!("stopped");
        Ended::Well
    }
}

fn bind(address: SocketAddr) -> Result<TcpSocket, Failure> {
    let bound = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart must not wait for the connections of the process before it.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bound().map_err(|source| Failure::Listen { address, source })
}

fn listen(socket: TcpSocket, address: SocketAddr) -> Result<TcpListener, Failure> {
    socket.listen(BACKLOG).map_err(|source| Failure::Listen { address, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_for_not_listening_are_given_in_words() {
        let shown = |error: io::Error| {
            let address = "127.0.0.1:80".parse().expect("is an address");
            Failure::Listen { address, source: error }.to_string()
        };
        let taken = shown(io::ErrorKind::AddrInUse.into());
        assert!(taken.starts_with("cannot listen on 127.0.0.1:80: another process does"), "{taken}");
        assert!(shown(io::ErrorKind::PermissionDenied.into()).contains("privilege"));
    }

    #[tokio::test]
    async fn a_taken_port_is_found_when_binding() {
        let loopback = "127.0.0.1:0".parse().expect("is an address");
        let first = listen(bind(loopback).expect("binds"), loopback).expect("listens");
        let taken = first.local_addr().expect("has an address");
        assert!(matches!(bind(taken), Err(Failure::Listen { .. })));
    }
}
