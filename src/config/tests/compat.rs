//! Sections `[compat.ouqiang]` and `[compat.lmstfy]`: who may call.

use super::*;
use crate::job::{Topic, TopicFilter};

#[test]
fn the_dialect_is_off_and_waits_as_the_old_server_did() {
    let found = load(Sources::default(), Purpose::Serve).expect("the defaults are valid").config.ouqiang;
    assert_eq!((found.listen, found.allow_anonymous), (None, false));
    assert_eq!((found.topics, found.max_wait), (TopicFilter::ALL, Duration::from_secs(178)));
}

#[test]
fn only_loopback_needs_no_permission() {
    let section = |text: &str| faults(&format!("[compat.ouqiang]\n{text}"), &[]);
    for accepted in
        ["listen = '9278'", "listen = '[::1]:9278'", "listen = '0.0.0.0:9278'\nallow_anonymous = true"]
    {
        assert_eq!(section(accepted), [""; 0], "{accepted}");
    }
    let found = section("listen = '0.0.0.0:9278'");
    let expected = "compat.ouqiang.listen: 0.0.0.0:9278 is an address that others can reach";
    assert!(matches!(&found[..], [one] if one.starts_with(expected)), "{found:?}");
    // With tokens for the native API, too.
    let tokens = "[auth]\ntokens_file = 'tokens'\n[compat.ouqiang]\nlisten = '0.0.0.0:9278'";
    assert_eq!(faults(tokens, &[]), found);
}

#[test]
fn the_port_of_the_native_api_is_taken() {
    let found = faults("[compat.ouqiang]\nlisten = '9277'", &[]);
    let expected =
        "compat.ouqiang.listen: 127.0.0.1:9277 is server.listen too; give one of them another port";
    assert_eq!(found, [expected]);
    assert_eq!(faults("[server]\nlisten = '0'\n[compat.ouqiang]\nlisten = '0'", &[]), [""; 0]);
}

#[test]
fn a_listener_for_lmstfy_needs_tokens_beyond_loopback() {
    let found = load(Sources::default(), Purpose::Serve).expect("the defaults are valid").config.lmstfy;
    assert_eq!((found.listen, found.max_wait), (None, Duration::from_secs(600)));
    let listen = "[compat.lmstfy]\nlisten = '0.0.0.0:7777'\n";
    let found = faults(listen, &[]);
    let expected = "compat.lmstfy.listen: 0.0.0.0:7777 is an address that others can reach";
    assert!(matches!(&found[..], [one] if one.starts_with(expected)), "{found:?}");
    for accepted in ["[auth]\ntokens_file = 'tokens'\n", "[auth]\nallow_anonymous = true\n"] {
        assert_eq!(faults(&format!("{accepted}{listen}"), &[]), [""; 0], "{accepted}");
    }
    assert_eq!(faults("[compat.lmstfy]\nlisten = '7777'", &[]), [""; 0]);
}

#[test]
fn each_listener_has_an_address_of_its_own() {
    let found = faults("[compat.lmstfy]\nlisten = '7777'\n[compat.ouqiang]\nlisten = '7777'", &[]);
    let expected =
        "compat.lmstfy.listen: 127.0.0.1:7777 is compat.ouqiang.listen too; give one of them another port";
    assert_eq!(found, [expected]);
    let found = faults("[compat.lmstfy]\nlisten = '9277'", &[]);
    assert!(found[0].starts_with("compat.lmstfy.listen: 127.0.0.1:9277 is server.listen too"), "{found:?}");
}

#[test]
fn topics_are_names_and_prefixes() {
    let variable = [("LINGER__COMPAT__OUQIANG__TOPICS", "orders, mail-*")];
    let topics = load_with("", &variable, &[]).expect("is valid").config.ouqiang.topics;
    for (topic, is_allowed) in [("orders", true), ("mail-new", true), ("orders-2", false), ("mail", false)] {
        assert_eq!(topics.allows(&Topic::parse(topic).expect("a topic")), is_allowed, "{topic}");
    }
    let found = faults("[compat.ouqiang]\ntopics = ['a b']", &[]);
    assert!(found[0].starts_with("compat.ouqiang.topics: \"a b\" may only hold"), "{found:?}");
}
