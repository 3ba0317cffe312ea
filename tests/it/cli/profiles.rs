//! Profiles, and which token goes to which server.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use serde_json::{Value, json};

use super::{Ended, command_in, ended, home};
use crate::harness::{process::Server, redis::free_port};

/// The heads of the requests that a server got, which answered each of them 404.
struct Heads {
    url: String,
    thread: std::thread::JoinHandle<Vec<String>>,
}

impl Heads {
    /// A server for so many requests.
    fn listen(requests: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("has an address"));
        let thread = std::thread::spawn(move || {
            let answer_one = || {
                let (mut stream, _) = listener.accept().expect("is called");
                let mut bytes = [0; 4_096];
                let read = stream.read(&mut bytes).expect("can be read");
                stream.write_all(b"HTTP/1.1 404 x\r\ncontent-length: 0\r\n\r\n").expect("is read");
                String::from_utf8_lossy(&bytes[..read]).to_lowercase()
            };
            (0..requests).map(|_| answer_one()).collect()
        });
        Self { url, thread }
    }

    fn tokens(self) -> Vec<Option<String>> {
        let heads = self.thread.join().expect("does not panic");
        let token = |head: &String| {
            let line = head.lines().find_map(|line| line.strip_prefix("authorization: bearer "));
            line.map(str::to_owned)
        };
        heads.iter().map(token).collect()
    }
}

fn run(home: &Path, words: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = command_in(home, words);
    command.envs(variables.iter().copied());
    ended(command)
}

#[track_caller]
fn succeed(home: &Path, words: &[&str]) -> String {
    let ended = run(home, words, &[]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{words:?}: {ended:?}");
    ended.stdout
}

#[test]
fn profiles_are_made_changed_listed_and_used() {
    let home = home();
    let home = home.path();
    let run = |words: &[&str]| succeed(home, words);
    run(&["profile", "set", "dev", "--url", "http://127.0.0.1:9277"]);
    let shown = run(&[
        "profile",
        "set",
        "prod",
        "--url",
        "https://queue.internal",
        "--token-file",
        "token",
        "--text",
    ]);
    let directory = home.canonicalize().expect("is there");
    let token_file = directory.join("token");
    assert!(shown.contains("url            https://queue.internal:443\n"), "{shown}");
    assert!(shown.contains(token_file.to_str().expect("is text")), "the path is absolute: {shown}");
    run(&["profile", "use", "prod"]);
    let shown =
        run(&["profile", "set", "prod", "--token-command", "pass show x", "--confirm", "true", "--json"]);
    let expected = json!({
        "name": "prod", "in_use": true, "url": "https://queue.internal:443",
        "token_command": "pass show x", "confirm": true,
    });
    assert!(shown.ends_with('\n') && shown.lines().count() == 1, "{shown}");
    assert_eq!(serde_json::from_str::<Value>(&shown).expect("is JSON"), expected);
    assert_eq!(run(&["profile", "show", "--json"]), shown);
    let listed = "PROFILE  URL\ndev      http://127.0.0.1:9277\nprod *   https://queue.internal:443\n";
    assert_eq!(run(&["profile", "list", "--text"]), listed);
    assert_eq!(run(&["profile", "list"]).lines().count(), 2);
    run(&["profile", "set", "old", "--url", "http://127.0.0.1:9277"]);
    assert_eq!(run(&["profile", "remove", "old", "--text"]), "old  removed\n");
    assert_eq!(run(&["profile", "list", "--text"]), listed);
    let file = home.join(".config/linger/client.toml");
    let mode = fs::metadata(&file).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let left = fs::read_dir(file.parent().expect("has one")).expect("is there").count();
    assert_eq!(left, 1, "no draft is left");
    run(&["profile", "rm", "prod"]);
    assert_eq!(run(&["profile", "list", "--text"]), "PROFILE  URL\ndev      http://127.0.0.1:9277\n");
}

#[test]
fn the_token_of_a_profile_goes_to_its_server_alone() {
    let home = home();
    let home = home.path();
    let own = Heads::listen(3);
    fs::write(home.join("token"), "s3cret\n").expect("can be written");
    succeed(home, &["profile", "set", "prod", "--url", &own.url, "--token-file", "token"]);
    succeed(home, &["profile", "set", "command", "--url", &own.url, "--token-command", "echo pr1nted"]);
    succeed(home, &["profile", "use", "prod"]);
    let foreign = Heads::listen(5);
    let get = |words: &[&str], variables: &[(&str, &str)]| {
        let ended = run(home, &[&["get", "a"], words].concat(), variables);
        // A 404 that is not Linger's says nothing about jobs.
        assert_eq!(ended.code, Some(1), "{words:?}, {variables:?}: {ended:?}");
        assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
    };
    get(&[], &[]);
    get(&["--profile", "command"], &[]);
    get(&[], &[("LINGER_TOKEN", "0ther")]);
    let url = foreign.url.clone();
    get(&["--url", &url], &[]);
    get(&["--url", &url, "--profile", "prod"], &[]);
    get(&["--profile", "prod"], &[("LINGER_URL", &url)]);
    get(&["--url", &url], &[("LINGER_PROFILE", "command")]);
    get(&["--url", &url, "--token-file", "token"], &[("LINGER_TOKEN", "0ther")]);
    let text = |token: &str| Some(token.to_owned());
    assert_eq!(own.tokens(), [text("s3cret"), text("pr1nted"), text("0ther")]);
    assert_eq!(foreign.tokens(), [None, None, None, None, text("s3cret")]);
}

/// As every other command does, unless it is told to ask the server of this machine.
#[test]
fn health_asks_the_server_that_a_variable_or_a_profile_names() {
    let home = home();
    let home = home.path();
    let server = Server::serve(&[], &[], home);
    let (url, address) = (server.url(), server.address.to_string());
    let dead = format!("http://127.0.0.1:{}", free_port());
    let health =
        |words: &[&str], variables: &[(&str, &str)]| run(home, &[&["health"], words].concat(), variables);
    let assert_ready = |words: &[&str], variables: &[(&str, &str)]| {
        let ended = health(words, variables);
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(0), "ready\n"),
            "{words:?} {variables:?}: {ended:?}"
        );
    };
    assert_ready(&[], &[("LINGER_URL", &url)]);
    assert_ready(&["--url", &url], &[("LINGER_URL", &dead)]);
    assert_ready(&[], &[("LINGER__SERVER__LISTEN", &address)]);
    succeed(home, &["profile", "set", "prod", "--url", &dead]);
    succeed(home, &["profile", "use", "prod"]);
    for (words, variables, source) in [
        (&[][..], &[("LINGER_URL", dead.as_str())][..], "(LINGER_URL)"),
        (&[], &[("LINGER__SERVER__LISTEN", address.as_str())], "(profile prod)"),
        (&["--profile", "prod"], &[], "(profile prod)"),
        (&["--url", &dead], &[("LINGER_URL", url.as_str())], "(--url)"),
        (
            &["--local"],
            &[("LINGER_URL", url.as_str()), ("LINGER__SERVER__LISTEN", &dead[7..])],
            "(server.listen)",
        ),
        (&["--profile", "none"], &[], "there is no profile \"none\""),
        (&[], &[("LINGER_URL", "ftp://a")], "LINGER_URL: "),
    ] {
        let ended = health(words, variables);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{words:?} {variables:?}: {ended:?}");
        assert!(ended.stderr.contains(source), "{words:?} {variables:?}: {ended:?}");
    }
    for words in [&["--local"][..], &["--listen", &address]] {
        assert_ready(words, &[("LINGER_URL", &dead), ("LINGER__SERVER__LISTEN", &address)]);
    }
    assert!(server.stop().success());
}

