//! A real Prometheus with the alerts scrapes real servers that have worked: every expression of the alerts and of the
//! board is valid and finds something, and the documentation lists every metric.

use std::{collections::BTreeSet, fs, net::SocketAddr};

use serde_json::{Value, json};

use super::{alerts, family, list, metrics_in, read, root, text};
use crate::harness::{process::Server, prometheus::Prometheus, redis::RedisServer, wait::TimeLimit};

/// What this test does not bring about, and why.
const ABSENT: [(&str, &str); 1] =
    [("linger_jobs_cancelled_total", "its client must hang up while its jobs are on their way")];

fn call(server: &Server, method: &str, path: &str, body: Value) -> Value {
    let response = server.call(method, path, &body.to_string());
    assert!((200..300).contains(&response.status), "{method} {path}: {response:?}");
    if response.body.is_empty() { Value::Null } else { response.json() }
}

fn add(server: &Server, job: Value) {
    call(server, "POST", "/jobs", job);
}

fn pop(server: &Server) -> (String, Value) {
    let job = call(server, "GET", "/topics/mail/pop?wait=30s", Value::Null);
    (text(&job["id"]).to_owned(), job["receipt"].clone())
}

/// Has a server count every event of a job, call an endpoint that is away until it rests, and park a poll, which is
/// returned.
fn work(server: &Server) -> std::thread::JoinHandle<()> {
    add(server, json!({"topic": "mail", "id": "expires", "ttr": "1s", "max_attempts": 1}));
    let (_, late) = pop(server);
    for step in ["finish", "release", "bury"] {
        add(server, json!({"topic": "mail", "id": step}));
        let (id, receipt) = pop(server);
        let more = if step == "release" {
            json!({"receipt": receipt, "delay": "1h"})
        } else {
            json!({ "receipt": receipt })
        };
        call(server, "POST", &format!("/jobs/{id}/{step}"), more);
    }
    call(server, "POST", "/jobs/bury/requeue", json!({"delay": "1h"}));
    call(server, "DELETE", "/jobs/release", Value::Null);
    // One job stays ready in a topic that no client pops.
    add(server, json!({"topic": "left", "id": "left"}));
    add(server, json!({"topic": "left", "id": "left", "if_exists": "replace"}));
    add(server, json!({"topic": "left", "id": "over", "expire": 0}));
    // A job that is late because it came due while its topic was paused waits from then on, not from its end.
    add(server, json!({"topic": "mail", "id": "delayed", "delay": "10ms"}));
    pop(server);
    call(server, "POST", "/topics/still/pause", json!({"delivery": true}));
    server.wait_for_state("expires", &json!("dead"));
    call(server, "POST", "/jobs/expires/finish", json!({ "receipt": late }));
    call(server, "POST", "/topics/closed/pause", json!({"intake": true}));
    for topic in ["tick", "closed"] {
        let schedule = json!({"every": "1s", "job": {"topic": topic}});
        call(server, "PUT", &format!("/schedules/{topic}"), schedule);
    }
    call(server, "GET", "/topics/tick/pop?wait=30s", Value::Null);
    // Nothing listens there. Ten failures in a row let an endpoint rest; two processes may share them.
    let callback = json!({"url": "http://127.0.0.1:10081/"});
    let jobs = (0..60).map(|n| json!({"topic": "calls", "id": format!("call-{n}"), "callback": callback}));
    call(server, "POST", "/batch/jobs", json!({ "jobs": jobs.collect::<Vec<_>>() }));
    let address = server.address;
    std::thread::spawn(move || {
        drop(crate::harness::blocking_http::call_until_begun(address, "GET", "/topics/idle/pop?wait=60s", ""))
    })
}

fn configuration(jobs: &[(&str, &str, &[SocketAddr])]) -> String {
    let jobs = jobs.iter().map(|(job, scheme, targets)| {
        let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
        json!({
            "job_name": job, "scheme": scheme, "static_configs": [{ "targets": targets }],
            "tls_config": {"insecure_skip_verify": true}
        })
    });
    // JSON is YAML.
    json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "300ms"},
        "rule_files": [root().join("deploy/prometheus/alerts.yml")],
        "scrape_configs": jobs.collect::<Vec<_>>(),
    })
    .to_string()
}

/// A server whose certificate is its own, with the files in `directory`.
fn serve_with_tls(directory: &std::path::Path) -> Server {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("is made");
    fs::write(directory.join("cert.pem"), made.cert.pem()).expect("writes");
    fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).expect("writes");
    Server::serve(
        &[],
        &[("LINGER__TLS__CERTIFICATE", "cert.pem"), ("LINGER__TLS__KEY", "key.pem")],
        directory,
    )
}

