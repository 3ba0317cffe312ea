//! How the command line is read and refused.

use super::*;
use crate::config::Flag;

fn parsed(line: &str) -> Result<(Command, Settings), clap::Error> {
    parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
}

fn flag(name: &'static str, key: &'static str, value: &str) -> Flag {
    Flag { name, key, value: value.to_owned() }
}

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn flags_come_before_or_after_the_command_or_alone() {
    for line in [
        "linger --listen 1.2.3.4:5",
        "linger serve --listen 1.2.3.4:5",
        "linger --listen 1.2.3.4:5 config show",
        "linger config show --listen 1.2.3.4:5",
        "linger --listen 9.9.9.9:9 health --listen 1.2.3.4:5",
    ] {
        let (_, settings) = parsed(line).expect("is a valid command line");
        assert_eq!(settings.flags(), [flag("--listen", "server.listen", "1.2.3.4:5")], "{line}");
    }
}

#[test]
fn an_unknown_flag_is_refused_before_and_after_the_command() {
    for (command, flags) in [
        ("health", &["--data-dir x", "--store redis", "--redis-url redis://h"][..]),
        ("verify", &["--listen 1.2.3.4:5"]),
        ("backup copy", &["--listen 1.2.3.4:5", "--store redis", "--redis-url redis://h"]),
        ("restore copy", &["--listen 1.2.3.4:5", "--store redis", "--redis-url redis://h"]),
        ("export copy", &["--listen 1.2.3.4:5"]),
        ("import copy", &["--listen 1.2.3.4:5"]),
        ("bench", &["--listen 1.2.3.4:5"]),
        ("config default", &["--config x", "--listen 1.2.3.4:5", "--data-dir x", "--store redis"]),
        ("work t --exec true", &["--config x", "--listen 1.2.3.4:5", "--data-dir x", "--store redis"]),
        ("token new --scope add", &["--config x", "--listen 1.2.3.4:5", "--redis-url redis://h"]),
    ] {
        for flag in flags {
            for line in [format!("linger {flag} {command}"), format!("linger {command} {flag}")] {
                let error = parsed(&line).expect_err(&line);
                assert_eq!((error.kind(), error.exit_code()), (ErrorKind::UnknownArgument, 2), "{line}");
            }
        }
        assert!(parsed(&format!("linger {command}")).is_ok(), "{command}");
    }
}

#[test]
fn the_url_of_a_redis_implies_the_engine() {
    let flags = |line: &str| parsed(line).expect("is valid").1.flags();
    let url = flag("--redis-url", "redis.url", "redis://h");
    let implied = flag("--redis-url", "store.engine", "redis");
    assert_eq!(flags("linger --redis-url redis://h"), [implied, url.clone()]);
    for engine in ["redis", "embedded"] {
        let chosen = flag("--store", "store.engine", engine);
        assert_eq!(flags(&format!("linger --store {engine} --redis-url redis://h")), [chosen, url.clone()]);
    }
}

#[test]
fn invalid_command_lines_of_health_are_recognised() {
    let is_health = |line: &str| is_health(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
    assert!(is_health("linger health --lisen x") && is_health("linger --config x health --store redis"));
    assert!(!is_health("linger --config health --lisen x") && !is_health("linger verify health --lisen x"));
}

#[test]
fn other_words_lead_to_what_was_meant() {
    for (line, same) in [
        ("linger delete a b", "linger cancel a b"),
        ("linger rm a", "linger cancel a"),
        ("linger ack a", "linger finish a"),
        ("linger done a --receipt 9f", "linger finish a --receipt 9f"),
        ("linger dead list mail", "linger dead ls mail"),
        ("linger schedule ls", "linger schedule list"),
        ("linger schedule show daily", "linger schedule get daily"),
        ("linger schedule set daily {}", "linger schedule put daily {}"),
        ("linger schedule rm daily", "linger schedule delete daily"),
        ("linger profile ls", "linger profile list"),
        ("linger token revoke shop tokens.toml", "linger token remove shop tokens.toml"),
    ] {
        let [line, same] = [line, same].map(|line| format!("{:?}", parsed(line).expect("is valid").0));
        assert_eq!(line, same);
    }
    let version = parsed("linger version").expect_err("prints the version");
    assert_eq!((version.kind(), version.exit_code()), (ErrorKind::DisplayVersion, 0));
}

#[test]
fn tips_name_what_was_meant_and_nothing_else() {
    for (line, tip, wrong) in [
        (
            "linger list",
            "tip: `linger dead ls TOPIC` lists dead letters and `linger topics` the topics;",
            "similar",
        ),
        ("linger ls", "`linger topics`", "similar"),
        ("linger put mail {}", "tip: `linger add TOPIC BODY` adds a job", "similar"),
        ("linger requeue a", "`linger dead requeue TOPIC ID`", "similar"),
        ("linger topic mail", "tip: `linger topic show mail` shows it", "similar"),
        ("linger topic ls", "tip: `linger topics` lists them", "similar"),
        ("linger dead mail", "tip: `linger dead ls mail` lists its dead letters", "similar"),
        ("linger cron", "tip: `linger schedule list` lists recurring jobs", "similar"),
        ("linger schedules", "`linger schedule put NAME` makes one", "similar"),
        ("linger schedule daily", "tip: `linger schedule get daily` shows it", "similar"),
        ("linger schedule nxt daily", "a similar subcommand exists: 'next'", "schedule get"),
        ("linger add mail {} --priority 3", "tip: jobs have no priority", "as a value"),
        ("linger add mail {} --ttrr 3s", "a similar argument exists: '--ttr'", "as a value"),
        ("linger serve --port 9712", "tip: --listen takes a port", "as a value"),
        // A mistyped command is no topic.
        ("linger topic shwo", "a similar subcommand exists: 'show'", "topic show shwo"),
        ("linger finsih a", "a similar subcommand exists: 'finish'", "dead ls"),
    ] {
        let error = parsed(line).expect_err(line);
        let text = error.to_string();
        assert!(text.contains(tip) && !text.contains(wrong), "{line}: {text}");
        assert_eq!((error.exit_code(), text.matches("tip: ").count()), (2, 1), "{line}: {text}");
    }
}

/// clap wraps each line; a paragraph wrapped by hand would be wrapped twice.
#[test]
fn no_help_is_wrapped_twice() {
    let mut commands = vec![Cli::command()];
    let mut checked = 0;
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        let texts = [command.get_after_help(), command.get_long_about(), command.get_about()];
        for text in texts.into_iter().flatten().map(ToString::to_string) {
            let lines: Vec<&str> = text.lines().collect();
            for line in lines.iter().filter(|line| line.starts_with(' ')) {
                assert!(
                    line.chars().count() <= 80,
                    "{}: {line:?} is longer than a terminal",
                    command.get_name()
                );
            }
            for pair in lines.windows(2).filter(|pair| !pair[0].is_empty() && !pair[1].is_empty()) {
                let is_list = pair[1].starts_with(' ');
                assert!(is_list, "{}: {:?} is wrapped by hand", command.get_name(), pair[1]);
            }
            checked += 1;
        }
        let wide = command.clone().term_width(80).render_help().to_string();
        assert!(wide.lines().all(|line| line.chars().count() <= 80), "{wide}");
    }
    assert!(checked > 12, "{checked}");
}
