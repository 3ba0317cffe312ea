//! Whether one server is fit to hold jobs, and what it promises about them. Inspected before the server is used,
//! after every reconnection and at intervals: an address may come to belong to another server, and settings
//! may change.

use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use fred::{clients::Client, error::Error as FredError, interfaces::HashesInterface};

use super::{
    error::CallFault,
    inspect::{self, IS_REPLICA, ServerReport, Unusable, unfit_error},
};
use crate::store::redis::{context::EngineContext, keys, layout};

/// The result of the last inspection of one server.
#[derive(Debug)]
pub struct Fitness {
    /// Its address, for the log.
    server: String,
    last: Mutex<LastInspection>,
}

#[derive(Debug, Default)]
struct LastInspection {
    report: Option<ServerReport>,
    unfit: Option<String>,
}

impl Fitness {
    pub fn new(server: String) -> Self {
        Self { server, last: Mutex::default() }
    }

    /// Fails while the server is not fit to hold jobs.
    pub fn check(&self) -> Result<(), FredError> {
        self.lock().unfit.as_ref().map_or(Ok(()), |why| Err(unfit_error(why)))
    }

    /// Whether the server is not fit because it is a replica.
    pub fn is_replica(&self) -> bool {
        self.lock().unfit.as_deref() == Some(IS_REPLICA)
    }

    /// Why the server is not fit, if it is not.
    pub fn unfit_reason(&self) -> Option<String> {
        self.lock().unfit.clone()
    }

    /// What the server last reported of itself.
    pub fn report(&self) -> Option<ServerReport> {
        self.lock().report.clone()
    }

    /// Inspects the server behind a connection and remembers the result.
    ///
    /// # Errors
    /// Why it could not be inspected.
    pub async fn inspect(&self, client: &Client, context: &EngineContext) -> Result<(), Unusable> {
        let result = match inspect::inspect(client, &context.options).await {
            Ok(report) => {
                let mismatch = match context.layout.shards() {
                    Some(shards) => layout_mismatch(client, context, shards).await,
                    None => Ok(None),
                };
                mismatch.map_err(Unusable::Unreachable)?.map_or(Ok(report), Err)
            }
            Err(Unusable::Unfit(why)) => Err(why),
            Err(unreachable @ Unusable::Unreachable(_)) => return Err(unreachable),
        };
        self.record(result, context.layout.shards().is_some());
        Ok(())
    }

    /// Logs what the server promised when the engine was opened.
    pub fn log_durability(&self) {
        if let Some(report) = self.report() {
            log_durability(&self.server, &report);
        }
    }

    fn lock(&self) -> MutexGuard<'_, LastInspection> {
        self.last.lock().expect("no code panics while it holds the result")
    }

    /// Remembers a result; changes are logged.
    fn record(&self, result: Result<ServerReport, String>, is_open: bool) {
        let (server, mut last) = (&self.server, self.lock());
        match result {
            Ok(report) => {
                if last.unfit.take().is_some() {
                    tracing::info!(%server, "the Redis server is fit to hold jobs again");
                }
                let before = last.report.replace(report.clone());
                if is_open && before.is_none_or(|before| before.durability != report.durability) {
                    log_durability(server, &report);
                }
            }
            Err(why) => {
                if last.unfit.as_ref() != Some(&why) {
                    tracing::error!(%server, %why, "the Redis server is not fit to hold jobs and is not used");
                }
                last.unfit = Some(why);
            }
        }
    }
}

fn log_durability(server: &str, report: &ServerReport) {
    tracing::info!(%server, durability = report.durability, "durability of the Redis server");
    if report.durability.starts_with("none") {
        tracing::warn!(
            server,
            "the Redis server writes nothing to disk: when it ends, all jobs are lost; set `appendonly yes` there, \
             and `appendfsync always` to lose nothing that was acknowledged"
        );
    }
}

/// How the layout that a server stores differs from this number of shards, if it does: after a failover, or where an
/// address now belongs to another server. A server that stores nothing, or not this slot, does not differ.
async fn layout_mismatch(
    client: &Client,
    context: &EngineContext,
    shards: u16,
) -> Result<Option<String>, FredError> {
    let (meta, slot) = keys::meta(&context.options.prefix);
    let stored: Vec<Option<Bytes>> = match client.hmget(meta, vec!["format", "shards", "seed"]).await {
        Ok(stored) => stored,
        Err(error) if matches!(CallFault::classify(&error), CallFault::Moved | CallFault::Ask(_)) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    Ok(match &stored[..] {
        [Some(format), Some(number), seed] => {
            if seed.as_ref().is_some_and(|seed| seed[..] != context.layout.host_seed()) {
                // No call may change another store until the sweep has read whether it is accepted.
                context.layout.set_lost(slot, true);
            }
            layout::difference(&text(format), &text(number), shards)
        }
        _ => None,
    })
}
