//! Permissions of the Redis user. A start with a missing permission is refused and names it. If a permission is revoked
//! later, no operation has partial effects. Partial effects from outside are mended.

use std::{sync::Arc, time::Duration};

use fred::types::Value;
use linger::{
    clock::{Clock, SystemClock},
    metrics::Metrics,
    store::{
        Error, Minute, Span, Store, Wait,
        redis::{self, ConnectError, Credentials, Options, Secret},
    },
};

use super::{
    AUDIT_INTERVAL, Process, Raw, options,
    steps::{Step, StepFixture, prepare_for},
    tag,
};
use crate::harness::{
    jobs::*,
    naive::Naive,
    redis::{RedisServer, fresh_prefix, shared},
    stores::Recorder,
    wait::TimeLimit,
};

/// The permissions that docs/operate/redis.md says to allow.
const RIGHTS: [&str; 3] = ["~{linger*", "&{linger*", "+@all"];

/// A server with a restricted user, and default settings that connect as that user.
struct RestrictedUser {
    _server: RedisServer,
    raw: Raw,
    options: Options,
}

impl RestrictedUser {
    async fn start(rights: &[&str]) -> Self {
        let server = RedisServer::start();
        let raw = Raw::connect(&server.url()).await;
        let mut options = Options::new(&server.url());
        let password = Some(Secret::new("secret"));
        options.credentials = Credentials { username: Some("queue".to_owned()), password };
        let user = Self { _server: server, raw, options };
        user.set(&["reset", "on", ">secret"]).await;
        user.set(rights).await;
        user
    }

    async fn set(&self, rights: &[&str]) {
        self.raw.send(&[&["ACL", "SETUSER", "queue"], rights].concat()).await;
    }
}

#[tokio::test]
async fn a_user_that_lacks_a_permission_is_refused_at_start_and_the_permission_is_named() {
    for (rights, said) in [
        (&["~*", "+@all"][..], "publish on {linger}:ready, subscribe to {linger}:ready"),
        (&["~*", "&*", "+@all", "-hincrby"], "hincrby"),
        (&["~*", "&*", "+@all", "-publish"], "publish on {linger}:ready, publish on {linger}:settings"),
        (&["~*", "&*", "+@all", "-subscribe"], "subscribe to {linger}:ready"),
        (&["~*", "&*", "+@all", "-hset", "-unlink"], "hset, unlink"),
        (&["~linger*", "&*", "+@all"], "begin with {linger: allow ~{linger*"),
    ] {
        let user = RestrictedUser::start(rights).await;
        let refused = Process::try_start(&user.options).await.err().expect("is refused");
        let text = refused.to_string();
        assert!(matches!(refused, ConnectError::Unfit { .. }), "{rights:?}: {text}");
        assert!(text.contains(said), "{rights:?}: {text}");
        let stored = user.raw.send(&["DBSIZE"]).await;
        assert_eq!(stored.as_i64(), Some(0), "{rights:?}: a refused start wrote something");
    }
}

#[tokio::test]
async fn the_documented_permissions_are_enough() {
    assert!(
        include_str!("../../../docs/operate/redis.md").contains(&RIGHTS.join(" ")),
        "docs/operate/redis.md names other permissions"
    );
    let user = RestrictedUser::start(&RIGHTS).await;
    let process = Process::start(&user.options).await;
    process.store.check().await.expect("is ready");
    add(process.store(), job("a")).await;
    let held = reserve(process.store()).await;
    process.store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("finishes");
}

