//! Secrets and private data are sent through the program at its most verbose log level. They must not appear on stdout or
//! stderr, in either log format, whichever errors occur.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use linger::auth::{Scope, token_entry};
use rustix::process::Signal;
use tokio::runtime;

use crate::harness::{
    blocking_http::{Response, call_with_until_begun},
    process::{Server, linger, refused, run, stderr, stdout},
    receiver::{Answer, Call, Receiver},
    redis::RedisServer,
    wait::TimeLimit,
};

/// Texts that must not appear. None of them resembles anything that a program writes by itself.
const TOKEN: &str = "linger_c4n4ry70k3n";
const UNKNOWN_TOKEN: &str = "c4n4ry57r4ng370k3n";
const PASTED_TOKEN: &str = "c4n4ryp4573d70k3n";
const BODY: &str = "c4n4ryb0dy";
const BROKEN: &str = "c4n4rybr0k3n";
const REASON: &str = "c4n4ryr3450n";
const PASSWORD: &str = "c4n4ryp455w0rd";
const WRONG_PASSWORD: &str = "c4n4rywr0ngp455w0rd";

const HEADER: &str = "c4n4ryh34d3r";
const SIGNING_KEY: &str = "c4n4ry51gn1ngk3yc4n4ry51gn1ngk3y";
/// Part of a URL, which responses show and the log does not.
const CALLED_PATH: &str = "c4n4ryp47h";

const SECRETS: [&str; 10] =
    [TOKEN, UNKNOWN_TOKEN, PASTED_TOKEN, BODY, BROKEN, REASON, PASSWORD, WRONG_PASSWORD, HEADER, SIGNING_KEY];

/// Asserts that no secret appears in `output` in any form.
#[track_caller]
fn assert_absent(secrets: &[&str], output: &str, context: &str) {
    for secret in secrets {
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        let bytes = format!("{:?}", secret.as_bytes());
        for form in [*secret, &hex, &hex.to_uppercase(), bytes.trim_matches(['[', ']'])] {
            let line = output.lines().find(|line| line.contains(form));
            assert!(line.is_none(), "{context}: {secret} is in {line:?}");
        }
    }
}

#[track_caller]
fn assert_no_secrets(output: &Output, context: &str) {
    assert_absent(&SECRETS, &format!("{}\n{}", stdout(output), stderr(output)), context);
}

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let entry = token_entry("canary", TOKEN, &[Scope::Admin], &[]);
    fs::write(directory.path().join("tokens.toml"), entry).expect("can be written");
    directory
}

/// `linger` with all log levels enabled, in this format.
fn verbose_linger(arguments: &[&str], format: &str, directory: &Path) -> Command {
    let mut command = linger(arguments, directory);
    command.env("RUST_LOG", "trace").env("LINGER__LOG__FORMAT", format);
    command.env("LINGER__AUTH__TOKENS_FILE", "tokens.toml");
    // With tokens, this machine is not called by default.
    command.env("LINGER__CALLBACKS__ALLOW_NETWORKS", "loopback");
    command
}

fn call(server: &Server, token: &str, method: &str, path: &str, body: &str) -> Response {
    let headers = format!("Authorization: Bearer {token}\r\nCookie: session={BROKEN}\r\n");
    call_with_until_begun(server.address, method, path, &headers, body).expect("the server answers")
}

