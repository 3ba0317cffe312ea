//! The permissions that the user at Redis needs: tested at start, and checked by every sweep.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use fred::{interfaces::PubsubInterface, types::Key};

use crate::store::{
    Error, Result,
    redis::{
        connection::{
            call::ScriptCall, client::ServerConnection, connect_error::ConnectError, error::describe_error,
            retry::ScriptClient,
        },
        keys::{self, Keys, Shard},
        reply::Reply,
        scripts::Script,
    },
};

/// The keys that commands are tested on, one of each type.
const SCRATCH: [&str; 4] = ["hash", "set", "list", "text"];

/// The missing permissions that were last seen, by the first shard of the checked group.
#[derive(Debug, Default)]
pub struct PermissionMonitor(Mutex<BTreeMap<Shard, Vec<String>>>);

impl PermissionMonitor {
    /// Remembers the missing permissions, and logs them when they have changed. Returns whether a group that lacked
    /// permissions has all of them again.
    pub fn update(&self, shard: Shard, missing: Vec<String>) -> bool {
        let mut known = self.lock();
        if known.get(&shard).map_or(missing.is_empty(), |before| *before == missing) {
            return false;
        }
        if missing.is_empty() {
            known.remove(&shard);
            if known.is_empty() {
                tracing::info!("the user at Redis has all permissions again");
            }
            return true;
        }
        if known.values().all(|other| *other != missing) {
            let missing = missing.join(", ");
            tracing::error!(%missing, "the user at Redis lacks permissions: operations that need them are refused");
        }
        known.insert(shard, missing);
        false
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Shard, Vec<String>>> {
        self.0.lock().expect("no code panics while it holds the permissions")
    }
}

/// Tests all permissions that can be tested before the number of shards is known.
///
/// # Errors
/// [`ConnectError::Unfit`] with all missing permissions.
pub async fn test_prefix(client: &ScriptClient) -> std::result::Result<(), ConnectError> {
    let prefix = &client.context.options.prefix;
    let (_, slot) = keys::meta(prefix);
    test_commands(client, &format!("{{{prefix}}}"), slot).await?;
    test_channels(client).await
}

/// Tests the commands at every server that holds shards.
///
/// # Errors
/// [`ConnectError::Unfit`] with all missing permissions.
pub async fn test_shards(client: &ScriptClient, keys: &Keys) -> std::result::Result<(), ConnectError> {
    let count = if client.router.has_single_primary() { 1 } else { usize::MAX };
    for shard in keys.all().take(count) {
        let shard = keys.shard(shard);
        test_commands(client, &shard.tag, shard.slot).await?;
    }
    Ok(())
}

/// Runs every command on keys with this hash tag, which are empty afterwards.
///
/// # Errors
/// [`ConnectError::Unfit`] with all missing permissions.
async fn test_commands(client: &ScriptClient, tag: &str, slot: u16) -> std::result::Result<(), ConnectError> {
    let prefix = &client.context.options.prefix;
    let scratch = SCRATCH.iter().map(|kind| Key::from(format!("{tag}:scratch:{kind}"))).collect();
    let [ready, settings] = keys::channels(prefix);
    let call = ScriptCall::new(Script::CheckPermissions, slot, scratch, Vec::new()).arg(ready).arg(settings);
    match missing_permissions(client, call).await {
        Ok(missing) if missing.is_empty() => Ok(()),
        Ok(missing) => {
            let missing = missing.join(", ");
            Err(unfit(client, format!("its user lacks permissions: {missing}")))
        }
        Err(Error::Refused { cause, .. }) if cause.starts_with("NOPERM") && cause.contains("key") => {
            let pattern = format!("~{{{prefix}*");
            let why =
                format!("its user may not use the keys, all of which begin with {{{prefix}: allow {pattern}");
            Err(unfit(client, why))
        }
        Err(error) => Err(ConnectError::from_store_error(&client.context.options.address(), error)),
    }
}

async fn missing_permissions(client: &ScriptClient, call: ScriptCall) -> Result<Vec<String>> {
    Reply::new(client.call_with_retry(call).await?.value)?.texts()
}

/// Subscribes to the channels once, on a connection of its own.
///
/// # Errors
/// [`ConnectError::Unfit`] when that is refused.
async fn test_channels(client: &ScriptClient) -> std::result::Result<(), ConnectError> {
    let options = &client.context.options;
    let Some(config) = client.router.next_subscription() else { return Ok(()) };
    let opened = ServerConnection::open(config, &client.context, options.command_timeout).await;
    let connection = opened.map_err(|error| ConnectError::from_client_error(&options.address(), &error))?;
    let mut outcome = Ok(());
    for channel in keys::channels(&options.prefix) {
        outcome = outcome.and(connection.client().subscribe(channel).await);
    }
    connection.close().await;
    outcome.map_err(|error| unfit(client, format!("its user may not subscribe: {}", describe_error(&error))))
}

fn unfit(client: &ScriptClient, why: String) -> ConnectError {
    ConnectError::Unfit { at: client.context.options.address(), why }
}