/// The right to the channels is revoked, and given back after the process was refused.
#[tokio::test]
async fn a_process_subscribes_again_when_the_right_comes_back() {
    let user = RestrictedUser::start(&RIGHTS).await;
    let (listener, metrics) = (Arc::new(Recorder::default()), Metrics::new().engine);
    let connected = redis::connect(user.options.clone(), redis::TimeSource::Server, listener, metrics).await;
    let _store = connected.expect("connects");
    let wait_until = async |words: &[&str], is_met: &dyn Fn(&Value) -> bool| {
        let time_limit = TimeLimit::new();
        loop {
            let reply = user.raw.send(words).await;
            if is_met(&reply) {
                return;
            }
            time_limit.check(|| format!("{words:?}: {reply:?}"));
            time_limit.pause().await;
        }
    };
    user.raw.send(&["ACL", "LOG", "RESET"]).await;
    user.set(&["resetchannels"]).await;
    let subscribed = ["PUBSUB", "NUMSUB", "{linger}:ready"];
    wait_until(&subscribed, &|reply| format!("{reply:?}").contains("Integer(0)")).await;
    wait_until(&["ACL", "LOG"], &|reply| format!("{reply:?}").contains("cmd=subscribe")).await;
    user.set(&RIGHTS).await;
    wait_until(&subscribed, &|reply| format!("{reply:?}").contains("Integer(1)")).await;
}

/// Each permission that a script needs is revoked before each step.
#[tokio::test]
async fn a_permission_that_is_revoked_leaves_no_partial_effects() {
    let user = RestrictedUser::start(&RIGHTS).await;
    let process = Process::start(&user.options).await;
    let observer = Process::with_clock_of(&process, &Options::new(&user._server.url())).await;
    let naive: Arc<dyn Store> = Naive::new(process.clock.clone(), Arc::new(Recorder::default()), None);
    let rights = [
        "resetchannels",
        "-publish",
        "-hset",
        "-hsetnx",
        "-hdel",
        "-hincrby",
        "-zadd",
        "-zrem",
        "-rpush",
        "-lpush",
        "-lpop",
        "-unlink",
        "-lrange",
        "-llen",
    ];
    let (mut refused, mut done) = (0, 0);
    for (number, step) in Step::ALL.into_iter().enumerate() {
        for right in rights {
            let what = format!("{step:?} with {right}");
            let name = format!("case{number}{right}");
            let expected = StepFixture::prepare(&naive, &naive, &name).await;
            let actual = StepFixture::prepare(&process.store, &observer.store, &name).await;
            prepare_for(step, &process.clock, &[&expected, &actual]).await;
            let before = expected.jobs().await;
            expected.perform(step).await.expect("the naive store never fails");
            user.set(&[right]).await;
            let outcome = actual.perform(step).await;
            let ready = process.store.check().await;
            user.set(&RIGHTS).await;
            let jobs = actual.jobs().await;
            match outcome {
                Ok(_) => {
                    done += 1;
                    assert_eq!(jobs, expected.jobs().await, "{what}");
                }
                Err(Error::Refused { cause: why, .. }) => {
                    refused += 1;
                    assert!(
                        why.contains("NOPERM") || why.contains("can't run this command"),
                        "{what}: {why}"
                    );
                    assert_eq!(jobs, before, "{what} was refused and changed something");
                }
                Err(other) => panic!("{what}: {other:?}"),
            }
            let named = if right == "resetchannels" { "publish" } else { &right[1..] };
            assert!(
                ready.is_err_and(|error| error.to_string().contains(named)),
                "{what}: the health check did not notice"
            );
            let faults = observer.store.verify().await.expect("verifies").faults;
            assert_eq!(faults, Vec::<String>::new(), "{what}");
            expected.clear().await;
            actual.clear().await;
        }
    }
    assert!(refused > 50 && done > 50, "{refused} were refused, {done} done");
}

/// A digest of every key except the replay slots, which also store the reply of a call that only reads a topic.
pub(super) async fn contents(raw: &Raw) -> Vec<(String, Value)> {
    let mut contents = Vec::new();
    for key in raw.send(&["KEYS", "*"]).await.into_array() {
        let key = key.as_string().expect("a name");
        if !key.ends_with(":replay") && !key.ends_with(":meta") {
            let digest = raw.send(&["DEBUG", "DIGEST-VALUE", &key]).await;
            contents.push((key, digest));
        }
    }
    contents.sort_by(|a, b| a.0.cmp(&b.0));
    contents
}

