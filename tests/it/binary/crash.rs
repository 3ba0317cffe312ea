//! `kill -9`: what was acknowledged is there after it.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Mutex, mpsc},
};

use crate::harness::{
    blocking_http::{Response, call},
    process::Server,
};

/// Everything that the clients of one run were told.
#[derive(Default)]
struct Told {
    added: Mutex<BTreeSet<String>>,
    finished: Mutex<BTreeSet<String>>,
    /// Finishes that were sent but not answered: they may have happened.
    unknown: Mutex<BTreeSet<String>>,
}

/// The answer, unless the server has gone.
fn unless_gone(answer: std::io::Result<Response>, status: u16) -> Option<Response> {
    let answer = answer.ok()?;
    assert_eq!(answer.status, status, "{answer:?}");
    Some(answer)
}

impl Told {
    /// Adds jobs and finishes every second one, until the server goes away. Each acknowledgement is
    /// told to `acknowledged`.
    fn work(&self, address: SocketAddr, worker: usize, round: usize, acknowledged: &mpsc::Sender<()>) {
        for n in 0.. {
            let id = format!("r{round}-w{worker}-{n}");
            let job = format!(r#"{{"topic":"w{worker}","id":"{id}","delay":{},"body":{n}}}"#, n % 2 * 3_600);
            if unless_gone(call(address, "POST", "/jobs", &job), 201).is_none() {
                return;
            }
            self.added.lock().expect("not poisoned").insert(id.clone());
            let _ = acknowledged.send(());
            if n % 2 == 0 && !self.pop_and_finish(address, worker) {
                return;
            }
        }
    }

    fn pop_and_finish(&self, address: SocketAddr, worker: usize) -> bool {
        let pop = format!("/topics/w{worker}/pop?wait=5s");
        let Some(popped) = unless_gone(call(address, "GET", &pop, ""), 200) else { return false };
        let job = popped.json();
        let (id, receipt) = (job["id"].as_str().expect("an id"), job["receipt"].as_str().expect("a receipt"));
        self.unknown.lock().expect("not poisoned").insert(id.to_owned());
        let finish = format!("/jobs/{id}/finish?receipt={receipt}");
        if unless_gone(call(address, "POST", &finish, ""), 204).is_none() {
            return false;
        }
        self.unknown.lock().expect("not poisoned").remove(id);
        self.finished.lock().expect("not poisoned").insert(id.to_owned());
        true
    }

    /// Holds the server after its crash against what was told.
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
fn what_was_acknowledged_survives_kill_9_in_the_middle_of_work() {
    const WORKERS: usize = 4;
    let directory = tempfile::tempdir().expect("a directory");
    let told = Told::default();
    for round in 0..3 {
        let mut server = Server::serve(&[], &[], directory.path());
        told.check(&server);
        let (address, (sender, acknowledged)) = (server.address, mpsc::channel());
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let (told, sender) = (&told, sender.clone());
                scope.spawn(move || told.work(address, worker, round, &sender));
            }
            drop(sender);
            assert_eq!(acknowledged.iter().take(150).count(), 150, "the workers gave up");
            server.kill();
        });
    }
    told.check(&Server::serve(&[], &[], directory.path()));
}
