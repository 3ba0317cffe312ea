//! The Redis engine: any number of processes on one Redis or Valkey, standalone, behind Sentinel or
//! as a Cluster. Each operation is one Lua script on one shard; the scripts are the only arbiters, so
//! there is no leader and no lock. `keys.rs` lists the keys, `scripts/shard.lua` moves jobs.
//!
//! Must not know: the embedded engine, the queue above, HTTP.

mod codec;
mod connection;
mod coordination;
mod engine;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod keys;
mod layout;
mod ops;
mod options;
mod reply;
mod scripts;

use std::{
    sync::{Arc, Mutex, OnceLock, atomic::AtomicUsize},
    time::Duration,
};

use fred::{
    bytes_utils::Str,
    error::{Error as FredError, ErrorKind},
    types::Key,
};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use connection::error::ConnectError;
#[cfg(any(test, fuzzing))]
pub(crate) use fuzzing::fuzz_record;
pub use options::{Mode, Options, Secret};

use self::{
    connection::{call::Call, retry::Caller, router::Routes},
    coordination::{
        announcements::Announcements, batch::Gather, health::ShardHealth, lost_pops::LostPops, mend::Mending,
        permissions::Rights, probe::Looks, ready_shards::Hints, replay_slots::Lanes, sweep::Compaction,
        unresponsive::Unresponsive,
    },
    keys::{Keys, Shard},
    ops::{
        add::Adding,
        finish::Finishing,
        promote::{DueTopics, Promotions},
        settings::Configs,
    },
    scripts::{Op, Scripts},
};
use super::{EngineInfo, Listener};
use crate::{
    clock::{Clock, SystemClock},
    failure_log::FailureLog,
    job::Topic,
    metrics::EngineMetrics,
};

/// Longest wait for the engine's tasks when it closes.
const TASKS_WAIT: Duration = Duration::from_secs(3);

/// Whose time counts.
#[derive(Debug, Clone)]
pub enum TimeSource {
    /// The server's, read inside the scripts, so that skewed processes agree.
    Server,
    /// This clock's, passed to the scripts: for tests.
    Manual(Arc<dyn Clock>),
}

/// The engine. Dropping it stops its tasks and connections; [`super::Store::close`] also waits for them.
pub struct Redis(Arc<Engine>);

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("info", &info(&self.0.routes)).finish_non_exhaustive()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if !self.0.context.closing.is_cancelled() {
            let engine = self.0.clone();
            self.0.context.runtime.spawn(async move { engine.shut().await });
        }
    }
}

/// What every part of the engine that opens connections or runs tasks is handed.
#[derive(Debug, Clone)]
struct Context {
    options: Arc<Options>,
    metrics: EngineMetrics,
    /// Real time, for pauses, deadlines and the sweep: it passes also in tests that hold the jobs'
    /// time still.
    real: Arc<SystemClock>,
    tasks: TaskTracker,
    runtime: tokio::runtime::Handle,
    closing: CancellationToken,
    /// The number of shards, once it is known.
    shards: Arc<OnceLock<u16>>,
    /// How the layout that is stored now differs from the one that this process works with, if it does.
    parted: Arc<Mutex<Option<String>>>,
    /// Connections that were given up. A server that hangs makes all of them end at once, which is worth one line.
    given_up: Arc<FailureLog>,
}

impl Context {
    /// Logs that a connection to `server` was lost, if that was because nothing came back on it.
    fn log_loss(&self, server: &str, cause: &FredError) {
        let silent = cause.kind() == &ErrorKind::Timeout;
        if silent && self.given_up.failed(self.real.now_micros()) {
            tracing::warn!(server, cause = cause.details(), "a connection to Redis is given up");
        }
    }
}