#[test]
fn an_unusable_profile_or_token_is_2_and_named() {
    let home = home();
    let home = home.path();
    fs::create_dir_all(home.join(".config/linger")).expect("can be made");
    let write =
        |text: &str| fs::write(home.join(".config/linger/client.toml"), text).expect("can be written");
    let profile = |keys: &str| format!("[profiles.prod]\n{keys}\n");
    fs::write(home.join(".config/linger/empty"), "\n").expect("can be written");
    for (text, message) in [
        ("profiles = 7".to_owned(), "client.toml: "),
        (profile("url = 'http://a'\ntoken = 'x'"), "unknown field `token`"),
        (profile("token_file = 'x'"), "missing field `url`"),
        (profile("url = 'a'"), "profile prod: \"a\" must be like"),
        (
            profile("url = 'http://a'\ntoken_file = 'x'\ntoken_command = 'y'"),
            "both token_file and token_command",
        ),
        (profile("url = 'http://a'\ntoken_file = 'none'"), ".config/linger/none: No such file"),
        (profile("url = 'http://a'\ntoken_file = '~/none'"), "/none: No such file"),
        (profile("url = 'http://a'\ntoken_file = '/dev/zero'"), "it is not a regular file"),
        (profile("url = 'http://a'\ntoken_file = 'empty'"), "contains no token"),
        (
            profile("url = 'http://a'\ntoken_command = 'exit 3 # s3cret'"),
            "token_command failed: exit status: 3",
        ),
        (profile("url = 'https://a'\nca = 'none'"), ".config/linger/none: "),
        (profile("url = 'http://a'").replace("prod", "other"), "no profile \"prod\" (profiles: other)"),
    ] {
        write(&text);
        let ended = run(home, &["get", "a", "--profile", "prod"], &[]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{text}: {ended:?}");
        assert!(ended.stderr.contains(message), "{text}: {ended:?}");
        assert!(!ended.stderr.contains("s3cret"), "{text}: {ended:?}");
    }
    write("default = 'none'");
    assert_eq!(run(home, &["get", "a"], &[]).code, Some(2), "the default profile does not exist");
    let elsewhere = ["get", "a", "--url", "http://127.0.0.1:9", "--timeout", "10ms"];
    assert_eq!(run(home, &elsewhere, &[]).code, Some(6), "with a URL, profiles are not read");
    for words in [
        &["profile", "show", "new"][..],
        &["profile", "show"],
        &["profile", "use", "new"],
        &["profile", "remove", "new"],
        &["profile", "set", "new", "--confirm", "true"],
        &["profile", "set", "new name", "--url", "http://a"],
        &["profile", "set", "new", "--url", "a"],
        &["profile", "set", "new"],
    ] {
        assert_eq!(run(home, words, &[]).code, Some(2), "{words:?}");
    }
    let ended = run(home, &["profile", "set", "new", "--url", "http://a"], &[("HOME", "/proc")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("/proc/.config/linger/client.toml: cannot be written"), "{ended:?}");
}

#[test]
fn completions_and_manual_pages_have_every_command() {
    let home = home();
    let home = home.path();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = succeed(home, &["completions", shell]);
        assert!(script.contains("reschedule") && script.contains("max-attempts"), "{shell}");
    }
    assert_eq!(run(home, &["completions", "tcsh"], &[]).code, Some(2));
    assert_eq!(succeed(home, &["man", "pages/man1"]), "");
    for (page, text) in
        [("linger.1", "linger\\-add"), ("linger-add.1", "max\\-attempts"), ("linger-dead-ls.1", "limit")]
    {
        let page = fs::read_to_string(home.join("pages/man1").join(page)).expect(page);
        assert!(page.contains(text), "{page}");
    }
    assert_eq!(run(home, &["man", "/proc/man"], &[]).code, Some(1));
}
