//! Servers that are away for a while: calls are repeated, and a repeat is recognised.

use std::process::Stdio;

use super::{Cli, command_in, ended, home};
use crate::harness::{
    process::{Server, linger},
    proxy::{Fate, Proxy},
    redis::free_port,
};

/// Runs a command beside the tasks of this runtime.
async fn run_beside(cli: &Cli, url: &str, words: &[&str]) -> super::Ended {
    let mut command = cli.command(words);
    command.env("LINGER_URL", url);
    tokio::task::spawn_blocking(move || ended(command)).await.expect("does not panic")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_whose_first_attempt_was_done_is_0() {
    use Fate::{Refused, ResponseLost, Served};
    let cli = Cli::start();
    for (words, fates, printed) in [
        (&["add", "mail", "--id", "mine", "--text"][..], &[ResponseLost, Refused, Served][..], "mine  ready"),
        (&["add", "mail", "--text"], &[ResponseLost, Served], "  ready"),
        (&["cancel", "mine", "--text"], &[ResponseLost, Served], "mine  cancelled"),
    ] {
        let proxy = Proxy::start(cli.server.address);
        proxy.decide_in_order(fates);
        let ended = run_beside(&cli, &proxy.url(), words).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{words:?}: {ended:?}");
        assert!(ended.stdout.contains(printed), "{words:?}: {ended:?}");
    }
    let topic = cli.server.call("GET", "/topics/mail", "").json();
    assert_eq!(topic["counts"]["ready"], 1, "the add without an id was recognised");
    assert!(cli.server.stop().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_whose_answer_was_lost_is_0() {
    use Fate::{ResponseLost, Served};
    let cli = Cli::start();
    cli.succeed(&["add", "mail", "--id", "a"]);
    for (words, state) in [
        (&["release", "a", "--delay", "0s"][..], "ready"),
        (&["revoke", "a"], "ready"),
        (&["bury", "a", "--reason", "no order"], "dead"),
        (&["dead", "requeue", "mail", "a"], "ready"),
    ] {
        let is_for_dead = words[0] == "dead";
        let mut line = words.to_vec();
        let mut receipt = String::new();
        if !is_for_dead {
            let popped: serde_json::Value =
                serde_json::from_str(&cli.succeed(&["pop", "mail", "--wait", "20s"])).expect("is a job");
            receipt.push_str(popped["receipt"].as_str().expect("has a receipt"));
        }
        if !is_for_dead && words[0] != "revoke" {
            line.extend(["--receipt", &receipt]);
        }
        // A requeue looks at the job before, and each looks at it after the conflict.
        let before = if is_for_dead { &[Served][..] } else { &[] };
        let fates = [before, &[ResponseLost, Served, Served]].concat();
        let proxy = Proxy::start(cli.server.address);
        proxy.decide_in_order(&fates);
        let ended = run_beside(&cli, &proxy.url(), &line).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{words:?}: {ended:?}");
        assert!(ended.stdout.contains(&format!("\"state\":\"{state}\"")), "{words:?}: {ended:?}");
        assert_eq!(cli.state("a").expect("is there").0, state);
    }
    assert!(cli.server.stop().success());
}

#[test]
fn a_command_waits_for_a_server_that_starts_and_a_poll_outlives_a_restart() {
    let (home, port) = (home(), free_port());
    let (url, listen) = (format!("http://127.0.0.1:{port}"), format!("127.0.0.1:{port}"));
    let start = || Server::spawn(linger(&["serve", "--listen", &listen], home.path()));
    let call = |words: &[&str]| {
        let words = [words, &["--url", &url, "--timeout", "60s"]].concat();
        command_in(home.path(), &words).stdout(Stdio::piped()).spawn().expect("linger starts")
    };
    let add = call(&["add", "mail", "--id", "a"]);
    let mut server = start();
    assert!(add.wait_with_output().expect("it ends").status.success());
    let popped = call(&["pop", "mail"]).wait_with_output().expect("it ends");
    assert!(String::from_utf8_lossy(&popped.stdout).starts_with("{\"id\":\"a\""));
    let poll = call(&["pop", "mail", "--wait", "60s"]);
    server.wait_for_parked_polls(1);
    server.kill();
    let server = start();
    assert_eq!(server.call("POST", "/jobs", "{\"topic\":\"mail\",\"id\":\"b\"}").status, 201);
    let popped = poll.wait_with_output().expect("it ends");
    assert!(String::from_utf8_lossy(&popped.stdout).starts_with("{\"id\":\"b\""), "{popped:?}");
    assert!(server.stop().success());
}

#[test]
fn definitions_that_were_added_before_a_kill_are_recognised() {
    let (home, port) = (home(), free_port());
    let listen = format!("127.0.0.1:{port}");
    let start = || Server::spawn(linger(&["serve", "--listen", &listen], home.path()));
    let lines: String = (0..250).map(|n| format!("{{\"topic\":\"mail\",\"body\":{}}}\n", n % 50)).collect();
    std::fs::write(home.path().join("jobs"), lines).expect("can be written");
    let url = format!("http://{listen}");
    let add = |timeout: &str| {
        let words = ["add", "--lines", "@jobs", "--text", "--url", &url, "--timeout", timeout];
        ended(command_in(home.path(), &words))
    };
    let mut server = start();
    assert_eq!(add("60s").stdout, "250 added, 0 there already, 0 failed\n");
    server.kill();
    let away = add("500ms");
    assert_eq!((away.code, away.stdout.as_str()), (Some(6), ""), "{away:?}");
    assert!(away.stderr.contains("jobs, lines 1 to 100, which may be added again"), "{away:?}");
    let server = start();
    assert_eq!(add("60s").stdout, "0 added, 250 there already, 0 failed\n");
    assert!(server.stop().success());
}
