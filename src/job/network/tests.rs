//! The address rules: each special range in each form of IPv6, and properties over many addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

const WORDS: [AddressRange; 3] = [AddressRange::Public, AddressRange::Private, AddressRange::Loopback];

fn ranges(texts: &[&str]) -> Vec<AddressRange> {
    texts.iter().map(|text| text.parse().unwrap_or_else(|error| panic!("{text} {error}"))).collect()
}

fn policy(allowed: &[&str], denied: &[&str]) -> AddressPolicy {
    AddressPolicy::new(&ranges(allowed), &ranges(denied))
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The words that allow an address, such as `private`.
fn words(address: IpAddr) -> Vec<String> {
    let allowing = WORDS.iter().filter(|word| AddressPolicy::new(&[**word], &[]).allows(address));
    allowing.map(AddressRange::to_string).collect()
}

fn mapped(v4: Ipv4Addr) -> IpAddr {
    v4.to_ipv6_mapped().into()
}

fn nat64(v4: Ipv4Addr) -> IpAddr {
    Ipv6Addr::from_bits((0x64_ff9b << 96) | u128::from(v4.to_bits())).into()
}

/// The forms of IPv6 that contain an IPv4 address and are never called: IPv4-compatible, NAT64 of a local network, Teredo
/// (server, and client with its bits inverted), 6to4.
fn tunnelled(v4: Ipv4Addr) -> [IpAddr; 5] {
    let bits = u128::from(v4.to_bits());
    [
        bits,
        (0x64_ff9b_0001 << 80) | bits,
        (0x2001_0000 << 96) | (bits << 64),
        (0x2001_0000 << 96) | u128::from(!v4.to_bits()),
        (0x2002 << 112) | (bits << 80),
    ]
    .map(|bits| Ipv6Addr::from_bits(bits).into())
}

/// First and last address of each kind, and the word that allows them; nothing means that none does.
const V4: &[(&str, &str)] = &[
    ("0.0.0.0", ""),
    ("0.255.255.255", ""),
    ("1.0.0.0", "public"),
    ("9.255.255.255", "public"),
    ("10.0.0.0", "private"),
    ("10.255.255.255", "private"),
    ("11.0.0.0", "public"),
    ("100.63.255.255", "public"),
    ("100.64.0.0", "private"),
    ("100.100.100.199", "private"),
    ("100.100.100.200", ""),
    ("100.100.100.201", "private"),
    ("100.127.255.255", "private"),
    ("100.128.0.0", "public"),
    ("126.255.255.255", "public"),
    ("127.0.0.0", "loopback"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.255", "loopback"),
    ("128.0.0.0", "public"),
    ("168.63.129.15", "public"),
    ("168.63.129.16", ""),
    ("169.253.255.255", "public"),
    ("169.254.0.0", ""),
    ("169.254.169.254", ""),
    ("169.254.255.255", ""),
    ("169.255.0.0", "public"),
    ("172.15.255.255", "public"),
    ("172.16.0.0", "private"),
    ("172.31.255.255", "private"),
    ("172.32.0.0", "public"),
    ("191.255.255.255", "public"),
    ("192.0.0.0", ""),
    ("192.0.0.9", ""),
    ("192.0.0.170", ""),
    ("192.0.0.192", ""),
    ("192.0.0.255", ""),
    ("192.0.1.0", "public"),
    ("192.0.2.0", ""),
    ("192.0.2.255", ""),
    ("192.31.196.1", ""),
    ("192.52.193.1", ""),
    ("192.88.99.1", ""),
    ("192.167.255.255", "public"),
    ("192.168.0.0", "private"),
    ("192.168.255.255", "private"),
    ("192.169.0.0", "public"),
    ("192.175.48.1", ""),
    ("198.17.255.255", "public"),
    ("198.18.0.0", ""),
    ("198.19.255.255", ""),
    ("198.20.0.0", "public"),
    ("198.51.100.7", ""),
    ("203.0.113.7", ""),
    ("223.255.255.255", "public"),
    ("224.0.0.1", ""),
    ("239.255.255.255", ""),
    ("240.0.0.0", ""),
    ("255.255.255.255", ""),
];

const V6: &[(&str, &str)] = &[
    ("::", ""),
    ("::1", "loopback"),
    ("::2", ""),
    ("64:ff9b:1::1", ""),
    ("64:ff9b:0:0:0:1::", ""),
    ("100::1", ""),
    ("100:0:0:1::1", ""),
    ("1fff:ffff::", ""),
    ("2000::", "public"),
    ("2001::1", ""),
    ("2001:2::1", ""),
    ("2001:20::1", ""),
    ("2001:1ff:ffff::", ""),
    ("2001:200::", "public"),
    ("2001:db8::1", ""),
    ("2001:4860:4860::8888", "public"),
    ("2002:a00:1::", ""),
    ("2003::1", "public"),
    ("2620:4f:8000::1", ""),
    ("2a00:1450:4001:81b::200e", "public"),
    ("3ffe::1", "public"),
    ("3fff::1", ""),
    ("3fff:fff::1", ""),
    ("3fff:1000::", "public"),
    ("4000::", ""),
    ("5f00::1", ""),
    ("fc00::1", "private"),
    ("fd00:ec1:ffff::", "private"),
    ("fd00:ec2::23", ""),
    ("fd00:ec2::254", ""),
    ("fd20:ce::254", ""),
    ("fdff::1", "private"),
    ("fe00::1", ""),
    ("fe80::1", ""),
    ("febf::1", ""),
    ("fec0::1", ""),
    ("ff02::1", ""),
];

#[test]
fn each_special_range_is_allowed_by_its_word_only_in_every_form() {
    for (text, word) in V4 {
        let v4: Ipv4Addr = text.parse().expect("an address");
        for form in [v4.into(), mapped(v4), nat64(v4)] {
            assert_eq!(words(form).join(","), *word, "{form}");
        }
        for form in tunnelled(v4).into_iter().filter(|form| *form != address("::1")) {
            assert_eq!(words(form), Vec::<String>::new(), "{form}");
            assert!(!policy(&["0.0.0.0/0", "::/0"], &[]).allows(form), "{form}");
        }
    }
    for (text, word) in V6 {
        assert_eq!(words(address(text)).join(","), *word, "{text}");
    }
}

#[test]
fn a_network_allows_what_no_word_does() {
    let metadata = policy(&["public", "169.254.169.254", "fd00:ec2::254/128"], &[]);
    for text in ["169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fd00:ec2::254"] {
        assert!(metadata.allows(address(text)), "{text}");
    }
    for text in ["169.254.169.253", "fd00:ec2::253", "fe80::1", "2002:a9fe:a9fe::"] {
        assert!(!metadata.allows(address(text)), "{text}");
    }
    assert!(policy(&["::1"], &[]).allows(address("::1")));
}

#[test]
fn what_is_denied_is_denied_in_every_form() {
    let policy = policy(&["public", "private", "10.1.2.3"], &["10.1.0.0/16", "2001:4860::/32", "8.8.8.8"]);
    for text in ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203", "2001:4860::1", "8.8.8.8"] {
        assert!(!policy.allows(address(text)), "{text}");
    }
    for text in ["10.2.0.0", "8.8.8.9", "2001:4861::1"] {
        assert!(policy.allows(address(text)), "{text}");
    }
    assert_eq!(
        policy.to_string(),
        "public, private, 10.1.2.3/32 except 10.1.0.0/16, 2001:4860::/32, 8.8.8.8/32"
    );
    assert_eq!(AddressPolicy::new(&[], &[]).to_string(), "none");
}

#[test]
fn what_cannot_be_a_network_is_refused() {
    for (text, expected) in [
        ("", "is not"),
        ("Public", "is not"),
        ("10.0.0.0/", "is not"),
        ("10.0.0.0/33", "is not"),
        ("10.0.0.0/+8", "is not"),
        ("10.0.0.0/8/8", "is not"),
        ("10.0.0/8", "is not"),
        ("10.0.0.00/8", "is not"),
        ("::/129", "is not"),
        ("fe80::1%eth0", "is not"),
        ("localhost", "is not"),
        ("10.0.0.1/8", "the network is 10.0.0.0/8"),
        ("fd00::1/8", "the network is fd00::/8"),
        ("1.0.0.0/0", "the network is 0.0.0.0/0"),
        ("::ffff:10.0.0.0/104", "write the IPv4 network"),
        ("64:ff9b::/96", "write the IPv4 network"),
        ("2002:a00::/24", "never called"),
        ("2001::/32", "never called"),
        ("64:ff9b:1::/48", "never called"),
        ("::", "never called"),
        ("::/96", "never called"),
    ] {
        let error = text.parse::<AddressRange>().expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    for text in ["public", "0.0.0.0/0", "::/0", "10.0.0.0/8", "fd00::/8", "::1/128"] {
        assert_eq!(text.parse::<AddressRange>().expect(text).to_string(), text);
    }
}

/// Addresses at and beside the edges of every range that the rules name, and any others.
fn v4() -> impl Strategy<Value = Ipv4Addr> {
    let near = prop::sample::select(V4).prop_map(|(text, _)| text.parse::<Ipv4Addr>().expect("an address"));
    prop_oneof![
        any::<u32>().prop_map(Ipv4Addr::from_bits),
        (near, -2i32..=2).prop_map(|(near, by)| Ipv4Addr::from_bits(near.to_bits().wrapping_add_signed(by))),
    ]
}

fn v6() -> impl Strategy<Value = Ipv6Addr> {
    let near = prop::sample::select(V6).prop_map(|(text, _)| text.parse::<Ipv6Addr>().expect("an address"));
    prop_oneof![
        any::<u128>().prop_map(Ipv6Addr::from_bits),
        (near, -2i128..=2).prop_map(|(near, by)| Ipv6Addr::from_bits(near.to_bits().wrapping_add_signed(by))),
        v4().prop_flat_map(|v4| prop::sample::select(Vec::from(tunnelled(v4))))
            .prop_map(|form| if let IpAddr::V6(v6) = form { v6 } else { unreachable!("all forms are IPv6") }),
    ]
}

fn range() -> impl Strategy<Value = AddressRange> {
    let v4 = (v4(), 0u8..=32).prop_map(|(address, prefix)| Network { address: address.into(), prefix });
    let v6 = (v6(), 0u8..=128).prop_map(|(address, prefix)| Network { address: address.into(), prefix });
    let network = prop_oneof![v4, v6].prop_map(|network| AddressRange::Network(network.masked()));
    prop_oneof![prop::sample::select(&WORDS[..]), network]
}

/// Whether the standard library's own tests, which know fewer ranges, call the address special.
fn is_special_to_std(v4: Ipv4Addr) -> bool {
    v4.is_private()
        || v4.is_loopback()
        || v4.is_link_local()
        || v4.is_unspecified()
        || v4.is_broadcast()
        || v4.is_multicast()
        || v4.is_documentation()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4 * ProptestConfig::default().cases, ..ProptestConfig::default() })]

    #[test]
    fn the_forms_of_an_ipv4_address_are_judged_alike(
        v4 in v4(),
        allowed in prop::collection::vec(range(), 0..4),
        denied in prop::collection::vec(range(), 0..3),
    ) {
        let policy = AddressPolicy::new(&allowed, &denied);
        let plain = policy.allows(v4.into());
        prop_assert_eq!(policy.allows(mapped(v4)), plain);
        prop_assert_eq!(policy.allows(nat64(v4)), plain);
        for form in tunnelled(v4).into_iter().filter(|form| *form != IpAddr::V6(Ipv6Addr::LOCALHOST)) {
            prop_assert!(!policy.allows(form), "{} by {}", form, policy);
        }
    }

    #[test]
    fn a_denied_range_takes_away_and_an_allowed_one_adds(
        address in prop_oneof![v4().prop_map(IpAddr::V4), v6().prop_map(IpAddr::V6)],
        allowed in prop::collection::vec(range(), 0..4),
        denied in prop::collection::vec(range(), 0..3),
        more in range(),
    ) {
        let policy = AddressPolicy::new(&allowed, &denied);
        let with_more = |ranges: &[AddressRange]| [ranges, &[more]].concat();
        if policy.allows(address) {
            prop_assert!(AddressPolicy::new(&with_more(&allowed), &denied).allows(address));
        } else {
            prop_assert!(!AddressPolicy::new(&allowed, &with_more(&denied)).allows(address));
        }
        let only_denied = AddressPolicy::new(&with_more(&allowed), &with_more(&denied));
        prop_assert!(!only_denied.allows(address) || AddressPolicy::new(&allowed, &denied).allows(address));
    }

    #[test]
    fn at_most_one_word_allows_an_address(
        address in prop_oneof![v4().prop_map(IpAddr::V4), v6().prop_map(IpAddr::V6)],
    ) {
        let words = words(address);
        prop_assert!(words.len() <= 1, "{}: {:?}", address, words);
        if let IpAddr::V4(v4) = address && is_special_to_std(v4) {
            prop_assert!(!words.contains(&"public".to_owned()), "{}", v4);
        }
    }

    #[test]
    fn a_network_is_parsed_as_it_is_shown(range in range()) {
        match range.to_string().parse::<AddressRange>() {
            Ok(parsed) => prop_assert_eq!(parsed, range),
            Err(error) => prop_assert!(matches!(error, NetworkError::MeansIpv4 | NetworkError::NeverCalled)),
        }
    }
}
