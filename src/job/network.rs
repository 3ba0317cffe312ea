//! Which addresses may be called. Knows no names: the code that connects checks each address that a name
//! resolves to.
//!
//! An IPv6 address that stands for an IPv4 address is judged as that one, so that it cannot be used to get round a rule.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Why a text names neither a kind of addresses nor a network; the message says what is valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Neither a word nor an address with a prefix.
    #[error("is not \"public\", \"private\", \"loopback\" or a network such as 10.1.0.0/16")]
    Malformed,
    /// An address with bits beyond the prefix.
    #[error("has bits beyond its prefix; the network is {network}")]
    BitsBeyondPrefix {
        /// The network that contains the address.
        network: Network,
    },
    /// An IPv6 network whose addresses stand for IPv4 addresses.
    #[error("contains IPv4 addresses in the form of IPv6; write the IPv4 network")]
    MeansIpv4,
    /// A network of tunnels.
    #[error("is never called: its addresses lead to others, which cannot be checked")]
    NeverCalled,
}

/// An address and the number of its leading bits that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    const fn v6(segments: [u16; 8], prefix: u8) -> Self {
        let [a, b, c, d, e, f, g, h] = segments;
        Self { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), prefix }
    }

    /// Whether the address is in the network. No IPv4 address is in an IPv6 network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                same_prefix(own.to_bits().into(), other.to_bits().into(), 32, self.prefix)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                same_prefix(own.to_bits(), other.to_bits(), 128, self.prefix)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    fn is_within(&self, other: &Self) -> bool {
        self.prefix >= other.prefix && other.contains(self.address)
    }

    /// The network with the bits beyond its prefix cleared.
    fn masked(&self) -> Self {
        let address = match self.address {
            IpAddr::V4(own) => Ipv4Addr::from_bits(
                own.to_bits() & u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0),
            )
            .into(),
            IpAddr::V6(own) => Ipv6Addr::from_bits(
                own.to_bits() & u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0),
            )
            .into(),
        };
        Self { address, prefix: self.prefix }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    /// Parses an address, or an address and a prefix such as `10.1.0.0/16`.
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Malformed)?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => longest,
            // `u8::from_str` would take a sign.
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| NetworkError::Malformed)?
            }
            Some(_) => return Err(NetworkError::Malformed),
        };
        if prefix > longest {
            return Err(NetworkError::Malformed);
        }
        let network = Self { address, prefix };
        if network.masked() != network {
            return Err(NetworkError::BitsBeyondPrefix { network: network.masked() });
        }
        if IPV4_IN_IPV6.iter().any(|range| network.is_within(range)) {
            return Err(NetworkError::MeansIpv4);
        }
        let is_loopback = network.is_within(&LOOPBACK[1]);
        if !is_loopback && TUNNELS.iter().any(|range| network.is_within(range)) {
            return Err(NetworkError::NeverCalled);
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Addresses that an administrator names: by a word, or as a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressRange {
    /// The addresses of the internet: all that are not in IANA's registries of special-purpose addresses.
    Public,
    /// The addresses of private networks: RFC 1918, 100.64.0.0/10 and fc00::/7.
    Private,
    /// This machine: 127.0.0.0/8 and ::1.
    Loopback,
    /// The addresses of a network, whatever they are used for.
    Network(Network),
}

impl AddressRange {
    /// Whether the address, which [`judged`] returned, is in the range.
    fn contains(&self, address: IpAddr) -> bool {
        match self {
            Self::Public => is_public(address),
            Self::Private => is_in(PRIVATE, address),
            Self::Loopback => is_in(LOOPBACK, address),
            Self::Network(network) => network.contains(address),
        }
    }

    /// Whether an entry of the list of allowed ranges allows the address. Words never allow the addresses of
    /// [`NAMED_ONLY`].
    fn allows(&self, address: IpAddr) -> bool {
        match self {
            Self::Public | Self::Private | Self::Loopback => {
                self.contains(address) && !is_in(NAMED_ONLY, address)
            }
            Self::Network(network) => network.contains(address),
        }
    }
}

impl FromStr for AddressRange {
    type Err = NetworkError;

    /// Parses `public`, `private`, `loopback` or a [`Network`].
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        match text {
            "public" => Ok(Self::Public),
            "private" => Ok(Self::Private),
            "loopback" => Ok(Self::Loopback),
            network => network.parse().map(Self::Network),
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => f.write_str("public"),
            Self::Private => f.write_str("private"),
            Self::Loopback => f.write_str("loopback"),
            Self::Network(network) => network.fmt(f),
        }
    }
}

/// Which addresses may be called: those of the allowed ranges that are in none of the denied ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPolicy {
    allowed: Box<[AddressRange]>,
    denied: Box<[AddressRange]>,
}

impl AddressPolicy {
    /// A policy of these ranges.
    #[must_use]
    pub fn new(allowed: &[AddressRange], denied: &[AddressRange]) -> Self {
        Self { allowed: allowed.into(), denied: denied.into() }
    }

    /// Whether this address may be called.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        judged(address).is_some_and(|address| {
            self.allowed.iter().any(|range| range.allows(address))
                && !self.denied.iter().any(|range| range.contains(address))
        })
    }
}

/// The allowed ranges, as a list with commas, and the denied ones.
impl fmt::Display for AddressPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |ranges: &[AddressRange]| {
            ranges.iter().map(AddressRange::to_string).collect::<Vec<_>>().join(", ")
        };
        match &self.allowed[..] {
            [] => f.write_str("none")?,
            allowed => f.write_str(&list(allowed))?,
        }
        match &self.denied[..] {
            [] => Ok(()),
            denied => write!(f, " except {}", list(denied)),
        }
    }
}

