//! What is asked of every server before jobs are moved: its clock, which one it is, and whether its replicas have received
//! everything.

use std::time::Duration;

use fred::{
    error::{Error as FredError, ErrorKind},
    interfaces::{ClientLike, KeysInterface},
    types::{ClusterHash, CustomCommand, InfoKind, Key, Value},
};

use super::{
    error::CallFault,
    inspect::{connected_replicas, server_id},
    router::Router,
};
use crate::{
    clock::SystemClock,
    store::{ClockOffsets, Error, Result, ServerSet},
};

/// How long replicas have to catch up.
const CATCH_UP: Duration = Duration::from_secs(60);

/// The clocks of all servers that are connected, which are those of all shards once the engine is open.
///
/// # Errors
/// A clock cannot be read.
pub async fn clock_offsets(router: &Router, own: &SystemClock) -> Result<ClockOffsets> {
    let mut offsets: Option<ClockOffsets> = None;
    for node in router.open_nodes() {
        let connection = node.connection().map_err(unavailable)?;
        let (least, most) = node.clock.bounds_us(&connection, own).await.map_err(unavailable)?;
        let read = ClockOffsets { slowest: most, fastest: least };
        offsets = Some(offsets.map_or(read, |offsets| offsets.and(read)));
    }
    offsets.ok_or_else(|| Error::Unavailable("no server is connected".to_owned()))
}

/// The servers of these slots.
///
/// # Errors
/// One cannot be reached, or does not say which it is.
pub async fn servers(router: &Router, slots: impl Iterator<Item = u16>) -> Result<ServerSet> {
    let mut servers = ServerSet::default();
    for slot in slots {
        let node = router.node_for_slot(slot).await.map_err(unavailable)?;
        let connection = node.connection().map_err(unavailable)?;
        let info = connection.call(connection.client().info::<String>(None)).await.map_err(unavailable)?;
        let unknown = || Error::Unavailable("a server does not say which it is".to_owned());
        servers.0.insert(server_id(&info).ok_or_else(unknown)?, connected_replicas(&info));
    }
    Ok(servers)
}

/// Waits until every replica that is connected to the server of a slot has what was written there so far. A `WAIT` covers
/// the writes of its own connection, so it follows a small write to `mark`, a key of that slot. One lasts for
/// `wait` at most.
///
/// # Errors
/// They did not catch up within a minute, or the server cannot be reached.
pub async fn wait_for_all_replicas(router: &Router, slot: u16, mark: &Key, wait: Duration) -> Result<()> {
    let waits = CATCH_UP.as_millis() / wait.as_millis().max(1);
    for _ in 0..waits.max(1) {
        if have_replicas_caught_up(router, slot, mark, wait).await.map_err(unavailable)? {
            return Ok(());
        }
    }
    Err(Error::Unavailable("its replicas did not catch up within a minute".to_owned()))
}

async fn have_replicas_caught_up(
    router: &Router,
    slot: u16,
    mark: &Key,
    wait: Duration,
) -> std::result::Result<bool, FredError> {
    let node = router.node_for_slot(slot).await?;
    let connection = node.connection()?;
    let info: String = connection.call(connection.client().info(Some(InfoKind::Replication))).await?;
    let wanted = connected_replicas(&info);
    if wanted == 0 {
        return Ok(true);
    }
    let pipeline = connection.client().pipeline();
    let _: Value = pipeline.set(mark.clone(), 1, None, None, false).await?;
    // As a plain command: the library would take the connection for blocked and stop watching it.
    let command = CustomCommand::new_static("WAIT", ClusterHash::Random, false);
    let timeout_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX).max(1);
    let _: Value = pipeline.custom(command, vec![wanted, timeout_ms]).await?;
    let caught_up: Value = connection.call(pipeline.last()).await?;
    let caught_up = caught_up.as_i64();
    caught_up
        .map(|count| count >= wanted)
        .ok_or_else(|| FredError::new(ErrorKind::Protocol, "WAIT has an unexpected reply"))
}

fn unavailable(error: FredError) -> Error {
    CallFault::classify(&error).into_error()
}
