//! The program with tokens: its start, and the reload of tokens.

use std::{
    fs,
    io::Write,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use linger::auth::{Scope, token_entry};
use rustix::process::Signal;

use crate::harness::{
    blocking_http::call_with,
    process::{Server, linger, refused, run, stderr, stdout},
};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn tokens_in(directory: &Path, tokens: &[&str]) -> PathBuf {
    let path = directory.join("tokens.toml");
    let entries: String = tokens.iter().map(|token| token_entry(token, token, &[Scope::Read], &[])).collect();
    fs::write(&path, entries).expect("can be written");
    path
}

fn status(server: &Server, token: &str) -> u16 {
    let header = format!("Authorization: Bearer {token}\r\n");
    call_with(server.address, "GET", "/version", &header, "").expect("the server answers").status
}

fn serve_with(tokens: &Path, directory: &Path) -> Server {
    Server::serve(&[], &[("LINGER__AUTH__TOKENS_FILE", tokens.to_str().expect("is text"))], directory)
}

#[test]
fn listening_beyond_loopback_needs_tokens_or_allow_anonymous() {
    let directory = directory();
    let output = refused(&["serve", "--listen", "0.0.0.0:0"], directory.path());
    assert_eq!(output.status.code(), Some(2));
    for part in ["server.listen", "auth.tokens_file", "auth.allow_anonymous"] {
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
    let open = &[("LINGER__SERVER__LISTEN", "0.0.0.0:0"), ("LINGER__AUTH__ALLOW_ANONYMOUS", "true")];
    let mut command = crate::harness::process::linger(&["serve"], directory.path());
    command.envs(open.iter().copied());
    let server = Server::spawn(command);
    server.wait_for_log("auth.allow_anonymous");
    assert!(server.stop().success());
    let tokens = tokens_in(directory.path(), &["one"]);
    let mut command = crate::harness::process::linger(&["serve", "--listen", "0.0.0.0:0"], directory.path());
    command.env("LINGER__AUTH__TOKENS_FILE", &tokens);
    let server = Server::spawn(command);
    assert_eq!((status(&server, "one"), status(&server, "two")), (200, 401));
    assert!(server.stop().success());
}

#[test]
fn an_unusable_tokens_file_is_named_at_start_and_by_config_check() {
    let directory = directory();
    let path = directory.path().join("tokens.toml");
    let shown = path.to_str().expect("is text");
    fs::write(directory.path().join("linger.toml"), format!("[auth]\ntokens_file = {shown:?}\n"))
        .expect("can be written");
    for (text, part) in [(None, "cannot be read"), (Some(""), "no [[token]]"), (Some("[[token]]"), "entry 1")]
    {
        if let Some(text) = text {
            fs::write(&path, text).expect("can be written");
        }
        for words in [&["serve", "--listen", "127.0.0.1:0"][..], &["config", "check"]] {
            let output = refused(words, directory.path());
            let message = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{message}");
            assert!(message.contains(shown) && message.contains(part), "{message}");
        }
    }
    tokens_in(directory.path(), &["one"]);
    let checked = stdout(&run(&["config", "check"], directory.path()));
    assert!(checked.ends_with("the configuration is valid\n"), "{checked}");
}

#[test]
fn sighup_reloads_the_tokens_and_keeps_the_old_ones_if_it_cannot() {
    let directory = directory();
    let tokens = tokens_in(directory.path(), &["one"]);
    let server = serve_with(&tokens, directory.path());
    assert_eq!((status(&server, "one"), status(&server, "two")), (200, 401));
    fs::write(&tokens, "[[token]]\nname = 'half").expect("can be written");
    server.signal(Signal::HUP);
    server.wait_for_log("cannot reload the tokens");
    assert_eq!((status(&server, "one"), status(&server, "two")), (200, 401));
    tokens_in(directory.path(), &["two"]);
    server.signal(Signal::HUP);
    server.wait_for_log("reloaded the tokens");
    assert_eq!((status(&server, "one"), status(&server, "two")), (401, 200));
    assert!(server.stop().success());
}

#[test]
fn a_new_token_works_with_its_entry() {
    let directory = directory();
    let made = run(&["token", "new", "--name", "ops", "--scope", "read", "--topic", "a*"], directory.path());
    assert!(made.status.success(), "{}", stderr(&made));
    let (entry, said) = (stdout(&made), stderr(&made));
    let token = said.lines().map(str::trim).find(|line| line.starts_with("linger_")).expect("a token");
    assert!(!entry.contains(token) && entry.contains("topics = [\"a*\"]"), "{entry}");
    let path = directory.path().join("tokens.toml");
    // As `linger token new > tokens.toml` does.
    fs::write(&path, &entry).expect("can be written");
    let server = serve_with(&path, directory.path());
    assert_eq!(status(&server, token), 200);
    assert!(server.stop().success());
    for words in [
        &["token", "new"][..],
        &["token", "new", "--scope", "root"],
        &["token", "new", "--scope", "add", "--topic", "*x"],
    ] {
        assert_eq!(run(words, directory.path()).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn a_token_from_another_server_works_with_its_entry() {
    let directory = directory();
    let hash = |token: &str, words: &[&str]| {
        let mut command = linger(&["token", "hash"], directory.path());
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("linger starts");
        child.stdin.take().expect("is piped").write_all(token.as_bytes()).expect("reads");
        child.wait_with_output().expect("ends")
    };
    let path = directory.path().join("tokens.toml");
    let made = hash("01FVHXTEST\n", &["--name", "old", "--scope", "read", "--append", "tokens.toml"]);
    assert!(made.status.success() && stdout(&made).is_empty(), "{}", stderr(&made));
    let other = hash("01FVHOTHER", &["--scope", "add", "--topic", "n:*"]);
    assert!(stdout(&other).contains("topics = [\"n:*\"]") && !stdout(&other).contains("01FVHOTHER"));
    let server = serve_with(&path, directory.path());
    assert_eq!((status(&server, "01FVHXTEST"), status(&server, "01FVHOTHER")), (200, 401));
    assert!(server.stop().success());
    for (token, words) in [
        ("", &["--scope", "add"][..]),
        ("a\nb", &["--scope", "add"]),
        ("default:a", &["--scope", "add"]),
        (&"a".repeat(20_000), &["--scope", "add"]),
        ("a", &["--scope", "add", "--name", ""]),
        ("a", &[]),
    ] {
        assert_eq!(hash(token, words).status.code(), Some(2), "{token:?} {words:?}");
    }
}

#[test]
fn a_new_token_may_be_appended_to_the_file() {
    let directory = directory();
    let new = |words: &[&str]| {
        let words = [&["token", "new", "--append", "tokens.toml", "--scope"], words].concat();
        run(&words, directory.path())
    };
    let path = directory.path().join("tokens.toml");
    let one = ["add,read", "--name", "one"];
    let made = [&one[..], &["work", "--scope", "read", "--name", "two", "--topic", "a*"]].map(|words| {
        let made = new(words);
        assert!(made.status.success(), "{}", stderr(&made));
        let token = stdout(&made).trim().to_owned();
        assert!(token.starts_with("linger_") && !token.contains(char::is_whitespace), "{token}");
        assert!(!stderr(&made).contains(&token), "{}", stderr(&made));
        token
    });
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).expect("is there").permissions());
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(&path).expect("reads");
    assert!(text.contains("scopes = [\"add\",\"read\"]") && text.contains("[\"work\",\"read\"]"), "{text}");
    // Two clients of one name could not be told apart in logs and histories.
    for (words, code, message) in
        [(&one[..], 1, "has a token named \"one\" already"), (&["add"], 2, "--name <NAME>")]
    {
        let refused = new(words);
        assert_eq!(refused.status.code(), Some(code), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(message), "{}", stderr(&refused));
        assert_eq!(fs::read_to_string(&path).expect("reads"), text);
    }
    let token = |words: &[&str]| {
        let done = run(&[&["token"], words].concat(), directory.path());
        assert!(done.status.success(), "{words:?}: {}", stderr(&done));
        stdout(&done)
    };
    let listed = "NAME  SCOPES     TOPICS\none   add,read   all\ntwo   work,read  a*\n";
    assert_eq!(token(&["list", "tokens.toml", "--text"]), listed);
    let json = "{\"name\":\"one\",\"scopes\":[\"add\",\"read\"],\"topics\":null}\n";
    assert!(token(&["list", "tokens.toml"]).starts_with(json), "{}", token(&["list", "tokens.toml"]));
    let server = serve_with(&path, directory.path());
    assert_eq!(made.each_ref().map(|token| status(&server, token)), [200, 200]);
    let before = fs::metadata(&path).expect("is there");
    assert!(token(&["remove", "one", "tokens.toml"]).contains("1 token of one removed"));
    let after = fs::metadata(&path).expect("is there");
    // A container has mounted this very file.
    assert_eq!([before.ino(), before.mode().into()], [after.ino(), after.mode().into()]);
    assert_eq!(token(&["list", "tokens.toml", "--text"]), "NAME  SCOPES     TOPICS\ntwo   work,read  a*\n");
    assert!(server.stop().success());
    let server = serve_with(&path, directory.path());
    assert_eq!(made.map(|token| status(&server, &token)), [401, 200]);
    assert!(server.stop().success());
    for words in [&["remove", "one", "tokens.toml"][..], &["remove", "two", "tokens.toml"]] {
        let refused = run(&[&["token"], words].concat(), directory.path());
        assert_eq!(refused.status.code(), Some(1), "{words:?}: {}", stderr(&refused));
        assert!(stderr(&refused).starts_with("linger: tokens.toml: has no "), "{}", stderr(&refused));
    }
    // A file that is not a tokens file is not changed.
    fs::write(&path, "[server]\nlisten = 'x'\n").expect("can be written");
    let refused = new(&["add", "--name", "three"]);
    assert_eq!((refused.status.code(), stdout(&refused)), (Some(1), String::new()));
    assert!(stderr(&refused).contains("tokens.toml: contains something"), "{}", stderr(&refused));
    assert_eq!(fs::read_to_string(&path).expect("reads"), "[server]\nlisten = 'x'\n");
}
