//! Remembered ids: which ends are remembered, for how long, and what an add finds.

use linger::{
    job::{Fingerprint, IdEnd, RememberedId, State},
    store::{AddJob, Added, FinishJob, Finished, IfExists, JobChange, Outcome, Put, Refusal, Steps, Store},
};

use crate::harness::{
    jobs::*,
    lists::{change, see},
    records::{all_records, all_remembered},
    stores::{Engine, Settings, StoreFixture},
};

super::on_every_engine! {
    a_batch_of_remembered_ids_is_answered_in_order,
    many_remembered_ids_are_read_and_put_whole;
    the_id_of_a_finished_job_is_remembered_for_its_window,
    each_kind_of_finish_is_remembered,
    a_deleted_id_is_refused_for_its_window,
    only_a_finish_and_a_delete_by_id_are_remembered,
    an_id_of_another_topic_is_refused,
    jobs_without_a_window_are_not_looked_up,
    a_replacement_adds_the_job_anew,
    a_replacement_does_not_restore_an_older_version,
    a_paused_topic_recognises_a_repeat,
    a_remembered_id_waits_for_a_restart,
    what_is_remembered_can_be_put_into_another_store,
    the_id_of_a_job_that_is_put_is_not_remembered,
}

/// Job `a` of a topic that remembers ids for so many seconds.
fn windowed(n: u64) -> AddJob {
    AddJob { spec: JobSpec { dedup: Some(window(n)), ..JobSpec::default() }, ..job("a") }
}

fn other_request(job: AddJob) -> AddJob {
    AddJob { fingerprint: Fingerprint([9; 16]), ..job }
}

async fn finish_next(store: &dyn Store) {
    let held = reserve(store).await;
    assert_eq!(finish_held(store, &held).await, finished());
}

async fn finish_held(store: &dyn Store, held: &linger::store::Reservation) -> Outcome<Finished> {
    one(store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("answers"))
}

/// What an add finds, in a word, and when the remembered job ended.
fn word(added: &Outcome<Added>) -> &'static str {
    match added {
        Ok(Added::Created(_)) => "created",
        Ok(Added::Replaced(_)) => "replaced",
        Ok(Added::Replayed(_)) => "replayed",
        Ok(Added::FinishedBefore(remembered)) => {
            assert_eq!(remembered.end, IdEnd::Finished);
            "finished"
        }
        Err(Refusal::EndedBefore(remembered)) => match remembered.end {
            IdEnd::Finished => "refused: finished",
            IdEnd::Deleted => "refused: deleted",
        },
        Err(Refusal::OlderRevision { .. }) => "older",
        Err(Refusal::IntakePaused) => "paused",
        Err(_) => "refused",
    }
}

async fn add_word(store: &dyn Store, job: AddJob) -> &'static str {
    word(&add_any(store, job).await)
}

async fn the_id_of_a_finished_job_is_remembered_for_its_window(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, windowed(30)).await;
    fixture.clock.advance(seconds(5));
    finish_next(store).await;
    let ended_at = fixture.now();
    for wait in [0, 10, 19] {
        fixture.advance_and_promote(seconds(wait)).await;
        let Ok(Added::FinishedBefore(found)) = add_any(store, windowed(30)).await else {
            panic!("is not remembered after {wait} s more")
        };
        assert_eq!((&found.id, &found.topic, found.ended_at), (&id("a"), &topic("t"), ended_at));
        assert_eq!(add_word(store, other_request(windowed(30))).await, "refused: finished");
        assert_eq!(store.get(ALL, &id("a")).await.expect("gets"), None, "nothing was added");
        assert_eq!(reserve_any(store).await, None);
    }
    fixture.advance_and_promote(seconds(1)).await;
    assert_eq!(add_word(store, windowed(30)).await, "created", "the window has passed");
    assert_eq!(add_word(store, windowed(30)).await, "replayed");
    finish_next(store).await;
    assert_eq!(add_word(store, windowed(30)).await, "finished", "its id is remembered anew");
}

