//! The calls for schedules.

use std::time::Duration;

use linger_client::{Added, Missed, NewJob, NewSchedule, Overlap, Recurrence};
use serde_json::{json, value::RawValue};

use super::{MINUTE, assert_refused, client, serve};
use crate::harness::proxy::{Fate, Proxy};

/// A schedule that has no run while a test lasts.
fn distant() -> NewSchedule {
    let start = Some("2100-01-01T00:00:00Z".parse().expect("is a moment"));
    let cron = "30 9 * * MON-FRI".to_owned();
    let recurrence = Recurrence::Cron { cron, time_zone: Some("Europe/Berlin".to_owned()) };
    let body = RawValue::from_string(r#"{"kind":  "daily"}"#.to_owned()).expect("is JSON");
    let job = NewJob { ttr: Some(MINUTE), ..NewJob::new("report").body(body) };
    NewSchedule { start, jitter: Some(MINUTE), ..NewSchedule::new(recurrence, job) }
}

#[tokio::test]
async fn every_call_for_a_schedule_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = serve(directory.path());
    let client = client(&server.url());
    let put = client.put_schedule("daily:+=@~", &distant(), Some(0)).await.expect("is made");
    assert!(put.is_new);
    let made = put.schedule;
    assert_eq!(
        (made.name.as_str(), made.cron.as_deref(), made.time_zone.as_deref(), made.jitter),
        ("daily:+=@~", Some("30 9 * * MON-FRI"), Some("Europe/Berlin"), Some(MINUTE))
    );
    assert_eq!((made.revision, made.state.as_str(), made.next.len(), made.runs.fired), (1, "active", 3, 0));
    assert_eq!(made.job.get(), r#"{"topic":"report","ttr":"60000ms","body":{"kind":  "daily"}}"#);
    assert!(!client.put_schedule("daily:+=@~", &distant(), None).await.expect("is there").is_new);
    assert_refused(client.put_schedule("daily:+=@~", &distant(), Some(0)).await, 412, "revision_differs");

    let paused = client.pause_schedule("daily:+=@~").await.expect("is paused");
    assert_eq!((paused.state.as_str(), paused.revision), ("paused", 2));
    assert_eq!(client.resume_schedule("daily:+=@~").await.expect("is resumed").state, "active");
    let next = client.next_runs("daily:+=@~", 5).await.expect("is answered");
    assert_eq!((next.len(), next[0].to_string().as_str()), (5, "2100-01-01T08:30:00Z"));
    let run = client.run_schedule("daily:+=@~", Some("mine")).await.expect("is run");
    assert!(matches!(&run, Added::Created(job) if job.id == "run:daily:+=@~:mine"), "{run:?}");
    let again = client.run_schedule("daily:+=@~", Some("mine")).await.expect("is recognised");
    assert!(matches!(again, Added::Repeated(_)), "{again:?}");

    let every = NewSchedule {
        start: distant().start,
        end: distant().start,
        overlap: Some(Overlap::Allow),
        missed: Some(Missed::All),
        missed_within: Some(Duration::from_millis(61_500)),
        ..NewSchedule::every(MINUTE, NewJob::new("report"))
    };
    let put = client.put_schedule("every", &every, None).await.expect("is made").schedule;
    assert_eq!((put.every, put.end, put.next.len()), (Some(MINUTE), every.end, 1));
    let rules = (put.overlap.as_str(), put.missed.as_str(), put.missed_within);
    assert_eq!(rules, ("allow", "all", every.missed_within));
    let first = client.schedules(1, None).await.expect("is answered");
    let second = client.schedules(1, first.next_cursor.as_deref()).await.expect("is answered");
    assert_eq!([&first, &second].map(|page| page.schedules[0].name.as_str()), ["daily:+=@~", "every"]);

    assert!(client.delete_schedule("every").await.expect("is answered"));
    assert!(!client.delete_schedule("every").await.expect("is answered"));
    assert!(client.schedule("every").await.expect("is answered").is_none());
    assert!(client.schedule("daily:+=@~").await.expect("is answered").is_some());
    assert_refused(client.next_runs("every", 1).await, 404, "schedule_not_found");
    let wrong = json!({ "cron": "0 0 30 2 *", "job": { "topic": "report" } });
    assert_refused(client.put_schedule("never", &wrong, None).await, 422, "invalid_request");
    assert!(server.stop().success());
}

#[tokio::test]
async fn a_run_whose_answer_was_lost_is_repeated_and_adds_one_job() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = serve(directory.path());
    let proxy = Proxy::start(server.address);
    let (direct, client) = (client(&format!("http://{}", server.address)), client(&proxy.url()));
    direct.put_schedule("daily", &distant(), None).await.expect("is made");
    proxy.decide_in_order(&[Fate::ResponseLost, Fate::Served]);
    let run = client.run_schedule("daily", None).await.expect("the second attempt is answered");
    assert!(matches!(run, Added::Repeated(_)), "{run:?}");
    let report = direct.topic("report").await.expect("is answered").expect("has a job");
    assert_eq!(report.counts.ready, 1);
    let another = direct.run_schedule("daily", None).await.expect("is run");
    assert!(matches!(another, Added::Created(_)), "each run has an id of its own: {another:?}");
    assert!(server.stop().success());
}
