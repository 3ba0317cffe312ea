//! What the compose files mount, and how they start Redis.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use serde_json::Value;

use super::{instructions, root, text, yaml};
use crate::harness::process::stderr;

const PLAIN: &str = "docker-compose.yml";
const SECRETS: &str = "docker-compose.secrets.yml";

fn service(file: &str, name: &str) -> Value {
    yaml(file)["services"][name].clone()
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts.map(|text| text.as_str().expect("is text").to_owned()).collect()
}

/// The paths in the container at which a service mounts something.
fn mounted(service: &Value) -> Vec<String> {
    let volumes = texts(&service["volumes"]);
    volumes.iter().map(|volume| volume.split(':').nth(1).expect("SOURCE:TARGET").to_owned()).collect()
}

/// A container that has mounted a file goes on reading the old one after an editor has replaced it.
#[test]
fn the_directory_of_the_tokens_is_mounted_and_not_their_file() {
    for name in ["linger", "embedded"] {
        let service = service(SECRETS, name);
        let file = service["environment"]["LINGER__AUTH__TOKENS_FILE"].as_str().expect("is set").to_owned();
        let (directory, _) = file.rsplit_once('/').expect("is a path");
        assert_eq!(mounted(&service), [directory], "{name}");
        assert!(!file.starts_with("/run/secrets/"), "{name}: a secret is a mounted file");
    }
}

/// The arguments with which a service of this file starts `redis-server`.
fn redis_arguments(file: &str) -> Vec<String> {
    let command = texts(&service(file, "redis")["command"]);
    if command[0] == "redis-server" {
        return command[1..].to_vec();
    }
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("redis-server");
    fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").expect("can be written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("can be changed");
    let path = std::env::var("PATH").expect("there is a path");
    let path = format!("{}:{path}", directory.path().display());
    // Compose makes one dollar sign of two. The password is not there.
    let words: Vec<String> = command.iter().map(|word| word.replace("$$", "$")).collect();
    let output = Command::new(&words[0]).args(&words[1..]).env("PATH", path).output().expect("runs");
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).expect("is text").lines().map(str::to_owned).collect()
}

/// After a snapshot that failed, Redis refuses all writes, although the append-only file has everything.
#[test]
fn redis_makes_no_snapshots() {
    for file in [PLAIN, SECRETS] {
        let arguments = redis_arguments(file);
        let value_of = |name: &str| {
            let at = arguments.iter().position(|argument| argument == name);
            at.and_then(|at| arguments.get(at + 1)).map(String::as_str)
        };
        assert_eq!(value_of("--save"), Some(""), "{file}: {arguments:?}");
        assert_eq!(value_of("--appendfsync"), Some("always"), "{file}: {arguments:?}");
    }
}

/// Each new container would leave an empty volume behind.
#[test]
fn no_container_makes_a_volume_without_a_name() {
    let volumes: Vec<String> = instructions(&text("Dockerfile"))
        .into_iter()
        .filter(|(name, _)| name == "VOLUME")
        .flat_map(|(_, paths)| paths.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(volumes, ["/data"]);
    for name in ["linger", "embedded"] {
        let service = service(PLAIN, name);
        let places = [mounted(&service), texts(&service["tmpfs"])].concat();
        assert!(volumes.iter().all(|volume| places.contains(volume)), "{name}: {places:?}");
    }
    assert!(mounted(&service(PLAIN, "redis")).contains(&"/data".to_owned()), "its image has that volume");
}

#[test]
fn git_ignores_the_secrets_that_the_compose_file_has_its_user_write() {
    let text = text(SECRETS);
    let comments = text.lines().filter(|line| line.starts_with('#'));
    let mut written: Vec<&str> =
        comments.filter_map(|line| line.split_once(" > ")?.1.split_whitespace().next()).collect();
    assert_eq!(written, ["tokens/tokens.toml", "redis-password"]);
    // Without a directory, as before.
    written.push("tokens.toml");
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "check-ignore", "--no-index"]).args(&written).current_dir(root());
    let output = git.output().expect("git runs");
    let ignored = String::from_utf8(output.stdout).expect("names are text");
    assert_eq!(ignored.lines().collect::<Vec<_>>(), written);
}