async fn each_kind_of_finish_is_remembered(fixture: StoreFixture) {
    let store = &*fixture.store;
    let with = |name: &str, max_attempts, url: Option<&str>| {
        let spec = JobSpec { max_attempts, callback: url.map(callback), ..windowed(600).spec };
        AddJob { id: id(name), spec, ..job(name) }
    };
    add(store, with("bare", 16, None)).await;
    reserve(store).await;
    let bare = vec![FinishJob { id: id("bare"), receipt: None }];
    assert_eq!(one(store.finish(ALL, bare).await.expect("answers")), finished());
    for (name, max_attempts) in [("late", 16), ("late-dead", 1)] {
        add(store, with(name, max_attempts, None)).await;
        let held = reserve(store).await;
        fixture.advance_and_promote(seconds(60)).await;
        assert_eq!(finish_held(store, &held).await, finished_late(), "{name}");
    }
    const URL: &str = "http://a.example/";
    add(store, with("called", 16, Some(URL))).await;
    let outlet = outlet_to(store, "t", URL);
    let held = one(store.reserve(&outlet, &claims(1), Wait::No).await.expect("reserves"));
    assert_eq!(finish_held(store, &held).await, finished());
    for (name, max_attempts, url) in
        [("bare", 16, None), ("late", 16, None), ("late-dead", 1, None), ("called", 16, Some(URL))]
    {
        assert_eq!(add_word(store, with(name, max_attempts, url)).await, "finished", "{name}");
    }
}

async fn a_deleted_id_is_refused_for_its_window(fixture: StoreFixture) {
    let store = &*fixture.store;
    for held in [false, true] {
        add(store, windowed(30)).await;
        if held {
            reserve(store).await;
        }
        let outcomes =
            store.delete(ALL, vec![id("a"), id("a")], DeleteRule::AnyState).await.expect("answers");
        let state = if held { State::Reserved } else { State::Ready };
        assert_eq!(outcomes, [deleted(state), Err(Refusal::Gone)]);
        for again in [windowed(30), other_request(windowed(30))] {
            assert_eq!(add_word(store, again).await, "refused: deleted", "also the same request");
        }
        fixture.advance_and_promote(seconds(30)).await;
    }
    assert_eq!(add_word(store, windowed(30)).await, "created");
    let foreign =
        store.delete(&only(&["other"]), vec![id("a")], DeleteRule::AnyState).await.expect("answers");
    assert_eq!(foreign, [Err(Refusal::Gone)]);
    finish_next(store).await;
    assert_eq!(add_word(store, windowed(30)).await, "finished", "a foreign delete is not remembered");
}

async fn only_a_finish_and_a_delete_by_id_are_remembered(fixture: StoreFixture) {
    let store = &*fixture.store;
    let in_topic = |name: &str| AddJob { id: id(name), ..windowed(600) };
    add(store, in_topic("changed")).await;
    let seen = see(store, "changed").await;
    assert_eq!(store.change(change(&seen, JobChange::Delete), None).await.expect("answers"), [true]);
    add(store, in_topic("purged")).await;
    purge(store, &topic("t"), 10).await;
    let expiring = |name: &str| {
        let expiry = linger::job::Expiry {
            expire: linger::job::Expire::After(delay(seconds(1))),
            on_expiry: linger::job::OnExpiry::Delete,
        };
        let spec = JobSpec { expiry: Some(expiry), ..windowed(600).spec };
        AddJob { spec, ..in_topic(name) }
    };
    add(store, expiring("expired")).await;
    fixture.advance_and_promote(seconds(1)).await;
    assert_eq!(store.get(ALL, &id("expired")).await.expect("gets"), None, "it has expired");
    for name in ["changed", "purged"] {
        assert_eq!(add_word(store, in_topic(name)).await, "created", "{name}");
    }
    assert_eq!(add_word(store, expiring("expired")).await, "created");
}

async fn an_id_of_another_topic_is_refused(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, windowed(30)).await;
    finish_next(store).await;
    let elsewhere = AddJob { topic: topic("u"), ..windowed(30) };
    for add in [elsewhere.clone(), AddJob { if_exists: replace_by("ops"), ..elsewhere.clone() }] {
        let Err(Refusal::EndedBefore(found)) = add_any(store, add).await else { panic!("is not refused") };
        assert_eq!(found.topic, topic("t"));
    }
    fixture.advance_and_promote(seconds(30)).await;
    assert_eq!(add_word(store, elsewhere).await, "created");
}

async fn jobs_without_a_window_are_not_looked_up(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, windowed(30)).await;
    finish_next(store).await;
    assert_eq!(add_word(store, job("a")).await, "created");
    finish_next(store).await;
    assert_eq!(add_word(store, job("a")).await, "created", "its finish is not remembered");
    finish_next(store).await;
    assert_eq!(add_word(store, windowed(30)).await, "finished", "the first end still is");
}

async fn a_replacement_adds_the_job_anew(fixture: StoreFixture) {
    let store = &*fixture.store;
    let replacing = || AddJob { if_exists: replace_by("ops"), ..windowed(600) };
    add(store, windowed(600)).await;
    finish_next(store).await;
    assert_eq!(add_word(store, replacing()).await, "created");
    assert_eq!(add_word(store, replacing()).await, "replaced");
    store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
    assert_eq!(add_word(store, windowed(600)).await, "refused: deleted");
    assert_eq!(add_word(store, replacing()).await, "created");
    purge(store, &topic("t"), 10).await;
    assert_eq!(
        add_word(store, windowed(600)).await,
        "created",
        "a job that was added anew is not remembered"
    );
}

