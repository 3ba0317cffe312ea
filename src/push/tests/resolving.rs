//! Names: each is looked up once, and only checked addresses are connected to.

use std::{
    io,
    net::Ipv4Addr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    fixture::{FakeResolver, Fixture, NO_CONTENT, addresses, let_others_run, networks, request},
    receiver::{Receiver, soon},
};
use crate::{
    clock::ManualClock,
    config::CallbackSettings,
    job::{Timestamp, Topic},
    push::{
        CallFailure,
        connect::CONNECT_TIMEOUT,
        resolve::{Found, Names},
    },
};

const REFUSED: CallFailure = CallFailure::AddressRefused { key: "callbacks.allow_networks" };

async fn fixture(allowed: &[&str]) -> Fixture {
    Fixture::with(CallbackSettings { networks: networks(allowed), ..CallbackSettings::default() }).await
}

#[tokio::test]
async fn the_address_that_was_checked_is_the_one_that_is_called() {
    let fixture = fixture(&["127.0.0.1"]).await;
    let forbidden = Receiver::listen(Ipv4Addr::new(127, 0, 0, 2), fixture.receiver.port()).await;
    fixture.resolver.push(Ok(addresses(&["127.0.0.1"])));
    fixture.resolver.push(Ok(addresses(&["127.0.0.2"])));
    let request = fixture.request_to("http://rebind.example");
    soon(async {
        tokio::select! {
            (called, _) = async {
                tokio::join!(fixture.caller.call(request), fixture.receiver.answer(NO_CONTENT))
            } => assert_eq!(called.expect("an answer").status, 204),
            _ = forbidden.accept() => panic!("a forbidden address was called"),
        }
    })
    .await;
    assert_eq!(fixture.resolver.lookups(), 1, "a second lookup could give another address");
}

#[tokio::test]
async fn a_name_whose_second_lookup_would_be_allowed_is_refused() {
    for first in ["93.184.215.14", "127.0.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"]
    {
        let fixture = fixture(&["127.0.0.2"]).await;
        fixture.resolver.push(Ok(addresses(&[first])));
        fixture.resolver.push(Ok(addresses(&["127.0.0.2"])));
        let called = soon(fixture.caller.call(fixture.request_to("http://rebind.example"))).await;
        assert_eq!(called.expect_err("is refused"), REFUSED, "{first}");
        assert_eq!(fixture.resolver.lookups(), 1);
    }
}

#[tokio::test]
async fn public_names_cannot_lead_to_this_machine() {
    let fixture = fixture(&["public", "private"]).await;
    for inside in
        ["127.0.0.1", "::1", "::", "0.0.0.0", "169.254.169.254", "::ffff:127.0.0.1", "fd00:ec2::254"]
    {
        fixture.resolver.push(Ok(addresses(&[inside])));
        let request = fixture.request_to(&format!("http://a{}.example", fixture.resolver.lookups()));
        assert_eq!(soon(fixture.caller.call(request)).await.expect_err("is refused"), REFUSED, "{inside}");
    }
}

#[tokio::test]
async fn of_several_addresses_only_the_allowed_ones_are_tried() {
    let fixture = fixture(&["127.0.0.1", "127.0.0.3"]).await;
    let forbidden = Receiver::listen(Ipv4Addr::new(127, 0, 0, 2), fixture.receiver.port()).await;
    // Nothing listens on 127.0.0.3.
    fixture.resolver.push(Ok(addresses(&["127.0.0.2", "127.0.0.3", "169.254.169.254", "127.0.0.1"])));
    let request = fixture.request_to("http://mixed.example");
    soon(async {
        tokio::select! {
            (called, _) = async {
                tokio::join!(fixture.caller.call(request), fixture.receiver.answer(NO_CONTENT))
            } => assert_eq!(called.expect("an answer").status, 204),
            _ = forbidden.accept() => panic!("a forbidden address was called"),
        }
    })
    .await;
}

#[tokio::test]
async fn a_name_that_is_not_found_fails_the_call() {
    let fixture = Fixture::new().await;
    fixture.resolver.push(Ok(Vec::new()));
    fixture.resolver.push(Err(io::Error::other("no such name")));
    for host in ["http://empty.example", "http://missing.example"] {
        let failure = soon(fixture.caller.call(fixture.request_to(host))).await.expect_err("has no address");
        assert!(matches!(failure, CallFailure::Dns(_)), "{failure}");
    }
}

#[tokio::test]
async fn a_resolver_that_is_too_slow_fails_the_call() {
    let fixture = Fixture::new().await;
    fixture.resolver.close_gate();
    let waiting = async {
        let_others_run().await;
        fixture.clock.advance(CONNECT_TIMEOUT);
    };
    let call = fixture.caller.call(fixture.request_to("http://slow.example"));
    let (called, ()) = soon(async { tokio::join!(call, waiting) }).await;
    let failure = called.expect_err("the resolver is slow");
    assert!(matches!(failure, CallFailure::Dns(_)), "{failure}");
}

