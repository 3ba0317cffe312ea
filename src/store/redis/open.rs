//! Opening the engine: connects, checks that the servers may hold jobs, and starts the engine's tasks.

use std::sync::Arc;

use super::{
    connection::{connect_error::ConnectError, retry::ScriptClient, router::Router},
    context::EngineContext,
    coordination::{permissions, shards::Shards, stored_layout},
    engine::Redis,
    keys::Keys,
    options::Options,
    time::TimeSource,
    tls::RedisTls,
};
use crate::{metrics::EngineMetrics, store::Listener};

/// What an engine is opened for if it does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading: nothing is written, now or later.
    ReadOnly,
    /// Reading the source of a move, which must be there.
    ReadSource,
    /// Being the source of a move, which must be there.
    Source,
    /// Being the target of a move.
    Target,
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
    let tls = read_tls(&options).await?;
    connect_with_tls(options, tls, time, listener, metrics).await
}

/// Like [`connect`], with files of TLS that were read already, and that the caller may read again.
///
/// # Errors
/// [`ConnectError`], and nothing is left running.
pub async fn connect_with_tls(
    options: Options,
    tls: Option<RedisTls>,
    time: TimeSource,
    listener: Arc<dyn Listener>,
    metrics: EngineMetrics,
) -> Result<Arc<Redis>, ConnectError> {
    open(EngineContext::new(options, tls, metrics), time, listener, None).await
}

/// Connects without any of the engine's tasks.
///
/// # Errors
/// [`ConnectError`], and nothing is left running.
pub async fn open_offline(
    mode: OpenMode,
    options: Options,
    listener: Arc<dyn Listener>,
    metrics: EngineMetrics,
) -> Result<Arc<Redis>, ConnectError> {
    let tls = read_tls(&options).await?;
    open(EngineContext::new(options, tls, metrics), TimeSource::Server, listener, Some(mode)).await
}

/// Reads the files of TLS on a thread of its own: a file system may hang.
async fn read_tls(options: &Options) -> Result<Option<RedisTls>, ConnectError> {
    let Some(tls) = options.tls.clone() else { return Ok(None) };
    let read = tokio::task::spawn_blocking(move || RedisTls::read(&tls)).await;
    read.expect("reading files does not panic").map(Some).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        ConnectError::Files(faults.join("; "))
    })
}

/// Makes what is stored now the store of the processes that miss theirs, because it was emptied or replaced. Returns false
/// if there is nothing to accept.
///
/// # Errors
/// [`ConnectError`], after which this may be repeated.
pub async fn accept(options: Options, metrics: EngineMetrics) -> Result<bool, ConnectError> {
    let tls = read_tls(&options).await?;
    let context = EngineContext::new(options, tls, metrics);
    let closing = context.closing.clone();
    let accepted = async {
        let client = open_client(context).await?;
        let accepted = stored_layout::accept_stored(&client).await;
        client.router.close().await;
        accepted
    };
    let accepted = Box::pin(accepted).await;
    closing.cancel();
    accepted
}

async fn open(
    context: EngineContext,
    time: TimeSource,
    listener: Arc<dyn Listener>,
    mode: Option<OpenMode>,
) -> Result<Arc<Redis>, ConnectError> {
    let closing = context.closing.clone();
    // Boxed, because connecting nests many futures, which the futures of all callers would contain.
    let opened = Box::pin(open_engine(context, time, listener, mode)).await;
    if opened.is_err() {
        closing.cancel();
    }
    opened
}

async fn open_engine(
    context: EngineContext,
    time: TimeSource,
    listener: Arc<dyn Listener>,
    mode: Option<OpenMode>,
) -> Result<Arc<Redis>, ConnectError> {
    let options = context.options.clone();
    let address = options.address();
    let shards = open_shards(context, time, mode).await?;
    let (redis, tasks) = Redis::new(shards.clone(), listener);
    redis.refresh_settings().await.map_err(|error| ConnectError::from_store_error(&address, error))?;
    // Only now: a start may be tried many times.
    shards.router().open_nodes().iter().for_each(|node| node.fitness.log_durability());
    match mode {
        None => tasks.spawn(),
        Some(_) => tasks.watch_sentinels(),
    }
    Ok(Arc::new(redis))
}

async fn open_shards(
    context: EngineContext,
    time: TimeSource,
    mode: Option<OpenMode>,
) -> Result<Arc<Shards>, ConnectError> {
    let options = context.options.clone();
    let client = open_client(context.clone()).await?;
    let is_of_move = matches!(mode, Some(OpenMode::Source | OpenMode::Target));
    let shards = match mode {
        None | Some(OpenMode::Target) => {
            permissions::test_prefix(&client).await?;
            stored_layout::agree(&client, is_of_move).await?
        }
        Some(OpenMode::ReadSource | OpenMode::Source) => {
            let stored = stored_layout::read(&client).await?;
            stored.ok_or_else(|| stored_layout::nothing_stored(&options))?
        }
        Some(OpenMode::ReadOnly) => {
            let stored = stored_layout::read(&client).await?;
            stored.unwrap_or_else(|| stored_layout::first_shards(&client))
        }
    };
    context.layout.set_shards(shards);
    let keys = Keys::new(&options.prefix, shards);
    if !matches!(mode, Some(OpenMode::ReadOnly | OpenMode::ReadSource)) {
        permissions::test_shards(&client, &keys).await?;
    }
    Ok(Shards::new(client, keys, time, is_of_move))
}

async fn open_client(context: EngineContext) -> Result<ScriptClient, ConnectError> {
    let address = context.options.address();
    let router = Router::open(context.clone()).await?;
    let loaded = ScriptClient::load(context, router).await;
    loaded.map_err(|error| ConnectError::from_client_error(&address, &error))
}
