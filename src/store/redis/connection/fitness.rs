//! Whether a server is fit to hold jobs, and what it promises about them. Judged before the server is used,
//! after every reconnection and from time to time: an address may come to lead to another server, and settings
//! may change.

use std::{
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
};

use super::{
    inspect::{self, Refusal, Server},
    node::Node,
};
use crate::clock::Clock;
use crate::store::redis::{Context, layout};

/// How often a server is judged again while nothing happens, and one that is not fit.
const AGAIN: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(1);

/// What is known of one server.
#[derive(Debug)]
pub struct Standing {
    /// Where it is, for the log.
    at: String,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    server: Option<Server>,
    unfit: Option<String>,
}

impl Standing {
    pub fn new(at: String) -> Self {
        Self { at, known: Mutex::default() }
    }

    /// An error while the server is not fit to hold jobs.
    pub fn check(&self) -> Result<(), FredError> {
        self.lock().unfit.as_ref().map_or(Ok(()), |why| Err(unfit(why)))
    }

    /// What the server said of itself last.
    pub fn server(&self) -> Option<Server> {
        self.lock().server.clone()
    }

    /// Judges the server behind a connection and notes what was found.
    ///
    /// # Errors
    /// Why it could not be judged.
    pub async fn judge(&self, client: &Client, context: &Context) -> Result<(), Refusal> {
        let found = match inspect::inspect(client, &context.options).await {
            Ok(server) => {
                let other = match context.shards.get() {
                    Some(shards) => layout::other(client, &context.options, *shards).await,
                    None => Ok(None),
                };
                other.map_err(Refusal::Unreachable)?.map_or(Ok(server), Err)
            }
            Err(Refusal::Unfit(why)) => Err(why),
            Err(unreachable @ Refusal::Unreachable(_)) => return Err(unreachable),
        };
        self.note(found);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no code panics while it holds what is known")
    }

    /// Notes what was found; changes are logged.
    fn note(&self, found: Result<Server, String>) {
        let (at, mut known) = (&self.at, self.lock());
        match found {
            Ok(server) => {
                if known.unfit.take().is_some() {
                    tracing::info!(%at, "the Redis server is fit to hold jobs again");
                }
                let before = known.server.replace(server.clone());
                if before.is_none_or(|before| before.durability != server.durability) {
                    tracing::info!(%at, durability = server.durability, "what the Redis server promises");
                    warn_of_no_durability(at, &server);
                }
            }
            Err(why) => {
                if known.unfit.as_ref() != Some(&why) {
                    tracing::error!(%at, %why, "the Redis server is not fit to hold jobs and is not used");
                }
                known.unfit = Some(why);
            }
        }
    }
}

fn warn_of_no_durability(at: &str, server: &Server) {
    if server.durability.starts_with("none") {
        tracing::warn!(
            at,
            "the Redis server writes nothing to disk: when it ends, all jobs are lost; set `appendonly yes` there, \
             and `appendfsync always` to lose nothing that was acknowledged"
        );
    }
}

/// The error for calls to a server that is not fit.
pub fn unfit(why: &str) -> FredError {
    FredError::new(ErrorKind::Config, format!("the Redis server is not fit to hold jobs: {why}"))
}

/// Judges a server that was just connected to, and again until its node is gone or the engine closes.
pub async fn begin(node: &Arc<Node>, context: &Context) -> Result<(), Refusal> {
    let connection = node.connection().map_err(Refusal::Unreachable)?;
    node.standing.judge(connection.client(), context).await?;
    if let Some(why) = node.standing.lock().unfit.clone() {
        return Err(Refusal::Unfit(why));
    }
    context.tasks.spawn_on(watch(Arc::downgrade(node), context.clone()), &context.runtime);
    Ok(())
}

async fn watch(node: Weak<Node>, context: Context) {
    let mut pause = AGAIN;
    loop {
        tokio::select! {
            () = context.real.sleep(pause) => {}
            () = context.closing.cancelled() => return,
        }
        let Some(node) = node.upgrade() else { return };
        if let Ok(connection) = node.connection() {
            // One that does not answer keeps its standing.
            let _ = node.standing.judge(connection.client(), &context).await;
        }
        pause = if node.standing.check().is_ok() { AGAIN } else { SOON };
    }
}