#[test]
fn prometheus_scrapes_every_metric_that_alerts_and_board_use_and_the_documentation_lists() {
    let redis = RedisServer::start_with(&["--save", "", "--appendonly", "no", "--maxmemory", "256mb"]);
    let dirs: [_; 4] = std::array::from_fn(|_| tempfile::tempdir().expect("a directory"));
    let on_redis = [("LINGER__STORE__ENGINE", "redis"), ("LINGER__REDIS__URL", &redis.url())];
    let embedded = Server::serve(&[], &[], dirs[0].path());
    let shared = [1, 2].map(|n| Server::serve(&[], &on_redis, dirs[n].path()));
    // In memory, where no machine has as much free.
    let in_memory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let full = Server::serve(&[], &[("LINGER__EMBEDDED__MIN_FREE", "1TiB")], in_memory.path());
    let tls = serve_with_tls(dirs[3].path());
    let prometheus = Prometheus::start(&configuration(&[
        ("linger-embedded", "http", &[embedded.address]),
        ("linger-redis", "http", &[shared[0].address, shared[1].address]),
        ("linger-full", "http", &[full.address]),
        ("linger-tls", "https", &[tls.address]),
    ]));
    prometheus.wait_for("sum(up) == 5");
    let polls = [&embedded, &shared[0]].map(work);
    assert_eq!(full.call("POST", "/jobs", r#"{"topic":"mail"}"#).status, 507);
    for job in ["linger-embedded", "linger-redis"] {
        prometheus.wait_for(&format!("linger_topic_resting_outlets{{job='{job}'}} > 0"));
        prometheus.wait_for(&format!("linger_jobs_timed_out_total{{job='{job}'}}"));
        prometheus.wait_for(&format!("linger_jobs_expired_total{{job='{job}'}}"));
        prometheus.wait_for(&format!("linger_topic_parked_polls{{job='{job}',topic='other'}}"));
        prometheus.wait_for(&format!("linger_schedule_problems_total{{job='{job}',problem='waiting'}}"));
        prometheus.wait_for(&format!("linger_schedule_late_seconds_count{{job='{job}'}}"));
        prometheus.wait_for(&format!("linger_limit{{job='{job}',limit='dedup_max'}} == 1000000"));
        // Jobs and pauses are read every three seconds.
        prometheus.wait_for(&format!(
            "linger_topic_paused{{job='{job}'}} and on (job) linger_jobs{{topic='left'}} > 0"
        ));
        // Two scrapes, for the rates.
        prometheus.wait_for(&format!("count_over_time(linger_jobs_buried_total{{job='{job}'}}[1m]) > 2"));
    }
    prometheus.wait_for("rate(linger_http_requests_total{status='507'}[1m]) or (count_over_time(linger_http_requests_total{status='507'}[1m]) > 2)");
    let names = prometheus.get("/api/v1/label/__name__/values", None);
    let shown: BTreeSet<String> =
        list(&names["data"]).iter().map(|name| family(text(name)).to_owned()).collect();
    let shown: BTreeSet<String> = shown.iter().flat_map(|name| metrics_in(name)).collect();

    check_documentation(&shown);
    check_alerts(&prometheus, &shown);
    check_board(&prometheus, &shown);
    let first_deaths =
        prometheus.wait_for("ALERTS{alertname='LingerDeadLetters', alertstate='firing', topic='mail'}");
    assert_eq!(first_deaths.len(), 2, "once for each store, also with two processes: {first_deaths:?}");
    drop((embedded, shared));
    for poll in polls {
        poll.join().expect("does not panic");
    }
}

fn check_documentation(shown: &BTreeSet<String>) {
    let page = read("docs/operate/monitor.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let listed: BTreeSet<String> = rows.flat_map(|(name, _)| metrics_in(name)).collect();
    let absent = ABSENT.map(|(name, _)| name.to_owned());
    assert!(absent.iter().all(|name| !shown.contains(name)), "they are shown: {absent:?}");
    let expected: BTreeSet<String> = shown.iter().cloned().chain(absent).collect();
    let differing: Vec<_> = expected.symmetric_difference(&listed).collect();
    assert!(differing.is_empty(), "either only shown or only listed: {differing:?}");
}

fn check_alerts(prometheus: &Prometheus, shown: &BTreeSet<String>) {
    for alert in alerts() {
        let unknown: Vec<_> = metrics_in(text(&alert["expr"])).difference(shown).cloned().collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", alert["alert"]);
    }
    // Some faults of an expression, such as ambiguous pairs, show only with data.
    let time_limit = TimeLimit::new();
    loop {
        let answer = prometheus.get("/api/v1/rules", None);
        let rules: Vec<_> =
            list(&answer["data"]["groups"]).iter().flat_map(|group| list(&group["rules"])).collect();
        assert_eq!(rules.len(), alerts().len());
        let wrong: Vec<_> = rules.iter().filter(|rule| rule["health"] == "err").collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        if rules.iter().all(|rule| rule["health"] == "ok") {
            return;
        }
        time_limit.check(|| format!("{rules:?}"));
        time_limit.pause_thread();
    }
}

fn check_board(prometheus: &Prometheus, shown: &BTreeSet<String>) {
    let board: Value = serde_json::from_str(&read("deploy/grafana/linger.json")).expect("is JSON");
    let (mut rows, mut ids) = (Vec::new(), BTreeSet::new());
    for panel in list(&board["panels"]) {
        assert!(ids.insert(panel["id"].to_string()), "{panel} has the id of another one");
        let title = text(&panel["title"]);
        if panel["type"] == "row" {
            rows.push(title);
            continue;
        }
        for target in list(&panel["targets"]) {
            let expression = text(&target["expr"]);
            let unknown: Vec<_> = metrics_in(expression).difference(shown).cloned().collect();
            assert!(unknown.is_empty(), "{title}: {unknown:?}");
            let filled =
                expression.replace("$__rate_interval", "1m").replace("$job", ".*").replace("$topic", ".*");
            assert!(!filled.contains('$'), "{title}: {filled}");
            // After a scrape that failed, a series is away for a moment.
            prometheus.wait_for(&filled);
        }
    }
    assert_eq!(
        rows,
        ["Health", "Flow by topic", "Punctuality", "Schedules", "Failures", "Workers", "Store", "Limits"]
    );
    for variable in list(&board["templating"]["list"]).iter().filter(|variable| variable["type"] == "query") {
        let unknown: Vec<_> = metrics_in(text(&variable["definition"])).difference(shown).cloned().collect();
        assert!(unknown.is_empty(), "{variable}");
    }
}