struct Engine {
    context: Context,
    time: TimeSource,
    listener: Arc<dyn Listener>,
    routes: Routes,
    keys: Keys,
    scripts: Scripts,
    lanes: Lanes,
    adding: Gather<Adding>,
    finishing: Gather<Finishing>,
    hints: Hints,
    configs: Configs,
    announcements: Announcements,
    compaction: Compaction,
    mending: Mending,
    lost_pops: LostPops,
    rights: Rights,
    wake_sweep: watch::Sender<()>,
    /// This process as it signs announcements, and that with each shard.
    process: String,
    origins: Vec<Str>,
    due_topics: DueTopics,
    promotions: Promotions,
    unresponsive: Unresponsive,
    shard_health: ShardHealth,
    looks: Looks,
    /// Which shard is looked at first.
    turn: AtomicUsize,
}

/// Connects, checks that the server is fit to hold jobs, and starts the engine's tasks.
///
/// # Errors
/// [`ConnectError`], and nothing is left running.
pub async fn connect(
    options: Options,
    time: TimeSource,
    listener: Arc<dyn Listener>,
    metrics: EngineMetrics,
) -> Result<Arc<Redis>, ConnectError> {
    let context = prepare(options, metrics)?;
    let closing = context.closing.clone();
    let opened = open(context, time, listener).await;
    if opened.is_err() {
        closing.cancel();
    }
    opened
}

async fn open(
    context: Context,
    time: TimeSource,
    listener: Arc<dyn Listener>,
) -> Result<Arc<Redis>, ConnectError> {
    let redis = Redis(Arc::new(Engine::open(context, time, listener, Purpose::Serve).await?));
    let engine = &redis.0;
    let place = engine.context.options.mode.to_string();
    engine.refresh_configs().await.map_err(|error| ConnectError::of_store(&place, error))?;
    engine.context.tasks.spawn(engine.clone().listen());
    engine.context.tasks.spawn(engine.clone().sweep());
    engine.context.tasks.spawn(engine.clone().look_out());
    engine.context.tasks.spawn(engine.clone().watch());
    Ok(Arc::new(redis))
}

/// Connects without writing anything, now or later, and without any of the engine's tasks: for verification.
///
/// # Errors
/// [`ConnectError`], and nothing is left running.
pub async fn open_to_read(
    options: Options,
    listener: Arc<dyn Listener>,
    metrics: EngineMetrics,
) -> Result<Arc<Redis>, ConnectError> {
    let context = prepare(options, metrics)?;
    let place = context.options.mode.to_string();
    let redis = Redis(Arc::new(Engine::open(context, TimeSource::Server, listener, Purpose::Read).await?));
    redis.0.refresh_configs().await.map_err(|error| ConnectError::of_store(&place, error))?;
    Ok(Arc::new(redis))
}

/// What an engine is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Everything.
    Serve,
    /// To be read from only.
    Read,
}

fn prepare(options: Options, metrics: EngineMetrics) -> Result<Context, ConnectError> {
    let faults = options.faults();
    if !faults.is_empty() {
        return Err(ConnectError::Options(faults));
    }
    Ok(Context {
        options: Arc::new(options),
        metrics,
        real: Arc::new(SystemClock::new()),
        tasks: TaskTracker::new(),
        runtime: tokio::runtime::Handle::current(),
        closing: CancellationToken::new(),
        shards: Arc::default(),
        parted: Arc::default(),
        given_up: Arc::default(),
    })
}

