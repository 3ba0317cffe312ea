//! What only the Redis engine can get wrong: cut answers, full memory, foreign entries, replicas,
//! processes side by side. Each case has a prefix of its own; some a server of their own.

mod attributes;
mod beside;
mod crash;
mod cut;
mod frames;
mod half_open;
mod late;
mod lost;
mod memory;
mod outages;
mod peer;
mod permissions;
mod points;
mod promoting;
mod proxy;
mod rates;
mod repair;
mod replicas;
mod reserving;
mod scopes;
mod scraping;
mod start;
mod steps;
mod together;
mod verify;
mod weather;

use std::sync::Arc;

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
};

/// Options for the shared server under a prefix of one's own.
fn options() -> Options {
    Options { prefix: fresh_prefix(), ..Options::new(&shared().url()) }
}

/// An engine on a clock that stands still.
struct Process {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    heard: Arc<Recorder>,
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

    /// Another one on the same clock.
    async fn beside(other: &Self, options: &Options) -> Self {
        Self::on_clock(other.clock.clone(), options).await.expect("connects")
    }

    async fn on_clock(clock: Arc<ManualClock>, options: &Options) -> Result<Self, ConnectError> {
        let heard = Arc::new(Recorder::default());
        let time = redis::TimeSource::Manual(clock.clone());
        let metrics = Metrics::new();
        let store = redis::connect(options.clone(), time, heard.clone(), metrics.engine.clone()).await?;
        Ok(Self { store, clock, heard, metrics })
    }

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Waits until this process has heard that the topic has ready jobs.
    async fn hears(&self, topic: &str) {
        let hearing = async {
            while !self.heard.take_ready().iter().any(|ready| ready.to_string() == topic) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), hearing).await.expect("hears of it");
    }
}

/// A connection that does to the server what no engine would.
struct Raw(Client);

impl Raw {
    async fn connect(url: &str) -> Self {
        let client = Client::new(Config::from_url(url).expect("a URL"), None, None, None);
        client.init().await.expect("connects");
        Self(client)
    }

    /// Sends a command given as words.
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

/// How many shards one server is first used with.
const SHARDS: u16 = 4;

/// The hash tag of the shard where a job lives.
fn tag(options: &Options, id: &JobId) -> String {
    let shards = options.shards.unwrap_or(SHARDS);
    format!("{{{}:{}}}", options.prefix, xxh3_64(id.as_str().as_bytes()) % u64::from(shards))
}