async fn a_replacement_does_not_restore_an_older_version(fixture: StoreFixture) {
    let store = &*fixture.store;
    let revised = |revision| {
        let job = windowed(600);
        let spec = JobSpec { revision, ..job.spec };
        AddJob { spec, if_exists: replace_by("ops"), ..job }
    };
    add(store, revised(Some(7))).await;
    finish_next(store).await;
    assert_eq!(add_any(store, revised(Some(6))).await, Err(Refusal::OlderRevision { stored: 7 }));
    assert_eq!(add_word(store, other_request(revised(Some(7)))).await, "finished", "the revision counts");
    assert_eq!(add_word(store, revised(Some(8))).await, "created");
    store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
    assert_eq!(add_any(store, revised(Some(7))).await, Err(Refusal::OlderRevision { stored: 8 }));
    assert_eq!(add_word(store, revised(Some(8))).await, "refused: deleted", "a late repeat restores nothing");
    assert_eq!(add_word(store, revised(Some(9))).await, "created");
    finish_next(store).await;
    assert_eq!(add_word(store, revised(None)).await, "created");
    finish_next(store).await;
    assert_eq!(add_word(store, revised(Some(1))).await, "created", "the last one had no revision");
}

async fn a_paused_topic_recognises_a_repeat(fixture: StoreFixture) {
    let store = &*fixture.store;
    let paused = |job: AddJob| AddJob { is_paused: true, ..job };
    assert_eq!(add_word(store, paused(windowed(30))).await, "paused");
    add(store, windowed(30)).await;
    finish_next(store).await;
    assert_eq!(add_word(store, paused(windowed(30))).await, "finished");
    assert_eq!(add_word(store, paused(other_request(windowed(30)))).await, "refused: finished");
}

async fn a_remembered_id_waits_for_a_restart(mut fixture: StoreFixture) {
    add(&*fixture.store, windowed(600)).await;
    fixture.reopen().await;
    finish_next(&*fixture.store).await;
    fixture.reopen().await;
    assert_eq!(add_word(&*fixture.store, windowed(600)).await, "finished");
    fixture.advance_and_promote(seconds(600)).await;
    fixture.reopen().await;
    assert_eq!(add_word(&*fixture.store, windowed(600)).await, "created");
}

async fn what_is_remembered_can_be_put_into_another_store(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, windowed(600)).await;
    finish_next(store).await;
    let remembered: RememberedId = one(all_remembered(store).await);
    assert_eq!((remembered.ended_at, remembered.until), (fixture.now(), fixture.now().after(seconds(600))));
    let named = |name: &str| RememberedId { id: id(name), revision: Some(u64::MAX), ..remembered.clone() };
    let put = |ids: Vec<RememberedId>| store.put_remembered(ids);
    assert_eq!(put(vec![named("b"), remembered.clone()]).await.expect("puts"), [Put::Done, Put::Exists]);
    let earlier = RememberedId { ended_at: remembered.ended_at.shifted(-1), ..remembered.clone() };
    let later = RememberedId {
        ended_at: remembered.ended_at.shifted(1),
        until: remembered.until.shifted(-590_000),
        end: IdEnd::Deleted,
        ..named("b")
    };
    assert_eq!(put(vec![earlier, later.clone()]).await.expect("puts"), [Put::Differs, Put::Done]);
    assert_eq!(all_remembered(store).await, [remembered.clone(), later]);
    assert_eq!(add_word(store, AddJob { id: id("b"), ..windowed(600) }).await, "refused: deleted");
    fixture.advance_and_promote(seconds(10)).await;
    assert_eq!(add_word(store, AddJob { id: id("b"), ..windowed(600) }).await, "created");
    assert_eq!(add_word(store, windowed(600)).await, "finished");
    let passed = RememberedId { until: fixture.now(), ..named("c") };
    assert_eq!(put(vec![passed]).await.expect("puts"), [Put::Exists], "its window has passed");
    assert_eq!(add_word(store, AddJob { id: id("c"), ..windowed(600) }).await, "created");
}

async fn the_id_of_a_job_that_is_put_is_not_remembered(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, windowed(600)).await;
    let jobs = all_records(store).await.1;
    finish_next(store).await;
    assert_eq!(store.put(jobs).await.expect("puts"), [Put::Done]);
    purge(store, &topic("t"), 10).await;
    assert_eq!(add_word(store, windowed(600)).await, "created");
}