impl Engine {
    async fn open(
        context: Context,
        time: TimeSource,
        listener: Arc<dyn Listener>,
        purpose: Purpose,
    ) -> Result<Self, ConnectError> {
        let routes = Routes::open(context.clone()).await?;
        let options = context.options.clone();
        let at = options.mode.to_string();
        let none = || ConnectError::Unreachable { at: at.clone(), why: "no server holds a slot".to_owned() };
        let first = routes.nodes().into_iter().next().ok_or_else(none)?;
        let connection = first.connection().map_err(|error| ConnectError::of(&at, &error))?;
        let loaded = Scripts::load(connection.client()).await;
        let scripts = loaded.map_err(|error| ConnectError::of(&at, &error))?;
        let caller = Caller { context: &context, routes: &routes, scripts: &scripts };
        let shards = match purpose {
            Purpose::Serve => {
                coordination::permissions::try_first(caller).await?;
                layout::agree(caller).await?
            }
            Purpose::Read => layout::read(caller).await?,
        };
        context.shards.set(shards).expect("an engine is opened once");
        let lanes = Lanes::new(shards);
        let process = lanes.process();
        let keys = Keys::new(&options.prefix, shards);
        if purpose == Purpose::Serve {
            coordination::permissions::try_shards(caller, &keys).await?;
        }
        Ok(Self {
            time,
            listener,
            routes,
            keys,
            scripts,
            adding: Gather::new(shards),
            finishing: Gather::new(shards),
            hints: Hints::default(),
            configs: Configs::default(),
            announcements: Announcements::new(shards),
            compaction: Compaction::default(),
            mending: Mending::default(),
            lost_pops: LostPops::default(),
            rights: Rights::default(),
            wake_sweep: watch::Sender::new(()),
            origins: (0..shards).map(|shard| format!("{process} {shard}").into()).collect(),
            process,
            lanes,
            due_topics: DueTopics::default(),
            promotions: Promotions::default(),
            unresponsive: Unresponsive::default(),
            shard_health: ShardHealth::default(),
            looks: Looks::default(),
            turn: AtomicUsize::new(0),
            context,
        })
    }

    /// The channels of announcements and of settings.
    fn channels(&self) -> [Str; 2] {
        [self.keys.ready_channel.clone(), self.keys.settings_channel.clone()]
    }

    /// The shards, grouped by what one script may touch: all at once, or in a Cluster each alone.
    fn groups(&self) -> Vec<Vec<Shard>> {
        if self.routes.spans_slots() {
            vec![self.keys.shards().collect()]
        } else {
            self.keys.shards().map(|shard| vec![shard]).collect()
        }
    }

    /// A call that reads a group of shards.
    fn read(&self, op: Op, group: &[Shard], keys: Vec<Key>) -> Call {
        let first = group.first().copied().unwrap_or_default();
        Call::new(op, self.keys.shard(first).slot, keys, Vec::with_capacity(4))
    }

    /// A call that need not be insisted on: in a Cluster it gives way to those to other servers.
    fn brief_in_cluster(&self, call: Call) -> Call {
        if self.routes.spans_slots() { call } else { call.brief() }
    }

    /// A topic may have ready jobs on a shard that it did not have before.
    fn tell_ready(&self, topic: &Topic, shard: Shard) {
        self.hints.mark(topic, shard);
        self.listener.ready(topic);
    }

    /// Counts and names what a script set aside.
    fn set_aside(&self, shard: Shard, entries: u64) {
        if entries > 0 {
            self.context.metrics.set_aside(entries);
            let key = self.keys.shard(shard).broken.as_str_lossy();
            tracing::error!(entries, %key, "broken entries were set aside");
        }
    }

    /// Keeps an eye on which server is the primary.
    async fn watch(self: Arc<Self>) {
        self.routes.watch().await;
    }

    async fn shut(&self) {
        self.context.closing.cancel();
        self.context.tasks.close();
        if tokio::time::timeout(TASKS_WAIT, self.context.tasks.wait()).await.is_err() {
            tracing::warn!("a task of the Redis engine did not end in time");
        }
        self.routes.close().await;
    }
}

/// What the servers said of themselves last; what they promise together is what the weakest does, so all are
/// named.
fn info(routes: &Routes) -> EngineInfo {
    let servers = routes.nodes().into_iter().filter_map(|node| node.standing.server());
    let (versions, promises) = servers.map(|server| (server.version, server.durability)).unzip();
    let joined = |mut words: Vec<String>| {
        words.sort_unstable();
        words.dedup();
        words.join(" / ")
    };
    EngineInfo { engine: "redis", durability: joined(promises), version: joined(versions) }
}
