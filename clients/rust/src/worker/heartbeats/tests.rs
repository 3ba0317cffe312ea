//! Which heartbeats go together, on a clock of their own, and what a server that answers by a list makes of them.

use tokio::{sync::watch, task::LocalSet};

use super::*;
use crate::{
    test_server::{SILENCE, TestServer, answer},
    worker::{Ended, Event, Limits, OnLost, Urgency, WorkerOptions},
};

const HOUR: Duration = Duration::from_secs(3_600);

fn ms(ms: u64) -> BootTime {
    BootTime::since_boot(Duration::from_millis(ms))
}

fn job(id: &str) -> Arc<ReservedJob> {
    let text = format!(
        r#"{{"id":"{id}","topic":"t","created_at":"2026-11-21T05:40:00Z","due_at":"2026-11-21T05:40:00Z","ttr":60,
        "attempt":1,"max_attempts":16,"reserved_until":"2026-11-21T05:41:00Z","body":1,"receipt":"r","late":0}}"#
    );
    Arc::new(serde_json::from_str(&text).expect("is readable"))
}

/// A heartbeat whose wait of `wait` milliseconds began at `from`.
fn wanted(id: &str, from: u64, wait: u64) -> (Wanted, oneshot::Receiver<Heartbeat>) {
    let time = HeartbeatTime::after(ms(from), Duration::from_millis(wait));
    Wanted::new(job(id), time, HOUR)
}

fn ids_of(group: &[Wanted]) -> Vec<&str> {
    group.iter().map(|wanted| wanted.job.id.as_str()).collect()
}

#[test]
fn a_heartbeat_that_is_due_takes_those_along_whose_wait_is_half_over() {
    let (due, _first) = wanted("due", 0, 100);
    let (half, _second) = wanted("half", 50, 100);
    let (new, _third) = wanted("new", 51, 100);
    let (over, gone) = wanted("over", 0, 90);
    drop(gone);
    let mut waiting = vec![new, half, due, over];
    assert!(take_due(&mut waiting, ms(99)).is_none(), "the job of the one that is due has ended");
    let taken = take_due(&mut waiting, ms(100)).expect("one is due");
    assert_eq!((ids_of(&taken), ids_of(&waiting)), (vec!["due", "half"], vec!["new"]));
    assert!(take_due(&mut waiting, ms(150)).is_none());
    assert_eq!(ids_of(&take_due(&mut waiting, ms(151)).expect("is due")), ["new"]);
}

#[test]
fn a_call_has_the_thousand_that_are_most_urgent() {
    let (mut waiting, mut receivers) = (Vec::new(), Vec::new());
    for number in 0..1_200_u64 {
        // The last ones are due first.
        let (wanted, receiver) = wanted(&number.to_string(), 2_000 - number, 100);
        waiting.push(wanted);
        receivers.push(receiver);
    }
    let taken = take_due(&mut waiting, ms(3_000)).expect("all are due");
    assert_eq!((taken.len(), ids_of(&taken)[0], ids_of(&taken)[999]), (MOST, "1199", "200"));
    assert_eq!(take_due(&mut waiting, ms(3_000)).expect("all are due").len(), 200);
}

/// Wherever in a beat they arrived.
#[test]
fn jobs_of_one_ttr_come_to_one_call_a_beat() {
    const BEAT: u64 = 20_000;
    let (mut waiting, mut receivers) = (Vec::new(), Vec::new());
    for number in 0..50 {
        let (wanted, receiver) = wanted("a", number * 7_919 % BEAT, BEAT);
        waiting.push(wanted);
        receivers.push(receiver);
    }
    for round in 0..10 {
        let now = waiting.iter().map(|wanted| wanted.time.due).min().expect("there are some");
        let taken = take_due(&mut waiting, now).expect("one is due");
        assert!(round < 2 || taken.len() == 50, "{round}: {}", taken.len());
        for mut wanted in taken {
            assert!(now <= wanted.time.due, "none is late");
            wanted.time = HeartbeatTime::after(now, Duration::from_millis(BEAT));
            waiting.push(wanted);
        }
    }
}

