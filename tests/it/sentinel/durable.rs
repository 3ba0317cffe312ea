//! Changes that a replica must have received, behind Sentinel: if too few replicas acknowledge, the caller is told, a repeat
//! is safe, and a popped job is returned.

use std::sync::Arc;

use linger::{
    job::State,
    metrics::Metrics,
    store::{
        Added, Error, Outcome, Store,
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

/// Adds a job again and again until a replica acknowledges it.
async fn add_durably(store: &dyn Store, name: &str) -> Outcome<Added> {
    let added = async {
        loop {
            match store.add(vec![job(name)]).await {
                Ok(added) => return one(added),
                Err(Error::NotDurable(_) | Error::Unavailable(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    tokio::time::timeout(seconds(60), added).await.expect("a replica acknowledges the add")
}

#[tokio::test]
async fn too_few_replicas_are_reported_and_a_repeat_is_safe() {
    let sentinels = Sentinels::start(&[]);
    // The primary is not to be replaced in this test, not even on a machine that holds it up for seconds.
    sentinels.set_down_after(60_000);
    let store = connect(&sentinels).await;
    assert!(store.info().durability.ends_with("1 replicas"));
    add_durably(&*store, "before").await.expect("is not refused");
    sentinels.servers[1..].iter().for_each(|replica| replica.pause());
    for _ in 0..2 {
        let short = store.add(vec![job("a")]).await;
        assert!(
            matches!(short, Err(Error::NotDurable(_))),
            "a repeat that writes nothing also waits for the replica: {short:?}"
        );
    }
    let popped = store.reserve(&plain("t"), &claims(1), Wait::No).await;
    assert!(matches!(popped, Err(Error::NotDurable(_))), "{popped:?}");
    for name in ["before", "a"] {
        let job = store.get(ALL, &id(name)).await.expect("gets").expect("is there");
        assert_eq!((job.state(), job.attempts), (State::Ready, 0), "the job was returned uncounted");
    }
    sentinels.servers[1..].iter().for_each(|replica| replica.resume());
    assert!(matches!(add_durably(&*store, "a").await, Ok(Added::Replayed(_))));
    let reserved = reserve(&*store).await;
    store.finish(ALL, finish(&reserved.job.id, &reserved.receipt)).await.expect("finishes");
    store.close().await.expect("closes");
}
