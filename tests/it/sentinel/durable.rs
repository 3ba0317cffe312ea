//! Changes that a replica must have taken, behind Sentinel: a shortfall is told, safe to repeat, and gives
//! a popped job back.

use std::sync::Arc;

use linger::{
    job::State,
    metrics::Metrics,
    store::{
        Added, Error, Store,
        redis::{self, Credentials, Mode, Options, TimeSource},
    },
};

use crate::harness::{
    jobs::*,
    sentinel::{SERVICE, Sentinels},
    stores::Recorder,
};

async fn connect(sentinels: &Sentinels) -> Arc<dyn Store> {
    let nodes = sentinels.sentinels.iter().map(|sentinel| sentinel.address().into()).collect();
    let mode = Mode::Sentinel { nodes, service: SERVICE.to_owned(), credentials: Credentials::default() };
    let options = Options { mode, wait_replicas: 1, ..Options::default() };
    let listener = Arc::new(Recorder::default());
    redis::connect(options, TimeSource::Server, listener, Metrics::new().engine).await.expect("connects")
}

/// Adds a job again and again until a replica has it.
async fn add_durably(store: &dyn Store, name: &str) -> Added {
    let adding = async {
        loop {
            match store.add(vec![job(name)]).await {
                Ok(added) => return one(added),
                Err(error) => assert!(matches!(error, Error::NotDurable(_)), "{error:?}"),
            }
        }
    };
    tokio::time::timeout(seconds(60), adding).await.expect("a replica takes it")
}

#[tokio::test]
async fn too_few_replicas_are_reported_and_a_repeat_is_safe() {
    let sentinels = Sentinels::start(&[]);
    let store = connect(&sentinels).await;
    assert!(store.info().durability.ends_with("1 replicas"));
    add_durably(&*store, "before").await;
    sentinels.servers[1..].iter().for_each(|replica| replica.pause());
    for _ in 0..2 {
        let short = store.add(vec![job("a")]).await;
        assert!(
            matches!(short, Err(Error::NotDurable(_))),
            "a repeat that writes nothing waits too: {short:?}"
        );
    }
    let popped = store.reserve(&topic("t"), &[None], Wait::No).await;
    assert!(matches!(popped, Err(Error::NotDurable(_))), "{popped:?}");
    for name in ["before", "a"] {
        let job = store.get(ALL, &id(name)).await.expect("gets").expect("is there");
        assert_eq!((job.state, job.attempts), (State::Ready, 0), "given back, and no attempt counted");
    }
    sentinels.servers[1..].iter().for_each(|replica| replica.resume());
    assert!(matches!(add_durably(&*store, "a").await, Added::Replayed(_)));
    let held = reserve(&*store).await;
    store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("finishes");
    store.close().await.expect("closes");
}
