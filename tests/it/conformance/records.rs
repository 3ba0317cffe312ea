//! Whole records: everything that is put is read again, and a job lives on where it was put as if it had been there always.

use linger::{
    job::{Fingerprint, Job, JobId, Receipt, State},
    store::{AddJob, Added, JobRecord, Put, Refusal, Release, ScheduleUpdates, Steps, Store, TopicUpdates},
};

use crate::harness::{jobs::*, records::*, stores::StoreFixture};

super::on_every_engine! {
    everything_that_was_put_is_read,
    every_job_of_many_is_on_one_page,
    a_job_that_was_put_is_finished_by_its_receipt,
    a_reservation_that_was_put_ends_at_its_deadline,
    a_reservation_that_was_put_can_be_cancelled,
    a_repeated_add_of_a_job_that_was_put_is_recognised,
    a_job_that_was_put_becomes_ready_when_it_is_due,
    a_ready_job_that_was_put_is_announced,
    a_dead_letter_that_was_put_is_requeued,
    a_job_that_is_there_stays,
    another_job_with_the_id_stays,
    what_is_set_for_a_topic_is_put_once,
    every_schedule_of_many_is_on_one_page,
    a_schedule_that_is_there_stays_until_it_is_replaced,
}

async fn put(store: &dyn Store, record: &JobRecord) -> Put {
    one(store.put(vec![record.clone()]).await.expect("puts"))
}

async fn everything_that_was_put_is_read(fixture: StoreFixture) {
    let store = &*fixture.store;
    assert_eq!(all_records(store).await, (Vec::new(), Vec::new()));
    let mut called = dead_record(&fixture, "e");
    called.job.spec.callback = Some(callback("http://other.example/"));
    let jobs = vec![
        delayed_record(&fixture, "a"),
        full_record(&fixture, "b"),
        record(&fixture, "c"),
        dead_record(&fixture, "d"),
        called,
    ];
    assert_eq!(store.put(jobs.clone()).await.expect("puts"), [Put::Done; 5]);
    assert_eq!(store.put_topic(topic_record("u")).await.expect("puts"), Put::Done);
    assert_eq!(all_records(store).await, (vec![topic_record("u")], jobs.clone()));
    for record in jobs {
        assert_eq!(get(store, &record.job.id).await, record.job, "it is what callers see");
    }
}

async fn get(store: &dyn Store, id: &JobId) -> Job {
    store.get(ALL, id).await.expect("answers").expect("is there")
}

async fn every_job_of_many_is_on_one_page(fixture: StoreFixture) {
    let store = &*fixture.store;
    let kinds = [record, delayed_record, reserved_record, dead_record];
    let make = |n: usize| kinds[n % 4](&fixture, &format!("job-{n:04}"));
    let jobs: Vec<JobRecord> = (0..2_100).map(make).collect();
    assert!(store.put(jobs.clone()).await.expect("puts").iter().all(|put| *put == Put::Done));
    assert!(all_records(store).await.1 == jobs, "each is there once");
}

async fn a_job_that_was_put_is_finished_by_its_receipt(fixture: StoreFixture) {
    let store = &*fixture.store;
    for record in [reserved_record(&fixture, "a"), full_record(&fixture, "b")] {
        put(store, &record).await;
        let id = &record.job.id;
        let wrong = store.finish(ALL, finish(id, &Receipt::generate())).await.expect("answers");
        assert_eq!(one(wrong), Err(Refusal::Lost));
        let held = record.receipt.expect("is reserved");
        let touched = store.touch(ALL, id, &held, None).await.expect("answers").expect("is held");
        assert_eq!(touched.reserved_until(), Some(fixture.now().after(record.job.spec.ttr.as_duration())));
        let done = store.finish(ALL, finish(id, &held)).await.expect("answers");
        assert_eq!(one(done), finished());
    }
    assert_eq!(all_records(store).await.1, []);
}

async fn a_reservation_that_was_put_ends_at_its_deadline(fixture: StoreFixture) {
    let store = &*fixture.store;
    let record = reserved_record(&fixture, "a");
    put(store, &record).await;
    fixture.advance_and_promote(millis(19_999)).await;
    assert_eq!(get(store, &id("a")).await, record.job);
    fixture.advance_and_promote(millis(1)).await;
    let back = get(store, &id("a")).await;
    assert_eq!((back.state(), back.attempts), (State::Ready, 3));
    let again = reserve(store).await;
    assert_eq!((again.job.attempts, again.job.history.entries().count()), (4, 1));
    let released = store.release(ALL, &id("a"), &again.receipt, Release::default()).await.expect("answers");
    assert_eq!(released.expect("is held").attempts, 4);
}

async fn a_reservation_that_was_put_can_be_cancelled(fixture: StoreFixture) {
    let store = &*fixture.store;
    let record = reserved_record(&fixture, "a");
    put(store, &record).await;
    let receipt = record.receipt.expect("is reserved");
    store.cancel(vec![(id("a"), receipt)]).await.expect("cancels");
    let back = get(store, &id("a")).await;
    assert_eq!((back.state(), back.attempts), (State::Ready, 2), "its attempt does not count");
}

async fn a_repeated_add_of_a_job_that_was_put_is_recognised(fixture: StoreFixture) {
    let store = &*fixture.store;
    let record = record(&fixture, "a");
    put(store, &record).await;
    let repeated = AddJob { fingerprint: record.fingerprint, ..job("a") };
    assert_eq!(add_any(store, repeated).await, Ok(Added::Replayed(record.job)));
    assert!(matches!(add_any(store, job("a")).await, Err(Refusal::Exists { state: State::Ready, .. })));
}

