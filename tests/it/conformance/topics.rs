//! Changes by id that are meant for one topic: another topic's job is as good as none.

use linger::{
    job::Delay,
    store::{Deleted, Patch, Patched, Requeued},
};

use crate::harness::{jobs::*, stores::Bench};

super::on_every_engine! {
    a_job_of_another_topic_is_not_deleted,
    a_job_of_another_topic_is_not_patched,
    a_job_of_another_topic_is_not_requeued,
}

async fn a_job_of_another_topic_is_not_deleted(bench: Bench) {
    let ids = || vec![id("ready"), id("delayed"), id("reserved"), id("nobody")];
    add(&*bench.store, job("reserved")).await;
    reserve(&*bench.store).await;
    add(&*bench.store, job("ready")).await;
    add(&*bench.store, delayed("delayed", seconds(60))).await;
    let mut before = Vec::new();
    for id in ids() {
        before.push(bench.store.get(&id).await.expect("gets"));
    }
    let foreign = bench.store.delete_in(&topic("other"), ids()).await.expect("answers");
    assert_eq!(foreign, [const { Deleted::Gone }; 4]);
    for (id, before) in ids().iter().zip(before) {
        assert_eq!(bench.store.get(id).await.expect("gets"), before);
    }
    let done = || Deleted::Done { topic: topic("t") };
    let own = bench.store.delete_in(&topic("t"), ids()).await.expect("answers");
    assert_eq!(own, [done(), done(), done(), Deleted::Gone]);
    assert_eq!(bench.store.get(&id("ready")).await.expect("gets"), None);
}

async fn a_job_of_another_topic_is_not_patched(bench: Bench) {
    let later = || Patch { ttr: Some(ttr(7)), ..Patch::default() };
    let now = || Patch { due: Some(linger::job::Due::default()), ..Patch::default() };
    for job in [job("ready"), delayed("delayed", seconds(60))] {
        let added = add(&*bench.store, job).await;
        for patch in [later(), now()] {
            let foreign = bench.store.patch_in(&topic("other"), &added.id, patch).await;
            assert_eq!(foreign.expect("answers"), Patched::Gone);
            assert_eq!(bench.store.get(&added.id).await.expect("gets").as_ref(), Some(&added));
        }
        for patch in [later(), now()] {
            let own = bench.store.patch_in(&topic("t"), &added.id, patch).await.expect("answers");
            assert!(matches!(own, Patched::Done(job) if job.ttr == ttr(7)));
        }
    }
}

async fn a_job_of_another_topic_is_not_requeued(bench: Bench) {
    add(&*bench.store, job("a")).await;
    let at_once = Delay::default();
    let foreign = bench.store.requeue_in(&topic("other"), &id("a"), at_once).await.expect("answers");
    assert_eq!(foreign, Requeued::Gone, "that it is not dead is nobody else's business");
    let held = reserve(&*bench.store).await;
    let dead = bench.store.bury(&id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    let foreign = bench.store.requeue_in(&topic("other"), &id("a"), at_once).await.expect("answers");
    assert_eq!(foreign, Requeued::Gone);
    assert_eq!(bench.store.get(&id("a")).await.expect("gets"), Some(dead));
    let own = bench.store.requeue_in(&topic("t"), &id("a"), at_once).await.expect("answers");
    assert!(matches!(own, Requeued::Done(_)));
}