/// A script also notices a key of a wrong type before its first write.
#[tokio::test]
async fn a_key_of_a_wrong_type_leaves_no_partial_effects() {
    let server = RedisServer::start();
    let options = Options { shards: Some(1), ..Options::new(&server.url()) };
    let process = Process::start(&options).await;
    let raw = Raw::connect(&server.url()).await;
    let counts = "{linger:0}:counts";
    let mark = raw.send(&["HGET", counts, "!"]).await.as_string().expect("the shard has a mark");
    for key in [
        "jobs",
        "due",
        "leases",
        "counts",
        "replay",
        "dead_by_time",
        "expiries",
        "timeline",
        "ready:case",
        "dead:case",
    ] {
        for step in Step::ALL {
            let fixture = StepFixture::prepare(&process.store, &process.store, "case").await;
            let key = format!("{{linger:0}}:{key}");
            // In one step, and so is the removal below: a call of the engine in the middle would find a damaged shard.
            let replace = "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], 'kept') end \
                           return redis.call('SET', KEYS[1], 'foreign')";
            raw.send(&["EVAL", replace, "1", &key]).await;
            let before = contents(&raw).await;
            let outcome = fixture.perform(step).await;
            if outcome.is_err() {
                // A delete of several jobs makes a second call for the jobs whose topics the first call returns.
                if step != Step::Delete {
                    assert_eq!(contents(&raw).await, before, "{step:?} with a wrong {key}");
                }
                let restore = "redis.call('DEL', KEYS[1]) \
                               return redis.call('EXISTS', 'kept') == 1 and redis.call('RENAME', 'kept', KEYS[1])";
                raw.send(&["EVAL", restore, "1", &key]).await;
                let faults = process.store.verify().await.expect("verifies").faults;
                assert!(faults.is_empty(), "{step:?} with a wrong {key}: {faults:?}");
            }
            // The layout and the mark stay, or the store would count as emptied.
            let keys = raw.send(&["KEYS", "*"]).await.into_array();
            let keys = keys.into_iter().map(|key| key.as_string().expect("a name"));
            let keys: Vec<String> = keys.filter(|key| key != "{linger}:meta" && key != counts).collect();
            let delete = "for _, key in ipairs(KEYS) do redis.call('DEL', key) end \
                          return redis.call('HSET', KEYS[1], '!', ARGV[1])";
            let number = (keys.len() + 1).to_string();
            let command =
                ["EVAL", delete, &number, counts].into_iter().chain(keys.iter().map(String::as_str));
            raw.send(&command.chain([mark.as_str()]).collect::<Vec<_>>()).await;
        }
    }
}

/// The delay of the job that is not ready, longer than [`AUDIT_INTERVAL`].
const LATER: Duration = seconds(75);

/// Adds this many ready jobs of topic `t` on one shard, and damages it in the way that `what` names.
async fn damaged(at: &RedisServer, what: &str, jobs: usize) -> (Process, Options) {
    let options = Options { shards: Some(1), prefix: fresh_prefix(), ..Options::new(&at.url()) };
    let process = Process::start(&options).await;
    let raw = Raw::connect(&at.url()).await;
    let names: Vec<String> = (0..jobs).map(|n| format!("job-{n}")).collect();
    for names in names.chunks(100) {
        process.store.add(names.iter().map(|name| job(name)).collect()).await.expect("adds");
    }
    add(process.store(), delayed("later", LATER)).await;
    let tag = tag(&options, &id("job-0"));
    let key = |name: &str| format!("{tag}:{name}");
    match what {
        "counts" => drop(raw.send(&["HSET", &key("counts"), "#", "zzz", "rt", "zzz", "dt", "-4"]).await),
        "entries" => {
            raw.send(&["DEL", &key("ready:t")]).await;
            raw.send(&["HDEL", &key("counts"), "rt"]).await;
        }
        "indexes" => {
            raw.send(&["ZREM", &key("due"), "later"]).await;
            for index in ["due", "leases", "dead_by_time"] {
                raw.send(&["ZADD", &key(index), "9", "ghost"]).await;
            }
        }
        "timeline" => drop(raw.send(&["DEL", &key("timeline")]).await),
        other => unreachable!("{other}"),
    }
    (process, options)
}