/// The address that decides: the IPv4 address that an IPv6 address stands for, or the address itself; `None` for
/// addresses that are never called.
fn judged(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(v6) = address else { return Some(address) };
    if is_in(IPV4_IN_IPV6, address) {
        let [.., a, b, c, d] = v6.octets();
        return Some(Ipv4Addr::new(a, b, c, d).into());
    }
    (is_in(LOOPBACK, address) || !is_in(TUNNELS, address)).then_some(address)
}

fn is_public(address: IpAddr) -> bool {
    // The other IPv6 addresses are multicast, site-local or not allocated.
    (address.is_ipv4() || GLOBAL_UNICAST.contains(address)) && !is_in(SPECIAL_PURPOSE, address)
}

fn is_in(ranges: &[Network], address: IpAddr) -> bool {
    ranges.iter().any(|range| range.contains(address))
}

fn same_prefix(one: u128, other: u128, bits: u32, prefix: u8) -> bool {
    (one ^ other).checked_shr(bits - u32::from(prefix)).unwrap_or(0) == 0
}

const LOOPBACK: &[Network] = &[Network::v4(127, 0, 0, 0, 8), Network::v6([0, 0, 0, 0, 0, 0, 0, 1], 128)];

/// RFC 1918, RFC 6598 (carriers, and clusters on some clouds) and RFC 4193.
const PRIVATE: &[Network] = &[
    Network::v4(10, 0, 0, 0, 8),
    Network::v4(172, 16, 0, 0, 12),
    Network::v4(192, 168, 0, 0, 16),
    Network::v4(100, 64, 0, 0, 10),
    Network::v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
];

/// Link-local addresses and the services of clouds that give a machine its credentials. Allowed only by a network.
const NAMED_ONLY: &[Network] = &[
    // RFC 3927; the metadata of most clouds is 169.254.169.254.
    Network::v4(169, 254, 0, 0, 16),
    // RFC 4291.
    Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    // Amazon: the metadata is fd00:ec2::254, the credentials of a Kubernetes pod are at fd00:ec2::23.
    Network::v6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0], 32),
    // Google, for machines without IPv4.
    Network::v6([0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254], 128),
    // Alibaba.
    Network::v4(100, 100, 100, 200, 32),
    // Azure: the host of a virtual machine.
    Network::v4(168, 63, 129, 16, 32),
    // Oracle.
    Network::v4(192, 0, 0, 192, 32),
];

/// IPv4-mapped addresses (RFC 4291) and those that a NAT64 translates (RFC 6052).
const IPV4_IN_IPV6: &[Network] =
    &[Network::v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), Network::v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96)];

/// Addresses that lead to an IPv4 address at a place in them that depends on the network, or has to be trusted: `::/96`
/// (IPv4-compatible), 64:ff9b:1::/48 (NAT64 of a local network, RFC 8215), Teredo (RFC 4380), 6to4 (RFC 3056). The
/// first also contains `::`, which connects to this machine, and `::1`, which is judged as loopback before.
const TUNNELS: &[Network] = &[
    Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 96),
    Network::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
    Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32),
    Network::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),
];

/// All IPv6 addresses that IANA has allocated for use on the internet
/// (<https://www.iana.org/assignments/ipv6-address-space>).
const GLOBAL_UNICAST: Network = Network::v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// IANA's registries of special-purpose addresses, without what is part of another entry, and IPv4 multicast:
/// <https://www.iana.org/assignments/iana-ipv4-special-registry>, <https://www.iana.org/assignments/multicast-addresses>
/// and <https://www.iana.org/assignments/iana-ipv6-special-registry>. Some entries can be reached from the internet, but
/// no endpoint receives callbacks there.
const SPECIAL_PURPOSE: &[Network] = &[
    // This network, and the address of no host, which connects to this machine.
    Network::v4(0, 0, 0, 0, 8),
    Network::v4(10, 0, 0, 0, 8),
    Network::v4(100, 64, 0, 0, 10),
    Network::v4(127, 0, 0, 0, 8),
    Network::v4(169, 254, 0, 0, 16),
    Network::v4(172, 16, 0, 0, 12),
    // IETF protocol assignments.
    Network::v4(192, 0, 0, 0, 24),
    // Documentation.
    Network::v4(192, 0, 2, 0, 24),
    // AS112.
    Network::v4(192, 31, 196, 0, 24),
    // AMT.
    Network::v4(192, 52, 193, 0, 24),
    // Relays of 6to4.
    Network::v4(192, 88, 99, 0, 24),
    Network::v4(192, 168, 0, 0, 16),
    // AS112.
    Network::v4(192, 175, 48, 0, 24),
    // Benchmarks.
    Network::v4(198, 18, 0, 0, 15),
    // Documentation.
    Network::v4(198, 51, 100, 0, 24),
    Network::v4(203, 0, 113, 0, 24),
    // Multicast.
    Network::v4(224, 0, 0, 0, 4),
    // Reserved, and broadcast.
    Network::v4(240, 0, 0, 0, 4),
    // Loopback and the unspecified address.
    Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 127),
    Network::v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96),
    Network::v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96),
    Network::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
    // Discarded, and the dummy prefix.
    Network::v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64),
    Network::v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64),
    // IETF protocol assignments: Teredo, benchmarks, ORCHID and others.
    Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    // Documentation.
    Network::v6([0x2001, 0x0db8, 0, 0, 0, 0, 0, 0], 32),
    // 6to4.
    Network::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),
    // AS112.
    Network::v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48),
    // Documentation.
    Network::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
    // Segment routing.
    Network::v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16),
    Network::v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
    Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
];

#[cfg(test)]
mod tests;
