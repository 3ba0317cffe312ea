//! Places for connections: so many in all, and so many for each address.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard},
};

use super::Options;
use crate::metrics::Refusal;

/// All places.
#[derive(Debug)]
pub(super) struct Seats {
    max: usize,
    max_per_address: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A place, given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    address: IpAddr,
}

impl Seats {
    pub fn new(options: &Options) -> Arc<Self> {
        Arc::new(Self {
            max: options.max_connections,
            max_per_address: options.max_connections_per_address,
            taken: Mutex::default(),
        })
    }

    /// A place for a connection from `address`, or why there is none.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Result<Seat, Refusal> {
        let address = counted_as(address);
        let mut taken = self.lock();
        if taken.all >= self.max {
            return Err(Refusal::All);
        }
        if taken.by_address.get(&address).is_some_and(|own| *own >= self.max_per_address) {
            return Err(Refusal::Address);
        }
        taken.all += 1;
        *taken.by_address.entry(address).or_default() += 1;
        Ok(Seat { seats: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().expect("no code panics while it holds the places")
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        taken.all -= 1;
        let own = taken.by_address.get_mut(&self.address).expect("counted until its last place is empty");
        *own -= 1;
        if *own == 0 {
            taken.by_address.remove(&self.address);
        }
    }
}

/// Whose connection it is: an IPv4 address, or the network of 64 bits of which an IPv6 host has every
/// address at will.
pub(super) fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(max: usize, max_per_address: usize) -> Arc<Seats> {
        let options = Options {
            max_connections: max,
            max_connections_per_address: max_per_address,
            ..Options::default()
        };
        Seats::new(&options)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn places_are_limited_in_all_and_for_each_address() {
        let seats = seats(3, 2);
        let (one, other) = (address("10.0.0.1"), address("10.0.0.2"));
        let first = seats.take(one).expect("a place");
        let _second = seats.take(one).expect("a place");
        assert_eq!(seats.take(one).expect_err("none"), Refusal::Address);
        let third = seats.take(other).expect("a place");
        assert_eq!(seats.take(other).expect_err("none"), Refusal::All);
        drop(first);
        let _fourth = seats.take(one).expect("a place again");
        drop(third);
        assert!(!seats.lock().by_address.contains_key(&other), "who has gone is forgotten");
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address_and_a_mapped_one_as_ipv4() {
        let seats = seats(10, 1);
        let _first = seats.take(address("2001:db8:0:1::1")).expect("a place");
        assert_eq!(seats.take(address("2001:db8:0:1:ffff::2")).expect_err("none"), Refusal::Address);
        let _second = seats.take(address("2001:db8:0:2::1")).expect("a place");
        let _third = seats.take(address("::ffff:10.0.0.1")).expect("a place");
        assert_eq!(seats.take(address("10.0.0.1")).expect_err("none"), Refusal::Address);
    }
}
