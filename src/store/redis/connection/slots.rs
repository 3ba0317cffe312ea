//! Which server of a Cluster holds which slots: the map, and how one server reports it.

use std::collections::BTreeSet;

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::ClusterInterface,
    types::{Value, config::Server},
};

/// First and last slot of a range, and the server that holds it.
pub type SlotRange = (u16, u16, Server);

/// The last slot; the first is 0.
const LAST_SLOT: u16 = 16_383;

/// Which server holds which slot, at one moment.
#[derive(Debug, Default)]
pub struct SlotMap {
    ranges: Vec<SlotRange>,
    pub servers: BTreeSet<Server>,
}

impl SlotMap {
    pub fn new(ranges: Vec<SlotRange>) -> Self {
        let servers = ranges.iter().map(|(.., server)| server.clone()).collect();
        Self { ranges, servers }
    }

    /// One server that holds every slot.
    pub fn single(server: Server) -> Self {
        Self::new(vec![(0, LAST_SLOT, server)])
    }

    /// The server that holds `slot`.
    pub fn server(&self, slot: u16) -> Option<&Server> {
        let contains = |(first, last, _): &&SlotRange| (*first..=*last).contains(&slot);
        self.ranges.iter().find(contains).map(|(.., server)| server)
    }
}

/// The slot map as `server` reports it.
///
/// # Errors
/// Also when the server considers the Cluster down: it was cut off for too long, and its map may be outdated.
pub async fn fetch_slot_map(client: &Client, server: &Server) -> Result<SlotMap, FredError> {
    let info: String = client.cluster_info().await?;
    if info.lines().any(|line| line.trim() == "cluster_state:fail") {
        return Err(FredError::new(ErrorKind::Cluster, "a server considers the Cluster down"));
    }
    let reply: Value = client.cluster_slots().await?;
    let ranges = reply.into_array();
    let ranges: Option<Vec<_>> = ranges.into_iter().map(|range| parse_range(range, server)).collect();
    match ranges {
        Some(ranges) if !ranges.is_empty() => Ok(SlotMap::new(ranges)),
        _ => Err(FredError::new(ErrorKind::Cluster, "CLUSTER SLOTS lists no slots")),
    }
}

/// Parses `[first, last, [host, port, ...], ...]`. A server that does not know its own host leaves it
/// empty: that is the host which the request was sent to.
fn parse_range(range: Value, reporter: &Server) -> Option<SlotRange> {
    let mut range = range.into_array().into_iter();
    let first = u16::try_from(range.next()?.as_u64()?).ok()?;
    let last = u16::try_from(range.next()?.as_u64()?).ok()?;
    let mut primary = range.next()?.into_array().into_iter();
    let host = primary.next()?.as_string().filter(|host| !host.is_empty() && host != "?");
    let port = u16::try_from(primary.next()?.as_u64()?).ok()?;
    let server =
        host.map_or_else(|| Server::new(reporter.host.clone(), port), |host| Server::new(host, port));
    Some((first, last, server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_host_is_that_of_the_reporting_server() {
        let reporter = Server::new("seed", 1);
        let range = |host: Value| {
            Value::Array(vec![
                0.into(),
                5_460.into(),
                Value::Array(vec![host, 7_000.into(), "node-id".into()]),
                Value::Array(vec!["replica".into(), 7_001.into()]),
            ])
        };
        assert_eq!(parse_range(range("a".into()), &reporter), Some((0, 5_460, Server::new("a", 7_000))));
        for unknown in [Value::Null, "".into(), "?".into()] {
            assert_eq!(parse_range(range(unknown), &reporter), Some((0, 5_460, Server::new("seed", 7_000))));
        }
        assert_eq!(parse_range(Value::Array(vec![1.into()]), &reporter), None);
    }
}