struct Quiet;

impl Host for Quiet {
    async fn run(&self, _: Arc<ReservedJob>, _: watch::Receiver<Urgency>) -> Ended {
        std::future::pending().await
    }

    async fn connect(&self) -> Option<crate::Client> {
        None
    }

    fn event(&self, _: Event<'_>) {}
}

fn shared(server: &TestServer) -> Arc<Shared<Quiet>> {
    let options = WorkerOptions {
        topics: vec!["t".to_owned()],
        name: "w".to_owned(),
        parallel: 50,
        ttr: None,
        limits: Limits { timeout: HOUR, kill_after: HOUR, on_lost: OnLost::Kill },
        drain: HOUR,
        retry_delay: None,
        sends_reasons: true,
        until_empty: false,
        max_jobs: None,
        give_up: None,
        wait: HOUR,
    };
    let client = crate::Options { repeat_for: Duration::ZERO, ..crate::Options::default() };
    let client = crate::Client::new(&server.url, client).expect("the options are sound");
    Arc::new(Shared::new(options, Arc::new(Quiet), client))
}

fn problem(status: u16) -> String {
    format!(r#"{{"status":{status},"code":"of_linger","detail":"x"}}"#)
}

fn told(receiver: &mut oneshot::Receiver<Heartbeat>) -> &'static str {
    match receiver.try_recv() {
        Ok(Heartbeat::Renewed(_)) => "renewed",
        Ok(Heartbeat::Gone(_)) => "gone",
        Ok(Heartbeat::TimedOut(_)) => "timed out",
        Ok(Heartbeat::Failed) => "failed",
        Err(_) => "nothing",
    }
}

/// Sends heartbeats of these jobs to a server that gives this answer. Returns what each attempt was told, which jobs are left
/// to be sent alone, and whether the call was refused.
async fn send(jobs: &[&str], answer: String) -> (Vec<&'static str>, Vec<String>, bool) {
    let server = TestServer::start(vec![answer]).await;
    let (group, mut receivers): (Vec<_>, Vec<_>) = jobs.iter().map(|id| wanted(id, 0, 1)).unzip();
    let left = send_together(shared(&server), group).await;
    assert_eq!(server.lines(), ["POST /batch/touch HTTP/1.1"]);
    let alone = ids_of(&left.alone).into_iter().map(str::to_owned).collect();
    (receivers.iter_mut().map(told).collect(), alone, left.is_refused)
}

#[tokio::test]
async fn each_item_decides_about_its_own_job() {
    let item = |status| format!(r#"{{"status":{status},"problem":{}}}"#, problem(status));
    // A server that does not say `retaken` takes no late finish.
    let lost = |retaken: bool| item(409).replace("}}", &format!(r#","retaken":{retaken}}}}}"#));
    let items = [
        r#"{"status":200}"#.to_owned(),
        item(404),
        item(409),
        lost(true),
        lost(false),
        item(503),
        item(403),
        item(422),
    ];
    let answer = answer(200, "", &format!(r#"{{"results":[{}]}}"#, items.join(",")));
    let jobs = ["good", "missing", "lost", "taken", "late", "away", "forbidden", "odd"];
    let (told, alone, is_refused) = send(&jobs, answer).await;
    assert_eq!(told, ["renewed", "gone", "gone", "gone", "timed out", "failed", "nothing", "failed"]);
    assert_eq!((alone, is_refused), (vec!["forbidden".to_owned()], false));
}

#[tokio::test]
async fn a_call_that_is_not_taken_leaves_all_to_be_sent_alone() {
    let page = "<html>".to_owned();
    for (status, body, is_left) in [
        (404, problem(404), true),
        (405, problem(405), true),
        (413, problem(413), true),
        (422, problem(422), true),
        (404, page.clone(), true),
        (403, page.clone(), true),
        (403, problem(403), false),
        (401, problem(401), false),
        (408, problem(408), false),
        (503, problem(503), false),
        (502, page.clone(), false),
        (200, page, false),
        (200, r#"{"results":[{"status":200}]}"#.to_owned(), false),
    ] {
        let (told, alone, is_refused) = send(&["a", "b"], answer(status, "", &body)).await;
        let expected = if is_left { ["nothing"; 2] } else { ["failed"; 2] };
        assert_eq!((told, is_refused), (expected.to_vec(), is_left), "{status} {body}");
        assert_eq!(alone.len(), if is_left { 2 } else { 0 }, "{status} {body}");
    }
}

/// As it would be away for single calls. An item of the server's own makes it an answer.
#[tokio::test]
async fn a_server_that_deals_with_no_item_is_away() {
    let item = |status| format!(r#"{{"status":{status},"problem":{}}}"#, problem(status));
    for (second, is_away) in [(item(503), true), (item(404), false)] {
        let body = format!(r#"{{"results":[{},{second}]}}"#, item(503));
        let server = TestServer::start(vec![answer(200, "", &body)]).await;
        let (group, _receivers): (Vec<_>, Vec<_>) = ["a", "b"].iter().map(|id| wanted(id, 0, 1)).unzip();
        let shared = shared(&server);
        send_together(shared.clone(), group).await;
        assert_eq!(shared.contact().last_error().is_some(), is_away, "{second}");
    }
}

#[tokio::test]
async fn a_job_whose_answer_takes_too_long_for_it_tries_again_while_others_wait() {
    let server = TestServer::start(vec![SILENCE.to_owned()]).await;
    let (mut short, told_short) = wanted("short", 0, 1);
    short.limit = Duration::from_millis(10);
    let (mut long, mut told_long) = wanted("long", 0, 1);
    long.limit = Duration::from_secs(5);
    let shared = shared(&server);
    let sending = send_together(shared.clone(), vec![long, short]);
    tokio::select! {
        _ = sending => panic!("the long one still waits"),
        told = told_short => assert!(matches!(told, Ok(Heartbeat::Failed)), "{told:?}"),
    }
    assert!(matches!(told_long.try_recv(), Err(oneshot::error::TryRecvError::Closed)), "it was told nothing");
    assert!(shared.contact().last_error().is_some(), "the server is away");
}

/// With one job, with many, and with many after a server did not take a call for them.
#[tokio::test]
async fn heartbeats_are_sent_alone_once_the_server_has_refused_a_call_for_many() {
    let close = "connection: close\r\n";
    let touched = |id: &str| {
        answer(
            200,
            close,
            &format!(
                r#"{{"id":"{id}","topic":"t","state":"reserved",
        "created_at":"2026-11-21T05:40:00Z","due_at":"2026-11-21T05:40:00Z","ttr":60,"attempts":1,"max_attempts":16,"body":1}}"#
            ),
        )
    };
    let answers = vec![
        touched("a"),
        answer(404, close, &problem(404)),
        touched("b"),
        touched("b"),
        touched("b"),
        touched("b"),
    ];
    let server = TestServer::start(answers).await;
    let (to_task, asked) = mpsc::unbounded_channel();
    let beating = send_heartbeats(shared(&server), asked);
    let asking = async {
        for round in [&["a"][..], &["b", "b"], &["b", "b"]] {
            let (group, receivers): (Vec<_>, Vec<_>) = round.iter().map(|id| wanted(id, 0, 1)).unzip();
            group.into_iter().for_each(|wanted| to_task.send(wanted).expect("the task runs"));
            for receiver in receivers {
                let told = receiver.await;
                assert!(matches!(told, Ok(Heartbeat::Renewed(_))), "{round:?}: {told:?}");
            }
        }
    };
    let both = async {
        tokio::select! {
            () = asking => {}
            never = beating => match never {},
        }
    };
    LocalSet::new().run_until(both).await;
    let [a, b] = ["a", "b"].map(|id| format!("POST /jobs/{id}/touch HTTP/1.1"));
    let many = "POST /batch/touch HTTP/1.1".to_owned();
    assert_eq!(server.lines(), [a, many, b.clone(), b.clone(), b.clone(), b]);
}
