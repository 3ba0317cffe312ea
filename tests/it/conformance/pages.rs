//! Operations in pages and slices: lists of topics, purges.

use linger::{
    job::{Topic, TopicSettings},
    store::{AddJob, Steps, TopicUpdates},
};

use crate::harness::{jobs::*, stores::StoreFixture, wait::StepLimit};

super::on_every_engine! {
    topics_are_listed_by_name_page_by_page,
    only_the_topics_of_the_scope_are_listed,
    a_purge_deletes_every_state_and_only_this_topic,
    a_purge_of_many_goes_slice_by_slice,
}

async fn topics_are_listed_by_name_page_by_page(fixture: StoreFixture) {
    let mut names: Vec<Topic> = (0..25).map(|n| topic(&format!("topic-{n}"))).collect();
    for (n, name) in names.iter().enumerate() {
        add(&*fixture.store, AddJob { topic: name.clone(), ..job(&n.to_string()) }).await;
    }
    let only_settings = topic("settings-only");
    let settings = TopicSettings { require_receipt: true, ..TopicSettings::default() };
    fixture.store.put_settings(&only_settings, settings).await.expect("puts");
    names.push(only_settings);
    names.sort();
    let (mut walked, mut step_limit): (Vec<Topic>, _) = (Vec::new(), StepLimit::new());
    loop {
        step_limit.step();
        let page = fixture.store.topics(ALL, walked.last(), 7).await.expect("lists");
        assert!(page.len() <= 7);
        if page.is_empty() {
            break;
        }
        walked.extend(page.into_iter().map(|(name, _)| name));
    }
    assert_eq!(walked, names);
}

async fn only_the_topics_of_the_scope_are_listed(fixture: StoreFixture) {
    let store = &*fixture.store;
    let names =
        ["a", "mail", "mail.de", "mail.en", "mail.en.x", "mails", "mailx-1", "o", "orders", "ready", "z"];
    for name in names {
        add(store, AddJob { topic: topic(name), ..job(name) }).await;
    }
    // Ready jobs of another outlet, and a topic without jobs.
    add(store, AddJob { topic: topic("mail.fr"), ..called("called", "https://one.example/") }).await;
    let settings = TopicSettings { require_receipt: true, ..TopicSettings::default() };
    store.put_settings(&topic("mail.it"), settings).await.expect("puts");
    let all = store.topics(ALL, None, 100).await.expect("lists");
    assert_eq!(all.len(), names.len() + 2);
    for patterns in [
        &["*"][..],
        &[],
        &["mail"],
        &["mail*"],
        &["mail.*"],
        &["mail.fr"],
        &["mail.en", "mail.e*", "mail.it"],
        &["z", "mail.en*", "a", "nobody", "o*"],
        &["r*"],
        &["maila", "mailz*"],
    ] {
        let scope = only(patterns);
        let expected: Vec<_> = all.iter().filter(|(name, _)| scope.allows(name)).cloned().collect();
        for limit in [1, 2, 100] {
            for from in [None, Some("a"), Some("mail"), Some("mail.en"), Some("mail.f"), Some("n"), Some("z")]
            {
                let (mut walked, mut after, mut step_limit) = (Vec::new(), from.map(topic), StepLimit::new());
                loop {
                    step_limit.step();
                    let page = store.topics(&scope, after.as_ref(), limit).await.expect("lists");
                    assert!(page.len() <= limit);
                    let Some((last, _)) = page.last() else { break };
                    after = Some(last.clone());
                    walked.extend(page);
                }
                let behind = expected.iter().filter(|(name, _)| from.is_none_or(|from| name.as_str() > from));
                let what = format!("{patterns:?} behind {from:?} in pages of {limit}");
                assert_eq!(walked, behind.cloned().collect::<Vec<_>>(), "{what}");
            }
        }
    }
}

async fn a_purge_deletes_every_state_and_only_this_topic(fixture: StoreFixture) {
    for name in ["dead", "reserved"] {
        add(&*fixture.store, job(name)).await;
        let held = reserve(&*fixture.store).await;
        if name == "dead" {
            fixture
                .store
                .bury(ALL, &held.job.id, &held.receipt, None)
                .await
                .expect("answers")
                .expect("is held");
        }
    }
    add(&*fixture.store, job("ready")).await;
    add(&*fixture.store, delayed("delayed", seconds(5))).await;
    add(&*fixture.store, delayed("far", seconds(9 * 365 * 86_400))).await;
    for name in ["t2", "s"] {
        add(&*fixture.store, AddJob { topic: topic(name), ..job(name) }).await;
    }
    assert_eq!(purge(&*fixture.store, &topic("t"), 100).await.0, 5);
    assert_eq!(fixture.store.topic(&topic("t")).await.expect("reads"), None);
    for name in ["dead", "reserved", "ready", "delayed", "far"] {
        assert_eq!(fixture.store.get(ALL, &id(name)).await.expect("gets"), None, "{name}");
    }
    fixture.advance_and_promote(seconds(86_400)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
    for name in ["t2", "s"] {
        let left = fixture.store.reserve(&plain(name), &claims(1), Wait::No).await.expect("reserves");
        assert_eq!(one(left).job.id, id(name));
    }
    assert_eq!(purge(&*fixture.store, &topic("t"), 100).await.0, 0);
}

async fn a_purge_of_many_goes_slice_by_slice(fixture: StoreFixture) {
    // Redis scans up to 512 small entries of a shard at once, whatever the limit.
    let many: Vec<_> = (0..4_000)
        .map(|n| AddJob { topic: topic(["t", "u"][n % 2]), ..delayed(&n.to_string(), seconds(n as u64)) })
        .collect();
    fixture.store.add(many).await.expect("adds");
    fixture.advance_and_promote(seconds(2_000)).await;
    let (deleted, slices) = purge(&*fixture.store, &topic("t"), 50).await;
    assert_eq!(deleted, 2_000);
    assert!(slices >= 10, "{slices} slices of at most 50");
    let left = fixture.store.topic(&topic("u")).await.expect("reads").expect("is there");
    assert_eq!(left.delayed + left.ready, 2_000);
}
