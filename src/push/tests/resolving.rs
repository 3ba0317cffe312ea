//! Names: each is looked up once, and only checked addresses are connected to.

use std::{
    io,
    net::Ipv4Addr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    fixture::{FakeResolver, Fixture, NO_CONTENT, addresses, let_others_run, networks},
    receiver::{Receiver, soon},
};
use crate::{
    clock::ManualClock,
    config::CallbackSettings,
    job::Timestamp,
    push::{CallFailure, resolve::Names},
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
    // Nobody listens on the second one.
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
        fixture.clock.advance(CallbackSettings::default().connect_timeout);
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
    let name: Arc<str> = "a.example".into();
    let opening = async {
        let_others_run().await;
        resolver.open_gate();
    };
    let (one, other, ()) =
        soon(async { tokio::join!(names.look_up(&name), names.look_up(&name), opening) }).await;
    assert_eq!((one, resolver.lookups()), (other, 1));
    clock.advance(Duration::from_millis(4_999));
    names.look_up(&name).await.expect("is known");
    assert_eq!(resolver.lookups(), 1);
    clock.advance(Duration::from_millis(1));
    names.look_up(&name).await.expect("is found again");
    assert_eq!(resolver.lookups(), 2);
}

#[tokio::test]
async fn few_names_are_looked_up_at_a_time_and_given_up_ones_are_not() {
    let (names, resolver, _) = names();
    resolver.close_gate();
    let given_up: Vec<_> = (0..100).map(|number| look_up(&names, format!("name{number}"))).collect();
    let_others_run().await;
    assert_eq!(resolver.running.load(Ordering::Relaxed), 32);
    // The 32 that began go on, since the system cannot interrupt them; the others never begin.
    given_up.iter().for_each(tokio::task::JoinHandle::abort);
    let_others_run().await;
    resolver.open_gate();
    let_others_run().await;
    assert_eq!(resolver.lookups(), 32);
    soon(look_up(&names, "name99".to_owned())).await.expect("is looked up").expect("is found");
    assert_eq!(resolver.lookups(), 33);
}

fn names() -> (Names, Arc<FakeResolver>, Arc<ManualClock>) {
    let resolver = Arc::new(FakeResolver::default());
    let clock = ManualClock::new(Timestamp::from_millis(0));
    (Names::new(resolver.clone(), clock.clone()), resolver, clock)
}

fn look_up(
    names: &Names,
    name: String,
) -> tokio::task::JoinHandle<Result<Arc<[std::net::IpAddr]>, CallFailure>> {
    let names = names.clone();
    tokio::spawn(async move { names.look_up(&name.into()).await })
}
