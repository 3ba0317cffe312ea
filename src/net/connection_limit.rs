//! The limit on open connections: in total and per address.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard},
};

use super::options::ListenerOptions;
use crate::metrics::RefusalReason;

/// Counts open connections.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    max: usize,
    max_per_address: usize,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Allows one open connection until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    address: IpAddr,
}

impl ConnectionLimit {
    pub fn new(options: &ListenerOptions) -> Arc<Self> {
        Arc::new(Self {
            max: options.max_connections,
            max_per_address: options.max_connections_per_address,
            open: Mutex::default(),
        })
    }

    /// A permit for a connection from `address`, or which limit is reached.
    pub fn try_acquire(self: &Arc<Self>, address: IpAddr) -> Result<ConnectionPermit, RefusalReason> {
        let address = limited_network(address);
        let mut open = self.lock();
        if open.total >= self.max {
            return Err(RefusalReason::All);
        }
        if open.by_address.get(&address).is_some_and(|count| *count >= self.max_per_address) {
            return Err(RefusalReason::Address);
        }
        open.total += 1;
        *open.by_address.entry(address).or_default() += 1;
        Ok(ConnectionPermit { limit: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().expect("no code panics while it holds this lock")
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.limit.lock();
        open.total -= 1;
        let count = open.by_address.get_mut(&self.address).expect("an address with a permit is counted");
        *count -= 1;
        if *count == 0 {
            open.by_address.remove(&self.address);
        }
    }
}

/// The unit to which limits per address apply: an IPv4 address, or the IPv6 network of 64 bits, since an IPv6 host can
/// use every address of its network.
pub(crate) fn limited_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(max: usize, max_per_address: usize) -> Arc<ConnectionLimit> {
        let options = ListenerOptions {
            max_connections: max,
            max_connections_per_address: max_per_address,
            ..ListenerOptions::default()
        };
        ConnectionLimit::new(&options)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn connections_are_limited_in_total_and_per_address() {
        let limit = limit(3, 2);
        let (one, other) = (address("10.0.0.1"), address("10.0.0.2"));
        let first = limit.try_acquire(one).expect("a permit");
        let _second = limit.try_acquire(one).expect("a permit");
        assert_eq!(limit.try_acquire(one).expect_err("no permit"), RefusalReason::Address);
        let third = limit.try_acquire(other).expect("a permit");
        assert_eq!(limit.try_acquire(other).expect_err("no permit"), RefusalReason::All);
        drop(first);
        let _fourth = limit.try_acquire(one).expect("a permit again");
        drop(third);
        assert!(!limit.lock().by_address.contains_key(&other), "an address without connections is forgotten");
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address_and_a_mapped_one_as_ipv4() {
        let limit = limit(10, 1);
        let _first = limit.try_acquire(address("2001:db8:0:1::1")).expect("a permit");
        let same_network = limit.try_acquire(address("2001:db8:0:1:ffff::2"));
        assert_eq!(same_network.expect_err("no permit"), RefusalReason::Address);
        let _second = limit.try_acquire(address("2001:db8:0:2::1")).expect("a permit");
        let _third = limit.try_acquire(address("::ffff:10.0.0.1")).expect("a permit");
        assert_eq!(limit.try_acquire(address("10.0.0.1")).expect_err("no permit"), RefusalReason::Address);
    }
}