async fn a_job_that_was_put_becomes_ready_when_it_is_due(fixture: StoreFixture) {
    let store = &*fixture.store;
    put(store, &delayed_record(&fixture, "a")).await;
    fixture.advance_and_promote(millis(89_999)).await;
    assert_eq!(reserve_any(store).await, None, "not early");
    fixture.advance_and_promote(millis(1)).await;
    assert_eq!(reserve(store).await.job.id, id("a"));
}

async fn a_ready_job_that_was_put_is_announced(fixture: StoreFixture) {
    let store = &*fixture.store;
    fixture.notifications.take_ready();
    put(store, &record(&fixture, "a")).await;
    assert!(fixture.notifications.take_ready().contains(&plain("t")));
    let mut called = record(&fixture, "b");
    called.job.spec.callback = Some(callback("http://b.example/"));
    put(store, &called).await;
    let outlet = outlet_to(store, "t", "http://b.example/");
    assert!(fixture.notifications.take_ready().contains(&outlet));
    let taken = one(store.reserve(&outlet, &claims(1), Wait::No).await.expect("reserves"));
    assert_eq!(taken.job.id, id("b"), "it is delivered to its own host");
}

async fn a_dead_letter_that_was_put_is_requeued(fixture: StoreFixture) {
    let store = &*fixture.store;
    put(store, &dead_record(&fixture, "a")).await;
    let stats = store.topic(&topic("t")).await.expect("answers").expect("has a job");
    assert_eq!((stats.dead, stats.ready), (1, 0));
    store.requeue(ALL, &id("a"), after(seconds(0)), None).await.expect("requeues").expect("is not refused");
    assert_eq!(reserve(store).await.job.attempts, 1);
}

async fn a_job_that_is_there_stays(fixture: StoreFixture) {
    let store = &*fixture.store;
    let record = record(&fixture, "a");
    assert_eq!(put(store, &record).await, Put::Done);
    assert_eq!(put(store, &record).await, Put::Exists);
    let held = reserve(store).await;
    assert_eq!(put(store, &record).await, Put::Exists, "it has moved on since");
    assert_eq!(get(store, &id("a")).await, held.job);
    let twice = vec![delayed_record(&fixture, "b"), delayed_record(&fixture, "b")];
    assert_eq!(store.put(twice).await.expect("puts"), [Put::Done, Put::Exists]);
}

async fn another_job_with_the_id_stays(fixture: StoreFixture) {
    let store = &*fixture.store;
    let first = record(&fixture, "a");
    put(store, &first).await;
    let other_request = JobRecord { fingerprint: Fingerprint([1; 16]), ..first.clone() };
    let mut other_topic = first.clone();
    other_topic.job.topic = topic("u");
    let mut later = first.clone();
    later.job.created_at = fixture.now();
    let put = store.put(vec![other_request, other_topic, later]).await.expect("puts");
    assert_eq!(put, [Put::Differs; 3]);
    assert_eq!(all_records(store).await.1, [first]);
}

async fn what_is_set_for_a_topic_is_put_once(fixture: StoreFixture) {
    let store = &*fixture.store;
    let record = topic_record("t");
    assert_eq!(store.put_topic(record.clone()).await.expect("puts"), Put::Done);
    assert_eq!(store.put_topic(record.clone()).await.expect("puts"), Put::Exists);
    assert_eq!(*store.topic_config(&topic("t")), record.config);
    let mut other = record.clone();
    other.config.pause = TopicPause::default();
    assert_eq!(store.put_topic(other).await.expect("puts"), Put::Differs);
    assert_eq!(all_records(store).await.0, [record]);
}

async fn every_schedule_of_many_is_on_one_page(fixture: StoreFixture) {
    let store = &*fixture.store;
    let large = format!("\"{}\"", "x".repeat(3_000));
    let many: Vec<_> = (0..600).map(|n| schedule(&format!("s{n:03}"), Some(fixture.now()), &large)).collect();
    let put = store.put_schedules(many.clone()).await.expect("puts");
    assert!(put.iter().all(|put| *put == Put::Done), "{put:?}");
    store.put(vec![record(&fixture, "a")]).await.expect("puts");
    assert!(all_schedules(store).await == many, "each is there once");
    assert_eq!(all_records(store).await.1.len(), 1);
}

async fn a_schedule_that_is_there_stays_until_it_is_replaced(fixture: StoreFixture) {
    let store = &*fixture.store;
    let stored = schedules(&fixture);
    assert_eq!(store.put_schedules(stored.clone()).await.expect("puts"), [Put::Done; 4]);
    let mut others = stored.clone();
    others[0].content.next = None;
    others[1].content.text = "\"other\"".into();
    let put = store.put_schedules(others.clone()).await.expect("puts");
    assert_eq!(put, [Put::Differs, Put::Differs, Put::Exists, Put::Exists]);
    assert!(all_schedules(store).await == stored, "they stay");
    fixture.verify().await;
    let contents = others.iter().map(|other| (other.name.clone(), Some(other.content.clone())));
    store.replace_schedules(contents.collect()).await.expect("replaces");
    assert!(all_schedules(store).await == others);
    store.replace_schedules(vec![(others[1].name.clone(), None)]).await.expect("deletes");
    others.remove(1);
    assert!(all_schedules(store).await == others);
    fixture.verify().await;
}
