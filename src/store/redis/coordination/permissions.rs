//! What the user at Redis must be allowed to do: tried at start, and looked at with every sweep.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use fred::{interfaces::PubsubInterface, types::Key};

use crate::store::redis::{
    ConnectError,
    connection::{call::Call, client::Connection, error::in_words, retry::Caller},
    keys::{self, Keys, Shard},
    reply::Reply,
    scripts::Op,
};
use crate::store::{Error, Result};

/// The keys that are tried, one of each type.
const SCRATCH: [&str; 4] = ["hash", "set", "list", "text"];

/// The rights that were last seen to be lacking, by the first shard of the group that was asked for.
#[derive(Debug, Default)]
pub struct Rights(Mutex<BTreeMap<Shard, Vec<String>>>);

impl Rights {
    /// Takes in what is lacking now, and logs it when it has changed; whether all are there again.
    pub fn see(&self, shard: Shard, lacking: Vec<String>) -> bool {
        let mut known = self.lock();
        if known.get(&shard).map_or(lacking.is_empty(), |before| *before == lacking) {
            return false;
        }
        if lacking.is_empty() {
            known.remove(&shard);
            if known.is_empty() {
                tracing::info!("the user at Redis has all its rights again");
            }
            return true;
        }
        if known.values().all(|other| *other != lacking) {
            let lacking = lacking.join(", ");
            tracing::error!(%lacking, "the user at Redis lacks rights; what needs them is refused");
        }
        known.insert(shard, lacking);
        false
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Shard, Vec<String>>> {
        self.0.lock().expect("no code panics while it holds the rights")
    }
}

/// Tries all that can be tried before it is known how many shards there are.
///
/// # Errors
/// [`ConnectError::Unfit`] with all that is missing.
pub async fn try_first(caller: Caller<'_>) -> std::result::Result<(), ConnectError> {
    let prefix = &caller.context.options.prefix;
    let (_, slot) = keys::meta(prefix);
    try_commands(caller, &format!("{{{prefix}}}"), slot).await?;
    try_channels(caller).await
}

/// Tries the commands at every server that holds shards.
///
/// # Errors
/// [`ConnectError::Unfit`] with all that is missing.
pub async fn try_shards(caller: Caller<'_>, keys: &Keys) -> std::result::Result<(), ConnectError> {
    let some = if caller.routes.spans_slots() { 1 } else { usize::MAX };
    for shard in keys.shards().take(some) {
        let shard = keys.shard(shard);
        try_commands(caller, &shard.tag, shard.slot).await?;
    }
    Ok(())
}

/// Has the server that holds the keys with this hash tag run every command on keys that are empty afterwards.
///
/// # Errors
/// [`ConnectError::Unfit`] with all that is missing.
async fn try_commands(caller: Caller<'_>, tag: &str, slot: u16) -> std::result::Result<(), ConnectError> {
    let prefix = &caller.context.options.prefix;
    let scratch = SCRATCH.iter().map(|kind| Key::from(format!("{tag}:scratch:{kind}"))).collect();
    let [ready, settings] = keys::channels(prefix);
    let call = Call::new(Op::Rights, slot, scratch, Vec::new()).arg(ready).arg(settings);
    let tried = async { names(&mut Reply::new(caller.insist(call).await?.value)?) };
    match tried.await {
        Ok(lacking) if lacking.is_empty() => Ok(()),
        Ok(lacking) => {
            let lacking = lacking.join(", ");
            Err(unfit(caller, format!("its user may not do all that is needed: {lacking}")))
        }
        Err(Error::Unavailable(why)) if why.starts_with("NOPERM") && why.contains("key") => {
            let pattern = format!("~{{{prefix}*");
            let why =
                format!("its user may not use the keys, all of which begin with {{{prefix}: allow {pattern}");
            Err(unfit(caller, why))
        }
        Err(error) => Err(ConnectError::of_store(&caller.context.options.mode.to_string(), error)),
    }
}

/// Subscribes to the channels once, on a connection of its own.
///
/// # Errors
/// [`ConnectError::Unfit`] when that is refused.
async fn try_channels(caller: Caller<'_>) -> std::result::Result<(), ConnectError> {
    let options = &caller.context.options;
    let Some(config) = caller.routes.next_announcer() else { return Ok(()) };
    let opened = Connection::open(config, options, options.command_timeout).await;
    let connection = opened.map_err(|error| ConnectError::of(&options.mode.to_string(), &error))?;
    let mut outcome = Ok(());
    for channel in keys::channels(&options.prefix) {
        outcome = outcome.and(connection.client().subscribe(channel).await);
    }
    connection.close().await;
    outcome.map_err(|error| unfit(caller, format!("it lets nobody subscribe: {}", in_words(&error))))
}

fn unfit(caller: Caller<'_>, why: String) -> ConnectError {
    ConnectError::Unfit { at: caller.context.options.mode.to_string(), why }
}

/// The texts of a list.
pub fn names(reply: &mut Reply) -> Result<Vec<String>> {
    (0..reply.len()).map(|_| reply.text()).collect()
}