/// Damages a shard, waits until verification finds no fault, and checks that every job is delivered.
async fn mended(at: &RedisServer, what: &str, jobs: usize) {
    let (process, options) = damaged(at, what, jobs).await;
    if what == "counts" {
        // Adds and statistics work before the shard is mended.
        add(process.store(), job("more")).await;
        process.store.topics(ALL, None, 10).await.expect("reads");
        process.store.topic(&topic("t")).await.expect("reads");
    }
    let all = jobs + usize::from(what == "counts");
    process.clock.advance(AUDIT_INTERVAL);
    let time_limit = TimeLimit::new();
    loop {
        let stats = process.store.topic(&topic("t")).await.expect("reads").unwrap_or_default();
        let counted = (stats.ready, stats.delayed) == (all as u64, 1);
        let span = Span::new(Minute::containing(process.clock.now()), 1, 5).expect("is short");
        let timeline = process.store.timeline(Some(&topic("t")), span).await.expect("reads");
        let counted = counted && timeline.counts.iter().sum::<u64>() == 1;
        let faults = match counted {
            true => process.store.verify().await.map_or_else(|error| vec![error.to_string()], |it| it.faults),
            false => vec![format!("{} ready, {} delayed", stats.ready, stats.delayed)],
        };
        if faults.is_empty() {
            break;
        }
        time_limit.check(|| format!("{what}: {faults:?}"));
        SystemClock::new().sleep(millis(100)).await;
    }
    let other = Process::with_clock_of(&process, &options).await;
    let mut delivered = 0;
    while delivered < all {
        let granted = other.store.reserve(&plain("t"), &claims(100), Wait::No).await.expect("reserves");
        assert!(!granted.is_empty(), "{what}: {delivered} of {all} were delivered");
        delivered += granted.len();
    }
    process.clock.advance(LATER - AUDIT_INTERVAL);
    promote(process.store()).await;
    assert_eq!(reserve(process.store()).await.job.id, id("later"), "{what}");
}

/// Counts are compared with indexes when the clock says so. One run of the script mends a small shard; a large one takes
/// several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partial_effects_are_mended_and_every_job_is_delivered() {
    let server = RedisServer::start();
    tokio::join!(
        Box::pin(mended(&server, "counts", 20)),
        Box::pin(mended(&server, "entries", 20)),
        Box::pin(mended(&server, "indexes", 20)),
        Box::pin(mended(&server, "timeline", 20)),
        Box::pin(mended(&server, "timeline", 1_300)),
        Box::pin(mended(&server, "counts", 1_300)),
        Box::pin(mended(&server, "entries", 1_300)),
    );
}

/// By the default settings and in real time.
#[tokio::test]
async fn a_process_compares_counts_with_indexes_by_its_own_clock() {
    let options = options();
    let recorder = Arc::new(Recorder::default());
    let metrics = Metrics::new().engine.clone();
    let store = redis::connect(options.clone(), redis::TimeSource::Server, recorder, metrics).await;
    let store = store.expect("connects");
    add(&*store, job("a")).await;
    let counts = format!("{}:counts", tag(&options, &id("a")));
    Raw::connect(&shared().url()).await.send(&["HSET", &counts, "rt", "5"]).await;
    let time_limit = TimeLimit::new();
    while store.topic(&topic("t")).await.expect("reads").is_none_or(|stats| stats.ready != 1) {
        time_limit.check(|| "the count is still wrong".to_owned());
        time_limit.pause().await;
    }
}
