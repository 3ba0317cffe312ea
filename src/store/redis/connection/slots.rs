//! What a server of a Cluster says of who holds which slots. Knows one answer, keeps no map.

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::ClusterInterface,
    types::{Value, config::Server},
};

/// First and last slot of a range, and the server that holds it.
pub type Range = (u16, u16, Server);

/// Every slot.
pub const ALL: (u16, u16) = (0, 16_383);

/// What `asked` says of who holds which slots. One that was cut off from the others for too long takes
/// the Cluster for down; what it says of the slots may have been overtaken, and is an error.
pub async fn slots(client: &Client, asked: &Server) -> Result<Vec<Range>, FredError> {
    let info: String = client.cluster_info().await?;
    if info.lines().any(|line| line.trim() == "cluster_state:fail") {
        return Err(FredError::new(ErrorKind::Cluster, "a server takes the Cluster for down"));
    }
    let answer: Value = client.cluster_slots().await?;
    let ranges = answer.into_array();
    let read: Option<Vec<_>> = ranges.into_iter().map(|range| read_range(range, asked)).collect();
    match read {
        Some(slots) if !slots.is_empty() => Ok(slots),
        _ => Err(FredError::new(ErrorKind::Cluster, "CLUSTER SLOTS names no slots")),
    }
}

/// Reads `[first, last, [host, port, ...], ...]`; a server that does not know its own host leaves it
/// empty and means the one it was asked at.
fn read_range(range: Value, asked: &Server) -> Option<Range> {
    let mut range = range.into_array().into_iter();
    let first = u16::try_from(range.next()?.as_u64()?).ok()?;
    let last = u16::try_from(range.next()?.as_u64()?).ok()?;
    let mut primary = range.next()?.into_array().into_iter();
    let host = primary.next()?.as_string().filter(|host| !host.is_empty() && host != "?");
    let port = u16::try_from(primary.next()?.as_u64()?).ok()?;
    let server = host.map_or_else(|| Server::new(asked.host.clone(), port), |host| Server::new(host, port));
    Some((first, last, server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_host_is_the_one_that_was_asked() {
        let asked = Server::new("seed", 1);
        let range = |host: Value| {
            Value::Array(vec![
                0.into(),
                5_460.into(),
                Value::Array(vec![host, 7_000.into(), "node-id".into()]),
                Value::Array(vec!["replica".into(), 7_001.into()]),
            ])
        };
        assert_eq!(read_range(range("a".into()), &asked), Some((0, 5_460, Server::new("a", 7_000))));
        for unknown in [Value::Null, "".into(), "?".into()] {
            assert_eq!(read_range(range(unknown), &asked), Some((0, 5_460, Server::new("seed", 7_000))));
        }
        assert_eq!(read_range(Value::Array(vec![1.into()]), &asked), None);
    }
}