#[tokio::test]
async fn concurrent_callers_share_a_lookup_and_its_result_is_kept_for_a_while() {
    let (names, resolver, clock) = names();
    resolver.close_gate();
    let opening = async {
        let_others_run().await;
        resolver.open_gate();
    };
    let found = || async { names.found("a", "a.example").await };
    let (one, other, ()) = soon(async { tokio::join!(found(), found(), opening) }).await;
    assert_eq!((one, resolver.lookups()), (other, 1));
    clock.advance(Duration::from_millis(4_999));
    found().await.expect("is known");
    assert_eq!(resolver.lookups(), 1);
    clock.advance(Duration::from_millis(1));
    found().await.expect("is found again");
    assert_eq!(resolver.lookups(), 2);
}

#[tokio::test]
async fn names_that_hang_do_not_hold_up_other_topics() {
    let (names, resolver, _) = names();
    (0..400).for_each(|n| drop(names.spawn("hostile", format!("hang{n}.example"))));
    let_others_run().await;
    assert_eq!(resolver.running.load(Ordering::Relaxed), 8, "of one topic");
    for n in 0..20 {
        soon(names.found("innocent", &format!("new{n}.example"))).await.expect("is found at once");
    }
}

#[tokio::test]
async fn names_that_hang_do_not_hold_up_those_that_were_found() {
    let (names, resolver, clock) = names();
    names.found("innocent", "known.example").await.expect("is found");
    for topic in 0..100 {
        (0..8)
            .for_each(|n| drop(names.spawn(&format!("hostile{topic}"), format!("hang{topic}-{n}.example"))));
    }
    let_others_run().await;
    assert_eq!(resolver.running.load(Ordering::Relaxed), 64, "of all topics");
    clock.advance(Names::KEEP);
    soon(names.found("innocent", "known.example")).await.expect("is found again");
    assert_eq!(resolver.lookups(), 66);
}

#[tokio::test]
async fn a_name_that_was_found_is_remembered_beside_ten_thousand_others() {
    let (names, resolver, clock) = names();
    names.found("innocent", "known.example").await.expect("is found");
    for n in 0..10_000 {
        names.found("hostile", &format!("made-up{n}.example")).await.expect("is found");
    }
    (0..64).for_each(|n| drop(names.spawn(&format!("hostile{n}"), format!("hang{n}.example"))));
    let_others_run().await;
    clock.advance(Names::KEEP);
    soon(names.found("innocent", "known.example")).await.expect("is found again");
    assert_eq!(resolver.running.load(Ordering::Relaxed), 64);
}

#[tokio::test]
async fn waits_that_are_given_up_look_nothing_up() {
    let (names, resolver, _) = names();
    resolver.close_gate();
    let given_up: Vec<_> = (0..100).map(|n| names.spawn("a", format!("name{n}"))).collect();
    let_others_run().await;
    assert_eq!(resolver.running.load(Ordering::Relaxed), 8);
    // The 8 that began go on, since the system cannot interrupt them; the others never begin.
    given_up.iter().for_each(tokio::task::JoinHandle::abort);
    let_others_run().await;
    resolver.open_gate();
    let_others_run().await;
    assert_eq!(resolver.lookups(), 8);
    soon(names.found("a", "name99")).await.expect("is found");
    assert_eq!(resolver.lookups(), 9);
}

#[tokio::test]
async fn a_caller_without_a_permit_goes_on_when_another_topic_looks_its_name_up() {
    let (names, resolver, _) = names();
    (0..8).for_each(|n| drop(names.spawn("a", format!("hang{n}.example"))));
    let_others_run().await;
    let waiting = names.spawn("a", "shared.example".to_owned());
    let_others_run().await;
    assert!(!waiting.is_finished());
    names.found("b", "shared.example").await.expect("is found");
    soon(waiting).await.expect("goes on").expect("is found");
    assert_eq!(resolver.lookups(), 9);
}

#[tokio::test]
async fn waiting_for_a_permit_is_no_part_of_a_call() {
    let fixture = Fixture::new().await;
    let topic = Topic::parse("t").expect("valid");
    let hanging: Vec<_> = (0..8).map(|n| request(&format!("http://hang{n}.example")).origin).collect();
    for origin in &hanging {
        drop(fixture.caller.prepare(Some(&topic), origin).await);
    }
    let request = fixture.request_to("http://good.example");
    let prepare = fixture.caller.prepare(Some(&topic), &request.origin);
    let passing = async {
        let_others_run().await;
        fixture.clock.advance(10 * CONNECT_TIMEOUT);
        fixture.caller.prepare(None, &request.origin).await
    };
    let (prepared, _) = soon(async { tokio::join!(prepare, passing) }).await;
    let called = fixture.caller.call_for_head(request.clone(), prepared);
    let (called, _) = soon(async { tokio::join!(called, fixture.receiver.answer(NO_CONTENT)) }).await;
    assert_eq!(called.expect("an answer").0.status, 204);
}

fn names() -> (Names, Arc<FakeResolver>, Arc<ManualClock>) {
    let resolver = Arc::new(FakeResolver::default());
    let clock = ManualClock::new(Timestamp::from_millis(0));
    (Names::new(resolver.clone(), clock.clone()), resolver, clock)
}

impl Names {
    async fn found(&self, topic: &str, name: &str) -> Found {
        let topic = Topic::parse(topic).expect("valid");
        self.begin(Some(&topic), &name.into()).await.found().await
    }

    fn spawn(&self, topic: &str, name: String) -> tokio::task::JoinHandle<Found> {
        let (names, topic) = (self.clone(), topic.to_owned());
        tokio::spawn(async move { names.found(&topic, &name).await })
    }
}
