//! Every key that a script uses is among its `KEYS`. Redis refuses only undeclared keys of another slot, and only in a
//! Cluster; managed servers and proxies may route or refuse a script by its keys.

use std::collections::BTreeSet;

use linger::store::redis::Options;

use super::{
    AUDIT_INTERVAL, Process, Raw,
    steps::{Step, StepFixture, prepare_for},
};
use crate::harness::{jobs::*, monitor::Monitor, redis::RedisServer, wait::TimeLimit};

/// Commands of scripts that have no key.
const WITHOUT_KEYS: [&str; 4] = ["PUBLISH", "TIME", "ACL", "INFO"];
/// The last command of the test.
const END: &str = "that is all";

/// What the scripts did.
#[derive(Debug, Default)]
struct Seen {
    scripts: BTreeSet<String>,
    commands: usize,
    undeclared: BTreeSet<String>,
}

impl Seen {
    /// Reads until the last command.
    fn until_the_end(monitor: Monitor) -> Self {
        let (mut seen, mut keys) = (Self::default(), BTreeSet::new());
        for line in monitor.lines() {
            let (origin, command) = line.split_once("] \"").expect("an origin and a command");
            // A quotation mark within a word is escaped.
            let words: Vec<&str> = command.trim_end_matches('"').split("\" \"").collect();
            if origin.ends_with(" lua") {
                seen.commands += 1;
                seen.check(&words, &keys);
            } else if let ["EVALSHA" | "EVAL", script, count, rest @ ..] = &words[..] {
                let count: usize = count.parse().expect("a number of keys");
                keys = rest[..count].iter().map(|key| (*key).to_owned()).collect();
                seen.scripts.insert((*script).to_owned());
            } else if words.contains(&END) {
                return seen;
            }
        }
        panic!("the server closed the connection")
    }

    /// The first argument is a key, and so is every other one that looks like a key.
    fn check(&mut self, words: &[&str], keys: &BTreeSet<String>) {
        let [name, first, others @ ..] = words else { return };
        if WITHOUT_KEYS.contains(&name.to_ascii_uppercase().as_str()) {
            return;
        }
        let used = others.iter().filter(|word| word.starts_with("{linger")).chain([first]);
        let undeclared = used.filter(|key| !keys.contains(**key)).map(|key| format!("{name} {key}"));
        self.undeclared.extend(undeclared);
    }
}

#[tokio::test]
async fn scripts_use_no_key_that_they_do_not_declare() {
    let server = RedisServer::start();
    let monitor = Monitor::start(&server);
    let options = Options { shards: Some(2), ..Options::new(&server.url()) };
    let process = Process::start(&options).await;
    let raw = Raw::connect(&server.url()).await;
    for step in Step::ALL {
        let fixture = StepFixture::prepare(&process.store, &process.store, &format!("{step:?}")).await;
        process.clock.advance(seconds(2));
        prepare_for(step, &process.clock, &[&fixture]).await;
        fixture.perform(step).await.expect("succeeds");
        fixture.clear().await;
    }
    // A wrong count, so that a shard is mended, and slots that have aged.
    raw.send(&["HSET", &format!("{{{}:0}}:counts", options.prefix), "rt", "3"]).await;
    process.clock.advance(AUDIT_INTERVAL + seconds(4_000));
    let time_limit = TimeLimit::new();
    while process.store.topic(&topic("t")).await.expect("reads").is_some() {
        time_limit.check(|| "the shard is not mended".to_owned());
        time_limit.pause().await;
    }
    raw.send(&["PING", END]).await;
    let seen = tokio::task::spawn_blocking(|| Seen::until_the_end(monitor)).await.expect("reads");
    assert!(seen.undeclared.is_empty(), "{:#?}", seen.undeclared);
    println!("{} commands of {} scripts", seen.commands, seen.scripts.len());
    assert!(seen.scripts.len() >= 30, "only {} scripts ran", seen.scripts.len());
}