/// Sends all kinds of valid and invalid requests. Returns the receipts that it received.
fn send_requests(server: &Server) -> Vec<String> {
    let send = |method: &str, path: &str, body: &str| call(server, TOKEN, method, path, body);
    let mut receipts = Vec::new();
    for step in ["finish", "release", "touch", "bury"] {
        let job = format!(r#"{{"topic":"t","id":"{step}","body":{{"{BODY}":"{BODY}"}}}}"#);
        assert_eq!(send("POST", "/jobs", &job).status, 201);
        assert_eq!(send("POST", "/jobs", &job).status, 200);
        let other = job.replace("{\"c4", "{\"other\":1,\"c4");
        assert_eq!(send("POST", "/jobs", &other).status, 409);
        let popped = send("GET", "/topics/t/pop?wait=5s", "").json();
        let receipt = popped["receipt"].as_str().expect("a receipt").to_owned();
        let (path, body) = match step {
            "finish" => (format!("/jobs/{step}/finish?receipt={receipt}"), String::new()),
            "bury" => {
                (format!("/jobs/{step}/bury"), format!(r#"{{"receipt":"{receipt}","reason":"{REASON}"}}"#))
            }
            // Later than the next pop, however slow the machine is.
            "release" => {
                (format!("/jobs/{step}/{step}"), format!(r#"{{"receipt":"{receipt}","delay":"1h"}}"#))
            }
            _ => (format!("/jobs/{step}/{step}"), format!(r#"{{"receipt":"{receipt}"}}"#)),
        };
        let answer = send("POST", &path, &body);
        assert!(matches!(answer.status, 200 | 204), "{step}: {answer:?}");
        send("POST", &path, &body);
        receipts.push(receipt);
    }
    send("PATCH", "/jobs/release", &format!(r#"{{"body":"{BODY}","delay":"1h"}}"#));
    send("GET", "/topics/t/dead", "");
    send("POST", "/jobs/bury/requeue", "");
    send("POST", "/batch/jobs", &format!(r#"{{"jobs":[{{"topic":"t","body":"{BODY}"}},{{"{BROKEN}":1}}]}}"#));
    for broken in [
        format!(r#"{{"topic":"t","body":{BROKEN}}}"#),
        format!(r#"{{"topic":"t","{BROKEN}":1}}"#),
        format!(r#"{{"topic":"{BROKEN} !"}}"#),
        format!(r#"{{"topic":"t","delay":"{BROKEN}"}}"#),
        BROKEN.to_owned(),
    ] {
        assert!(matches!(send("POST", "/jobs", &broken).status, 400 | 422), "{broken}");
    }
    send_callbacks(&send);
    send("GET", &format!("/topics/t/pop?{BROKEN}={BROKEN}&wait={BROKEN}"), "");
    send("GET", &format!("/{BROKEN}?{BROKEN}"), "");
    send("GET", &format!("/jobs/finish%2F{BROKEN}"), "");
    assert_eq!(call(server, UNKNOWN_TOKEN, "GET", "/version", "").status, 401);
    for page in ["/version", "/metrics", "/readyz?verbose", "/topics"] {
        assert_absent(&SECRETS, &send("GET", page, "").body, page);
    }
    receipts
}

/// Sends valid and invalid callbacks and secrets. No response shows a value of a header, and none but that to the call that
/// adds a secret shows the secret.
fn send_callbacks(send: &impl Fn(&str, &str, &str) -> Response) {
    let url = format!("http://localhost:8099/{CALLED_PATH}?{CALLED_PATH}");
    let callback = |more: &str| format!(r#"{{"url":"{url}","headers":{{"x-key":"{HEADER}"{more}}}}}"#);
    let (valid, invalid) = (callback(""), callback(&format!(r#","x-bad":"{HEADER}\n","host":"{HEADER}""#)));
    let job =
        |callback: &str| format!(r#"{{"topic":"called","id":"called","delay":"1h","callback":{callback}}}"#);
    let own = format!(r#"{{"secret":"whsec_{SIGNING_KEY}"}}"#);
    assert_eq!(send("POST", "/topics/called/secrets", &own).status, 201);
    let elsewhere = r#"{"callback":{"url":"http://localhost:8098/","headers":{"x-key":"[hidden]"}}}"#;
    for (method, path, body, status) in [
        ("POST", "/jobs", job(&valid), 201),
        ("POST", "/jobs", job(&valid), 200),
        ("POST", "/jobs", job(&invalid), 422),
        ("POST", "/batch/jobs", format!(r#"{{"jobs":[{},{}]}}"#, job(&valid), job(&invalid)), 200),
        ("GET", "/jobs/called", String::new(), 200),
        ("PATCH", "/jobs/called", format!(r#"{{"callback":{valid}}}"#), 422),
        ("PUT", "/topics/called", format!(r#"{{"callback":{valid}}}"#), 200),
        ("PUT", "/topics/called", format!(r#"{{"callback":{invalid}}}"#), 422),
        ("PUT", "/topics/called", elsewhere.to_owned(), 422),
        ("POST", "/topics/called/secrets", format!(r#"{{"secret":"{SIGNING_KEY}"}}"#), 422),
        ("GET", "/topics/called", String::new(), 200),
        ("GET", "/topics/called/secrets", String::new(), 200),
    ] {
        let response = send(method, path, &body);
        assert_eq!(response.status, status, "{method} {path} {body}: {}", response.body);
        assert_absent(&SECRETS, &response.body, path);
    }
}

/// Jobs that are called: one with a callback of its own, one by the URL of its topic.
const CALLED: [&str; 2] = ["own", "hook"];

/// An endpoint that refuses the first call of each job with a reason, and takes the second.
async fn start_receiver() -> Receiver {
    Receiver::start(1, |call| match call.attempt() {
        1 => Answer::Body(500, REASON),
        _ => Answer::Status(204),
    })
    .await
}

/// Has the receiver called with every kind of secret. Returns its calls.
async fn have_jobs_called(server: &Server, receiver: &Receiver) -> Vec<Call> {
    let send = |method: &str, path: &str, body: &str| call(server, TOKEN, method, path, body);
    // By a name, which has to be looked up.
    let url = receiver.url(0, &format!("/{CALLED_PATH}?{CALLED_PATH}")).replace("127.0.0.1", "localhost");
    let callback = format!(r#"{{"url":"{url}","headers":{{"x-key":"{HEADER}"}}}}"#);
    let put = send("PUT", "/topics/called", &format!(r#"{{"callback":{callback}}}"#));
    assert_eq!(put.status, 200, "{}", put.body);
    for id in CALLED {
        let own = if id == "own" { format!(r#","callback":{callback}"#) } else { String::new() };
        let job = format!(r#"{{"topic":"called","id":"{id}","retry":[0],"body":"{BODY}"{own}}}"#);
        assert_eq!(send("POST", "/jobs", &job).status, 201);
        receiver.wait_for_calls_of(id, 2).await;
        let time_limit = TimeLimit::new();
        while send("GET", &format!("/jobs/{id}"), "").status != 404 {
            time_limit.check(|| format!("{id} is not finished"));
            time_limit.pause().await;
        }
    }
    for page in ["/topics/called/callbacks", "/metrics"] {
        let shown = send("GET", page, "").body;
        assert!(shown.contains("http_500"), "{page} does not show the failure: {shown}");
        assert_absent(&SECRETS, &shown, page);
        assert_absent(&[CALLED_PATH], &shown, page);
    }
    let key = STANDARD.decode(SIGNING_KEY).expect("base64");
    let calls = receiver.calls().clone();
    for call in &calls {
        assert!(call.is_signed_by(&key) && call.header("x-key") == HEADER, "{call:?}");
        assert!(call.target.contains(CALLED_PATH) && call.body.ends_with(format!("{BODY}\"").as_bytes()));
    }
    calls
}

/// Asserts that the log has the calls, but nothing of what they sent.
#[track_caller]
fn assert_calls_are_logged(calls: &[Call], output: &str, format: &str) {
    let host = calls[0].header("host");
    for outcome in ["fail", "finish"] {
        let is_logged = |line: &str| {
            line.contains("called") && line.contains(&format!("http://{host}")) && line.contains(outcome)
        };
        assert!(output.lines().any(is_logged), "no call with the outcome {outcome}: {output}");
    }
    for call in calls {
        assert_absent(&[call.receipt(), call.header("webhook-signature")], output, format);
    }
}

/// Runs a session on a server started by `command`, and searches its output for secrets.
fn session_reveals_no_secret(mut command: Command, format: &str, directory: &Path) {
    command.args(["--listen", "127.0.0.1:0"]);
    let mut server = Server::spawn(command);
    let receipts = send_requests(&server);
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime for the endpoint");
    let calls = runtime.block_on(async { have_jobs_called(&server, &start_receiver().await).await });
    let pasted = format!("[[token]]\nname = 'a'\nsha256 = '{PASTED_TOKEN}'\nscopes = ['{PASTED_TOKEN}']");
    for broken in [pasted, format!("[[token]]\n'{PASTED_TOKEN}' = = '{PASTED_TOKEN}'")] {
        fs::write(directory.join("tokens.toml"), broken).expect("can be written");
        server.signal(Signal::HUP);
    }
    server.wait_for_log("cannot reload the tokens");
    server.signal(Signal::TERM);
    let (status, rest) = server.wait();
    assert!(status.success(), "{}", server.log());
    let log = server.log();
    assert!(log.contains("/jobs/{id}/finish") && log.contains("canary"), "the log is not verbose: {log}");
    assert_eq!(log.lines().all(|line| line.starts_with('{')), format == "json", "{log}");
    let output = format!("{}{rest}{log}", server.line);
    assert_absent(&SECRETS, &output, format);
    assert_absent(&[CALLED_PATH], &output, format);
    assert_calls_are_logged(&calls, &output, format);
    assert_absent(&receipts.iter().map(String::as_str).collect::<Vec<_>>(), &output, format);
}

#[test]
fn the_embedded_engine_keeps_its_secrets() {
    for format in ["json", "text"] {
        let directory = directory();
        session_reveals_no_secret(
            verbose_linger(&["serve"], format, directory.path()),
            format,
            directory.path(),
        );
    }
}

#[test]
fn the_redis_engine_keeps_its_secrets() {
    let redis = RedisServer::start_with(&["--requirepass", PASSWORD, "--save", ""]);
    for format in ["json", "text"] {
        let directory = directory();
        let mut command = verbose_linger(&["serve", "--store", "redis"], format, directory.path());
        command.env("LINGER__REDIS__URL", redis.url()).env("LINGER__REDIS__PASSWORD", PASSWORD);
        command.env("LINGER__REDIS__PREFIX", format);
        session_reveals_no_secret(command, format, directory.path());
        // The password in the URL, where it is most easily revealed, and a wrong password.
        let with = |password: &str| redis.url().replace("redis://", &format!("redis://:{password}@"));
        for password in [PASSWORD, WRONG_PASSWORD] {
            let url = with(password);
            let mut show = verbose_linger(&["config", "show", "--redis-url", &url], format, directory.path());
            assert_no_secrets(&show.output().expect("linger runs"), "config show");
        }
        let wrong = with(WRONG_PASSWORD);
        fs::write(directory.path().join("tokens.toml"), token_entry("canary", TOKEN, &[Scope::Admin], &[]))
            .expect("can be written");
        let words = ["serve", "--listen", "127.0.0.1:0", "--store", "redis", "--redis-url", &wrong];
        let mut command = verbose_linger(&words, format, directory.path());
        command.env("LINGER__REDIS__RETRY_FOR", "1s");
        let output = command.output().expect("linger runs");
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot open the store"), "{}", stderr(&output));
        assert_no_secrets(&output, "a wrong password");
    }
}

#[test]
fn invalid_settings_are_reported_without_their_secrets() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("linger.toml");
    for text in [
        format!("[redis]\npassword = \"{PASSWORD}"),
        format!("[redis]\npassword = [\"{PASSWORD}\"]"),
        format!("[redis]\npassword = {PASSWORD}"),
        format!("[redis]\npasword = \"{PASSWORD}\""),
        format!("[redis]\nurl = \"redis://:{PASSWORD}@host:none\""),
        format!("[redis]\nurl = \"rediss://user:{PASSWORD}@host/?{PASSWORD}\""),
        format!("[redis]\nurl = \"redis://:{PASSWORD}@host\"\npassword = \"{PASSWORD}\""),
        format!("[redis]\npassword = \"{PASSWORD}\"\npassword_file = \"nowhere\""),
        format!("[redis]\nsentinel_password = \"{PASSWORD}\"\nnodes = 7"),
        format!("[redis]\npassword_file = \"{PASSWORD}\""),
        format!("[redis]\nsentinel_password_file = \"{PASSWORD}\""),
        format!("[redis]\nmode = \"cluster\"\nnodes = [\"redis://:{PASSWORD}@host:1\"]"),
        format!("[redis]\nusername = [\"{PASSWORD}\"]"),
        format!("[redis]\nprefix = \"redis://:{PASSWORD}@host\""),
        format!("[redis]\nretry_for = \"redis://:{PASSWORD}@host\""),
        format!("[store]\nengine = \"redis://:{PASSWORD}@host\""),
        format!("[server]\nlisten = \"redis://:{PASSWORD}@host\""),
        format!("[auth]\ntokens_file = \"linger_{PASSWORD}{}\"", "0".repeat(30)),
        format!("[tls]\ncertificate = \"c\"\nkey = \"\"\"-----BEGIN PRIVATE KEY-----\n{PASSWORD}\n\"\"\""),
    ] {
        fs::write(&file, &text).expect("can be written");
        for words in [&["config", "check"][..], &["config", "show"], &["serve", "--listen", "nonsense"]] {
            let output = run(words, directory.path());
            assert!(words[1] == "show" || !output.status.success(), "{text} was accepted");
            assert_no_secrets(&output, &text);
        }
    }
    fs::remove_file(&file).expect("the file exists");
    for variable in ["LINGER__REDIS__PASSWORD", "LINGER__REDIS__URL", "LINGER__REDIS__PORT", "RUST_LOG"] {
        let mut command = linger(&["config", "show"], directory.path());
        let output =
            command.env(variable, format!("redis://:{PASSWORD}@host")).output().expect("linger runs");
        assert_no_secrets(&output, variable);
    }
    let tokens = format!("[[token]]\nname = 'a'\nsha256 = '{PASTED_TOKEN}'\nscopes = ['add']");
    fs::write(directory.path().join("tokens.toml"), tokens).expect("can be written");
    fs::write(&file, "[auth]\ntokens_file = 'tokens.toml'").expect("can be written");
    assert_no_secrets(&refused(&["serve", "--listen", "127.0.0.1:0"], directory.path()), "a pasted token");
    let keys = format!("-----BEGIN PRIVATE KEY-----\n{PASSWORD}\n-----END PRIVATE KEY-----\n");
    for key in [keys, PASSWORD.to_owned()] {
        fs::write(directory.path().join("key.pem"), key).expect("can be written");
        fs::write(&file, "[tls]\ncertificate = 'key.pem'\nkey = 'key.pem'").expect("can be written");
        assert_no_secrets(
            &refused(&["serve", "--listen", "127.0.0.1:0"], directory.path()),
            "an invalid key",
        );
    }
    fs::write(&file, "[auth]\ntokens_file = 'tokens.toml'").expect("can be written");
    assert_no_secrets(&run(&["config", "check"], directory.path()), "a pasted token");
}

#[test]
fn a_new_token_is_shown_once_and_not_in_its_entry() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let new = verbose_linger(&["token", "new", "--scope", "add"], "json", directory.path()).output();
    let new = new.expect("linger runs");
    let message = stderr(&new);
    let token = message.split_whitespace().find(|word| word.starts_with("linger_")).expect("a token");
    assert_eq!(message.matches(token).count(), 1);
    assert_absent(&[token], &stdout(&new), "token new");
}
