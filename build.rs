//! Converts `openapi.yaml` to JSON, which the server also serves, so that it needs no reader of YAML.
//!
//! Tells the crate its version with the commit that it is built from, as the variable `LINGER_VERSION`. The commit is
//! `LINGER_COMMIT` where that is set, as in an image, whose build has no repository. Otherwise it is the repository's,
//! in release builds only: a debug build would compile again after every commit.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LINGER_COMMIT");
    let given = env::var("LINGER_COMMIT").ok().filter(|commit| !commit.trim().is_empty());
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| is_release.then(from_repository).flatten()).unwrap_or_default();
    let is_printable = commit.chars().all(|c| c.is_ascii_graphic());
    assert!(is_printable, "LINGER_COMMIT must be a commit, such as 0123456789ab");
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let version = if commit.is_empty() { version } else { format!("{version} ({commit})") };
    println!("cargo::rustc-env=LINGER_VERSION={version}");
    convert_contract();
}

/// The test of the version compiles this file alone, without libraries.
#[cfg(without_contract)]
fn convert_contract() {}

#[cfg(not(without_contract))]
fn convert_contract() {
    println!("cargo::rerun-if-changed=openapi.yaml");
    let text = std::fs::read_to_string("openapi.yaml").expect("openapi.yaml is readable");
    let contract: serde_json::Value = serde_saphyr::from_str(&text).expect("openapi.yaml is YAML");
    let directory = env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&directory).join("openapi.json"), format!("{contract}\n"))
        .expect("OUT_DIR is writable");
}

/// The commit of this directory's own repository; none without git, or where the source lies in another
/// project's repository.
fn from_repository() -> Option<String> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let own = env::var("CARGO_MANIFEST_DIR").ok()?;
    if Path::new(&top).canonicalize().ok()? != Path::new(&own).canonicalize().ok()? {
        return None;
    }
    // The first two change with every commit and checkout, the others may make the commit a modified one. A path
    // that does not exist would run this at every build.
    let in_git = ["HEAD", "logs/HEAD"].map(|name| git(&["rev-parse", "--git-path", name]));
    let sources = ["Cargo.toml", "Cargo.lock", "src", "config", "openapi.yaml"].map(str::to_owned);
    for path in in_git.into_iter().flatten().chain(sources).filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let is_changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|list| !list.is_empty());
    Some(if is_changed { format!("{commit}-modified") } else { commit })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
