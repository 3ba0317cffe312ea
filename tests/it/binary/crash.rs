//! `kill -9`: acknowledged changes survive it.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Mutex, mpsc},
};

use crate::harness::{
    blocking_http::{Response, call_until_begun},
    process::{Server, run, stdout},
    wait::TimeLimit,
};

/// The changes that were acknowledged to the clients of one run.
#[derive(Default)]
struct Acknowledged {
    added: Mutex<BTreeSet<String>>,
    finished: Mutex<BTreeSet<String>>,
    /// Finishes that were sent but not answered; they may have taken effect.
    unknown: Mutex<BTreeSet<String>>,
}

/// The response, or `None` if the server was killed.
fn unless_killed(response: std::io::Result<Response>, status: u16) -> Option<Response> {
    let response = response.ok()?;
    assert_eq!(response.status, status, "{response:?}");
    Some(response)
}

impl Acknowledged {
    /// Adds jobs and finishes every second one until the server is killed. Reports each acknowledged add to `additions`.
    fn work(&self, address: SocketAddr, worker: usize, round: usize, additions: &mpsc::Sender<()>) {
        for n in 0.. {
            let id = format!("r{round}-w{worker}-{n}");
            let job = format!(r#"{{"topic":"w{worker}","id":"{id}","delay":{},"body":{n}}}"#, n % 2 * 3_600);
            if unless_killed(call_until_begun(address, "POST", "/jobs", &job), 201).is_none() {
                return;
            }
            self.added.lock().expect("not poisoned").insert(id.clone());
            let _ = additions.send(());
            if n % 2 == 0 && !self.pop_and_finish(address, worker) {
                return;
            }
        }
    }

    fn pop_and_finish(&self, address: SocketAddr, worker: usize) -> bool {
        let pop = format!("/topics/w{worker}/pop?wait=5s");
        let Some(popped) = unless_killed(call_until_begun(address, "GET", &pop, ""), 200) else {
            return false;
        };
        let job = popped.json();
        let (id, receipt) = (job["id"].as_str().expect("an id"), job["receipt"].as_str().expect("a receipt"));
        self.unknown.lock().expect("not poisoned").insert(id.to_owned());
        let finish = format!("/jobs/{id}/finish?receipt={receipt}");
        if unless_killed(call_until_begun(address, "POST", &finish, ""), 204).is_none() {
            return false;
        }
        self.unknown.lock().expect("not poisoned").remove(id);
        self.finished.lock().expect("not poisoned").insert(id.to_owned());
        true
    }

    /// Compares the server after its crash with the acknowledged changes.
    fn check(&self, server: &Server) {
        let added = self.added.lock().expect("not poisoned");
        let finished = self.finished.lock().expect("not poisoned");
        let unknown = self.unknown.lock().expect("not poisoned");
        for id in added.iter().filter(|id| !unknown.contains(*id)) {
            let found = server.call("GET", &format!("/jobs/{id}"), "").status;
            let expected = if finished.contains(id) { 404 } else { 200 };
            assert_eq!(found, expected, "{id}");
        }
    }
}

#[test]
fn acknowledged_changes_survive_kill_9_under_load() {
    const WORKERS: usize = 4;
    let directory = tempfile::tempdir().expect("a directory");
    let acknowledged = Acknowledged::default();
    for round in 0..3 {
        let mut server = Server::serve(&[], &[], directory.path());
        acknowledged.check(&server);
        let (address, (sender, additions)) = (server.address, mpsc::channel());
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let (acknowledged, sender) = (&acknowledged, sender.clone());
                scope.spawn(move || acknowledged.work(address, worker, round, &sender));
            }
            drop(sender);
            assert_eq!(additions.iter().take(150).count(), 150, "the workers gave up");
            server.kill();
        });
    }
    acknowledged.check(&Server::serve(&[], &[], directory.path()));
}

