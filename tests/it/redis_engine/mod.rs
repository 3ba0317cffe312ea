//! Faults that only the Redis engine can have: lost replies, full memory, foreign entries, replicas, concurrent
//! processes. Each case has a prefix of its own, and some have a server of their own.

mod attributes;
mod batching;
mod changing;
mod concurrent_processes;
mod crash;
mod cut_replies;
mod declared_keys;
mod expiring;
mod fault_injection;
mod fault_matrix;
mod fence;
mod forward;
mod frames;
mod half_open;
mod late_calls;
mod listing;
mod lost_pops;
mod memory;
mod mending;
mod notices;
mod outages;
mod peer;
mod permissions;
mod promoting;
mod proxy;
mod rates;
mod record_readers;
mod repair;
mod replay_slots;
mod replicas;
mod reserving;
mod scanning;
mod scopes;
mod scraping;
mod settings;
mod start;
mod step;
mod steps;
mod verify;

use std::{sync::Arc, time::Duration};

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value, config::Config},
};
use linger::{
    clock::ManualClock,
    job::{JobId, Timestamp},
    metrics::Metrics,
    store::{
        Store,
        redis::{self, ConnectError, Options},
    },
};
use xxhash_rust::xxh3::xxh3_64;

use crate::harness::{
    redis::{fresh_prefix, shared},
    stores::{Recorder, START},
    wait::TimeLimit,
};

/// Options for the shared server, with a prefix that no other test uses.
fn options() -> Options {
    Options { prefix: fresh_prefix(), ..Options::new(&shared().url()) }
}

/// A process with an engine, on a clock that the test advances.
struct Process {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    events: Arc<Recorder>,
    metrics: Metrics,
}

impl Process {
    async fn start(options: &Options) -> Self {
        Self::try_start(options).await.expect("connects")
    }

    async fn try_start(options: &Options) -> Result<Self, ConnectError> {
        let clock = ManualClock::new(Timestamp::parse(START).expect("a moment"));
        Self::on_clock(clock, options).await
    }

    /// Starts another process on the clock of `other`.
    async fn with_clock_of(other: &Self, options: &Options) -> Self {
        Self::on_clock(other.clock.clone(), options).await.expect("connects")
    }

    async fn on_clock(clock: Arc<ManualClock>, options: &Options) -> Result<Self, ConnectError> {
        let events = Arc::new(Recorder::default());
        let time = redis::TimeSource::Manual(clock.clone());
        let metrics = Metrics::new();
        let store = redis::connect(options.clone(), time, events.clone(), metrics.engine.clone()).await?;
        Ok(Self { store, clock, events, metrics })
    }

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Waits until the listener of this process was notified of ready jobs of the topic.
    async fn wait_for_ready_event(&self, topic: &str) {
        let time_limit = TimeLimit::new();
        while !self.events.take_ready().iter().any(|ready| ready.to_string() == topic) {
            time_limit.check(|| format!("the listener was not notified of {topic}"));
            time_limit.pause().await;
        }
    }
}

/// A connection for commands that no engine sends.
struct Raw(Client);

impl Raw {
    async fn connect(url: &str) -> Self {
        let client = Client::new(Config::from_url(url).expect("a URL"), None, None, None);
        client.init().await.expect("connects");
        Self(client)
    }

    /// Sends a command whose arguments are text.
    async fn send(&self, words: &[&str]) -> Value {
        self.send_values(words[0], words[1..].iter().map(|word| (*word).into()).collect()).await
    }

    /// Sends a command whose arguments may be any bytes.
    async fn send_values(&self, name: &str, arguments: Vec<Value>) -> Value {
        let command = CustomCommand::new(name.to_owned(), ClusterHash::Random, false);
        let sent = format!("{name} {arguments:?}");
        self.0.custom(command, arguments).await.unwrap_or_else(|error| panic!("{sent}: {error}"))
    }
}

/// How often counts are compared with indexes: by the clock that a test advances.
const AUDIT_INTERVAL: Duration = Duration::from_secs(30);

/// The default number of shards on one server.
const SHARDS: u16 = 1;

/// For tests of what several shards share or divide.
const SEVERAL_SHARDS: u16 = 4;

/// The hash tag of the shard of a job.
fn tag(options: &Options, id: &JobId) -> String {
    let shards = options.shards.unwrap_or(SHARDS);
    format!("{{{}:{}}}", options.prefix, xxh3_64(id.as_str().as_bytes()) % u64::from(shards))
}