async fn a_batch_of_remembered_ids_is_answered_in_order(fixture: StoreFixture) {
    let store = &*fixture.store;
    let named = |name: &str| AddJob { id: id(name), ..windowed(600) };
    for name in ["a", "b", "c"] {
        add(store, named(name)).await;
    }
    let held = store.reserve(&plain("t"), &claims(3), Wait::No).await.expect("reserves");
    let receipt =
        |name: &str| held.iter().find(|held| held.job.id == id(name)).map(|held| held.receipt.clone());
    let item = |name: &str| FinishJob { id: id(name), receipt: receipt(name) };
    let outcomes = store.finish(ALL, vec![item("a"), item("a"), item("b")]).await.expect("answers");
    assert_eq!(outcomes, [finished(), Err(Refusal::Gone), finished()]);
    store.delete(ALL, vec![id("c")], DeleteRule::AnyState).await.expect("deletes");
    let replacing = AddJob { if_exists: replace_by("ops"), ..named("b") };
    let batch = vec![
        named("a"),
        named("b"),
        other_request(named("b")),
        replacing,
        named("b"),
        named("c"),
        AddJob { if_exists: IfExists::Keep, ..named("d") },
        job("e"),
        named("d"),
    ];
    let outcomes = store.add(batch).await.expect("adds");
    let expected = [
        "finished",
        "finished",
        "refused: finished",
        "created",
        "replayed",
        "refused: deleted",
        "created",
        "created",
        "replayed",
    ];
    assert_eq!(outcomes.iter().map(word).collect::<Vec<_>>(), expected);
}

async fn many_remembered_ids_are_read_and_put_whole(fixture: StoreFixture) {
    let store = &*fixture.store;
    let now = fixture.now();
    let ids: Vec<RememberedId> = (0..700)
        .map(|n| RememberedId {
            id: id(&format!("id-{n:03}")),
            topic: topic(if n % 2 == 0 { "t" } else { "u" }),
            end: IdEnd::ALL[n % 2],
            ended_at: now,
            until: now.after(seconds(9 + n as u64 % 7)),
            fingerprint: Fingerprint([7; 16]),
            revision: (n % 3 == 0).then_some(n as u64),
        })
        .collect();
    assert_eq!(store.put_remembered(ids.clone()).await.expect("puts"), vec![Put::Done; 700]);
    assert_eq!(all_remembered(store).await, ids);
    assert_eq!(store.put_remembered(ids.clone()).await.expect("puts"), vec![Put::Exists; 700]);
    // Each new one makes room by forgetting some that have passed.
    fixture.advance_and_promote(seconds(20)).await;
    for n in 0..300 {
        add(store, AddJob { id: id(&format!("new-{n}")), ..windowed(600) }).await;
        finish_next(store).await;
    }
    let left = all_remembered(store).await;
    assert!(left.len() < 350 || left.len() == 1_000, "{} are left; the model forgets none", left.len());
}

/// Each engine under test, which remembers four ids for each shard that a Redis has here.
async fn the_ids_whose_windows_end_first_are_forgotten_early(fixture: StoreFixture) {
    let store = &*fixture.store;
    let named = |n: u64| AddJob { id: id(&format!("id-{n}")), ..windowed(1_000 - n) };
    for n in 0..200 {
        add(store, named(n)).await;
        finish_next(store).await;
    }
    let left = all_remembered(store).await;
    assert!(left.len() <= MOST, "{} are left", left.len());
    assert!(left.len() >= MOST / 2, "{} are left", left.len());
    for n in 0..4 {
        assert_eq!(add_word(store, named(n)).await, "finished", "{n}: its window ends last");
    }
    assert_eq!(add_word(store, named(199)).await, "created", "its window would have ended first");
    let first = left.into_iter().min_by_key(|remembered| remembered.until).expect("some are left");
    let sooner = RememberedId { id: id("sooner"), until: fixture.now().after(seconds(1)), ..first };
    let put = store.put_remembered(vec![sooner]).await.expect("puts");
    // A shard of Redis may have room for it.
    assert!(put == [Put::Differs] || all_remembered(store).await.len() <= MOST, "{put:?}");
}

const MOST: usize = 64;

async fn with_a_small_limit(engine: Engine) {
    let settings = Settings { dedup_max: Some(MOST as u64), ..Settings::default() };
    StoreFixture::run_with(engine, settings, the_ids_whose_windows_end_first_are_forgotten_early).await;
}

#[tokio::test]
async fn the_embedded_engine_forgets_the_ids_whose_windows_end_first() {
    with_a_small_limit(Engine::Embedded).await;
}

#[tokio::test]
async fn redis_forgets_the_ids_whose_windows_end_first() {
    with_a_small_limit(Engine::Redis).await;
}