/// With the default settings: a newer version waits for the holder of the older one, and a finished id is remembered, also after a
/// kill between each call and the next.
#[test]
fn versions_and_remembered_ids_survive_kill_9() {
    let directory = tempfile::tempdir().expect("a directory");
    let restarted = || Server::serve(&[], &[], directory.path());
    let call_and_kill = |method: &str, target: &str, body: &str| {
        let mut server = restarted();
        let response = server.call(method, target, body);
        server.kill();
        response
    };
    let version = |revision: u8| {
        format!(r#"{{"topic":"t","id":"a","revision":{revision},"if_exists":"replace","body":{revision}}}"#)
    };
    assert_eq!(call_and_kill("PUT", "/topics/t", r#"{"dedup":"1h"}"#).status, 200);
    assert_eq!(call_and_kill("POST", "/jobs", &version(1)).status, 201);
    let older = call_and_kill("GET", "/topics/t/pop?ttr=10m", "").json()["receipt"].clone();
    assert_eq!(call_and_kill("POST", "/jobs", &version(2)).status, 200);
    assert_eq!(call_and_kill("GET", "/topics/t/pop", "").status, 204, "its older version is held");
    let finish = |receipt: &serde_json::Value| {
        let target = format!("/jobs/a/finish?receipt={}", receipt.as_str().expect("a receipt"));
        call_and_kill("POST", &target, "")
    };
    let refused = finish(&older);
    assert_eq!((refused.status, refused.json()["code"].as_str()), (409, Some("job_replaced")));
    let newer = call_and_kill("GET", "/topics/t/pop?ttr=10m", "").json();
    assert_eq!((&newer["body"], &newer["attempt"]), (&2.into(), &1.into()));
    assert_eq!(finish(&newer["receipt"]).status, 204);
    let repeat = call_and_kill("POST", "/jobs", &version(2));
    assert_eq!((repeat.status, repeat.json()["state"].as_str()), (200, Some("finished")));
    let stale = call_and_kill("POST", "/jobs", &version(1));
    assert_eq!((stale.status, stale.json()["code"].as_str()), (409, Some("stale_revision")));
    let verified = run(&["verify"], directory.path());
    assert!(verified.status.success(), "{}", stdout(&verified));
}

/// A server that was killed in the middle of an operation with this request on 4,000 jobs, and started again. Returns also its
/// directory, and the progress of the operation that was seen last.
fn killed_in_the_middle_of(request: &str) -> (tempfile::TempDir, Server, serde_json::Value) {
    let time_limit = TimeLimit::new();
    loop {
        let directory = tempfile::tempdir().expect("a directory");
        let mut server = Server::serve(&[], &[], directory.path());
        for batch in 0..4 {
            let job =
                |n: usize| format!(r#"{{"topic":"t","id":"job-{batch}-{n}","at":"2036-01-01T00:00:00Z"}}"#);
            let jobs: Vec<String> = (0..1_000).map(job).collect();
            let added = server.call("POST", "/batch/jobs", &format!(r#"{{"jobs":[{}]}}"#, jobs.join(",")));
            assert_eq!(added.status, 200);
        }
        assert_eq!(server.call("POST", "/bulk", request).status, 202);
        let progress = loop {
            let progress = server.call("GET", "/bulk/later", "").json();
            if progress["changed"].as_u64() > Some(0) {
                break progress;
            }
            time_limit.check(|| progress.to_string());
        };
        server.kill();
        let restarted = Server::serve(&[], &[], directory.path());
        let operation = restarted.call("GET", "/bulk/later", "").json();
        if operation["state"] == "abandoned" {
            return (directory, restarted, progress);
        }
        // It was done before the kill, on a machine that held up this test.
        assert_eq!(
            (&operation["state"], &operation["changed"]),
            (&"done".into(), &4_000.into()),
            "{operation}"
        );
        time_limit.check(|| operation.to_string());
    }
}

/// A bulk operation has no state of its own to lose: each job is as it was, or as the operation wanted it.
#[test]
fn a_kill_in_the_middle_of_a_bulk_operation_leaves_each_job_changed_or_not() {
    let request = r#"{"id":"later","action":"reschedule","filter":{"topic":"t"},"at":"2036-02-01T00:00:00Z",
        "dry_run":false,"limit":4000}"#;
    let (directory, restarted, progress) = killed_in_the_middle_of(request);
    assert_eq!(
        restarted.call("POST", "/bulk", request).json()["state"],
        "abandoned",
        "a repeat starts nothing"
    );
    let count = |filter: &str| {
        let request = format!(r#"{{"action":"delete","filter":{{"topic":"t","state":"delayed",{filter}}}}}"#);
        let time_limit = TimeLimit::new();
        let mut counted = restarted.call("POST", "/bulk", &request).json();
        // A count that takes long goes on as an operation.
        while counted["state"] == "running" {
            time_limit.check(|| counted.to_string());
            time_limit.pause_thread();
            counted = restarted
                .call("GET", &format!("/bulk/{}", counted["id"].as_str().expect("an id")), "")
                .json();
        }
        counted["matched"].as_u64().expect("a count")
    };
    let (before, after) =
        (count(r#""to":"2036-01-02T00:00:00Z""#), count(r#""from":"2036-01-31T00:00:00Z""#));
    assert_eq!(before + after, 4_000, "no job is lost, and none is in between");
    assert!(
        after >= progress["changed"].as_u64().expect("a count"),
        "what was shown as changed stays so: {after}"
    );
    assert_eq!(restarted.call("POST", "/bulk", &request.replace("later", "rest")).status, 202);
    let time_limit = TimeLimit::new();
    while restarted.call("GET", "/bulk/rest", "").json()["state"] == "running" {
        time_limit.check(|| "the operation runs".to_owned());
        time_limit.pause_thread();
    }
    assert_eq!(count(r#""from":"2036-01-31T00:00:00Z""#), 4_000, "a second run completes the first");
    assert!(restarted.stop().success());
    let verified = run(&["verify"], directory.path());
    assert!(verified.status.success(), "{}", stdout(&verified));
}
