//! The container files without a container: the steps of the Dockerfile on the files of its context, and whether the settings
//! in it and in the compose files are valid.
//!
//! The hosted workflow builds and starts the real image. Here the build steps run in a directory that contains only the files
//! that `.dockerignore` lets through, with a `cargo` in their path that installs nothing, parses the whole manifest and
//! compiles one small dependency.

mod compose;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
    process::Command,
};

use linger::auth::{Scope, token_entry};
use serde_json::Value;

use crate::harness::process::{linger, stderr};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn yaml(file: &str) -> Value {
    serde_saphyr::from_str(&text(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The files of a fresh clone that `.dockerignore` lets through.
fn context() -> Vec<PathBuf> {
    // In a container the clone may belong to another user, and git would refuse it.
    let listed = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(listed.status.success(), "{}", stderr(&listed));
    let rules = text(".dockerignore");
    let listed = String::from_utf8(listed.stdout).expect("names are text");
    let tracked = listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    tracked.filter(|path| !is_ignored(path, &rules)).collect()
}

/// Whether Docker ignores `path`. The last rule that matches the path or a directory above it decides.
fn is_ignored(path: &Path, rules: &str) -> bool {
    let rules = rules.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    rules.fold(false, |ignored, rule| {
        let (pattern, ignores) = rule.strip_prefix('!').map_or((rule, true), |pattern| (pattern, false));
        let is_known = pattern == "*" || !pattern.contains(['*', '?', '[', '\\']);
        assert!(is_known, "this test does not know the pattern {pattern}");
        if pattern == "*" || path.starts_with(pattern) { ignores } else { ignored }
    })
}

/// The instructions of a Dockerfile, without comments and line breaks, as (name, rest).
fn instructions(file: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = file.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let lines = joined.lines().filter_map(|line| line.trim().split_once(' '));
    lines.map(|(name, rest)| (name.to_owned(), rest.trim().to_owned())).collect()
}

/// Executes `COPY source... target` in `workdir`.
fn copy(words: &str, context: &[PathBuf], workdir: &Path) {
    let words: Vec<&str> = words.split_whitespace().collect();
    let (to, sources) = words.split_last().expect("COPY names a target");
    if let ([file], Some((directory, name))) = (sources, sources[0].rsplit_once('/')) {
        assert_eq!(
            *to,
            format!("{directory}/"),
            "this test copies a file to its own directory only, not {name}"
        );
        assert!(context.iter().any(|path| path == Path::new(file)), "COPY {file}: it is not in the context");
        fs::create_dir_all(workdir.join(directory)).expect("can be made");
        fs::copy(root().join(file), workdir.join(file)).expect("copies");
        return;
    }
    assert_eq!(
        *to,
        "./".get(..to.len()).expect("a directory"),
        "this test copies other things to the working directory only"
    );
    for source in sources {
        let chosen: Vec<_> =
            context.iter().filter(|path| *source == "." || path.starts_with(source)).collect();
        assert!(!chosen.is_empty(), "COPY {source}: nothing of it is in the context");
        for path in chosen {
            let to = workdir.join(path);
            fs::create_dir_all(to.parent().expect("is in a directory")).expect("can be made");
            fs::copy(root().join(path), to).expect("copies");
        }
    }
}

/// Writes replacements for programs that take minutes: `cargo auditable build` parses everything and compiles one
/// dependency.
fn write_replacement_programs(directory: &Path) {
    let cargo = format!(
        "case \"$1\" in\n\
         install) touch \"$0-${{@: -1}}\" && exit ;;\n\
         auditable) [ -e \"$0-cargo-auditable\" ] && [ \"$2\" = build ] || exit 64 ;;\n\
         *) exit 64 ;;\n\
         esac\n\
         '{}' build --offline --package cfg-if \"${{@:3}}\"\n\
         mkdir -p target/dist && touch target/dist/linger",
        env!("CARGO")
    );
    // The list of libraries has to stay in the program.
    let strip = "[ \"$1\" = --keep-section=.dep-v0 ] && test -f \"$2\"";
    for (name, body) in [("cargo", cargo.as_str()), ("strip", strip)] {
        let path = directory.join(name);
        fs::write(&path, format!("#!/usr/bin/env bash\nset -eu\n{body}\n")).expect("can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("can be changed");
    }
}

#[test]
fn the_image_is_built_from_the_files_of_its_context() {
    let (context, home) = (context(), tempfile::tempdir().expect("a directory"));
    let (workdir, programs) = (home.path().join("src"), home.path().join("bin"));
    fs::create_dir(&workdir).expect("can be made");
    fs::create_dir(&programs).expect("can be made");
    write_replacement_programs(&programs);
    let path = std::env::var("PATH").expect("there is a path");
    let (mut stage, mut builds) = (0, 0);
    for (name, rest) in instructions(&text("Dockerfile")) {
        match (name.as_str(), stage) {
            ("FROM", _) => stage += 1,
            ("RUN", 1) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &rest]).current_dir(&workdir).env_remove("CARGO_TARGET_DIR");
                shell.env("PATH", format!("{}:{path}", programs.display()));
                let output = shell.output().expect("there is a shell");
                assert!(output.status.success(), "RUN {rest}\n{}", stderr(&output));
                builds += rest.matches("cargo auditable build").count();
            }
            ("COPY", 1) => copy(&rest, &context, &workdir),
            // The authorities that callbacks trust come from the image that builds, not from its work.
            ("COPY", _) if rest.contains(" /etc/ssl/certs/ca-certificates.crt ") => {}
            ("COPY", _) => {
                let made = rest.split_whitespace().find_map(|word| word.strip_prefix("/src/"));
                let made = made.expect("the last stage copies from the first one's directory");
                assert!(workdir.join(made).exists(), "COPY {rest}: {made} is not there");
            }
            _ => {}
        }
    }
    assert_eq!((stage, builds), (2, 2), "the image builds the dependencies and then the program");
}

/// Checks `include_str!` and the like, because cargo does not notice a missing file before it compiles.
#[test]
fn every_file_that_the_source_includes_is_in_the_context() {
    let context = context();
    let build_script = Path::new("build.rs");
    assert!(context.iter().any(|path| path == build_script), "the source needs what build.rs sets");
    let mut included = 0;
    for file in context.iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs")) {
        for part in text(file.to_str().expect("is text")).split("include_").skip(1) {
            let Some((_, rest)) = part.split_once("!(\"").filter(|(kind, _)| ["str", "bytes"].contains(kind))
            else {
                continue;
            };
            let (name, _) = rest.split_once('"').expect("the name ends");
            let path = normal(&file.parent().expect("is in a directory").join(name));
            let for_tests = path.starts_with("tests") || path.starts_with("fuzz");
            assert!(for_tests || context.contains(&path), "{} includes {}", file.display(), path.display());
            included += 1;
        }
    }
    assert!(included > 5, "the source includes {included} files");
}

fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, component| {
        match component {
            Component::ParentDir => drop(path.pop()),
            other => path.push(other),
        }
        path
    })
}

/// `NAME=VALUE` of the image's ENV.
fn image_environment() -> BTreeMap<String, String> {
    let instructions = instructions(&text("Dockerfile"));
    let pairs = instructions.iter().filter(|(name, _)| name == "ENV");
    let pairs = pairs.flat_map(|(_, rest)| rest.split_whitespace()).map(|pair| pair.split_once('='));
    pairs
        .map(|pair| pair.expect("NAME=VALUE"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The environment of a service in these compose files. Later files override earlier ones.
fn service_environment(service: &str, files: &[&str]) -> BTreeMap<String, String> {
    let mut environment = image_environment();
    for file in files {
        let settings = yaml(file)["services"][service]["environment"].clone();
        for (name, value) in settings.as_object().expect("the service has settings") {
            environment.insert(name.clone(), value.as_str().expect("every value is quoted").to_owned());
        }
    }
    environment
}

#[test]
fn the_settings_in_the_container_files_are_valid() {
    let directory = tempfile::tempdir().expect("a directory");
    let tokens = token_entry("ops", "token", &[Scope::Admin], &[]);
    fs::write(directory.path().join("tokens.toml"), tokens).expect("can be written");
    fs::write(directory.path().join("redis_password"), "secret\n").expect("can be written");
    let (plain, secret) = ("docker-compose.yml", "docker-compose.secrets.yml");
    for (service, files) in [
        ("linger", &[plain][..]),
        ("linger", &[plain, secret]),
        ("embedded", &[plain]),
        ("embedded", &[plain, secret]),
    ] {
        let environment = service_environment(service, files);
        let here = |value: &str| {
            let directory = directory.path().to_str().expect("is text");
            value.replace("/run/secrets", directory).replace("/etc/linger/tokens", directory)
        };
        let mut check = linger(&["config", "check"], directory.path());
        check.envs(environment.iter().map(|(name, value)| (name, here(value))));
        let checked = check.output().expect("linger runs");
        assert!(checked.status.success(), "{service} of {files:?}: {}", stderr(&checked));
        assert_eq!(stderr(&checked), "", "{service} of {files:?}");
    }
}

#[test]
fn no_two_services_publish_the_same_port() {
    let services = yaml("docker-compose.yml")["services"].clone();
    let mut ports: Vec<String> = Vec::new();
    for (name, service) in services.as_object().expect("services") {
        assert_eq!(service["cap_drop"][0], "ALL", "{name}");
        for port in service["ports"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let (host, _) = port.rsplit_once(':').expect("HOST:CONTAINER");
            assert!(host.starts_with("127.0.0.1:") && !ports.contains(&host.to_owned()), "{name}: {port}");
            ports.push(host.to_owned());
        }
    }
    assert_eq!(ports.len(), 2);
}

#[test]
fn the_image_and_the_program_have_the_same_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(text("Dockerfile").contains(&format!("image.version=\"{version}\"")));
    for service in ["linger", "embedded"] {
        assert_eq!(yaml("docker-compose.yml")["services"][service]["image"], format!("linger:{version}"));
    }
}

#[test]
fn the_image_and_the_release_name_their_libraries_by_the_same_version() {
    let script = text("scripts/release");
    let (_, version) = script.split_once("cargo_auditable=").expect("the script has a version");
    let version = version.split_whitespace().next().expect("a split has a first part");
    assert!(text("Dockerfile").contains(&format!(" --version {version} cargo-auditable\n")), "{version}");
}

/// The version that the build script prints when it runs in `directory` with only these variables.
fn version_by_build_script(program: &Path, directory: &Path, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(program);
    command.current_dir(directory).env_clear().envs(variables.iter().copied());
    command.env("CARGO_PKG_VERSION", "1.2.3").env("CARGO_MANIFEST_DIR", directory);
    let output = command.output().expect("the build script runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = String::from_utf8(output.stdout).expect("is text");
    let version = printed.lines().find_map(|line| line.strip_prefix("cargo::rustc-env=LINGER_VERSION="));
    version.expect("sets the version").to_owned()
}

#[test]
fn the_version_contains_the_commit_if_it_is_known() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("build-script");
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    let mut compile = Command::new(rustc);
    compile
        .args(["--edition", "2024", "--cfg", "without_contract", "-o"])
        .arg(&program)
        .arg(root().join("build.rs"));
    let compiled = compile.output().expect("rustc runs");
    assert!(compiled.status.success(), "{}", stderr(&compiled));
    let version = |place, variables: &[(&str, &str)]| version_by_build_script(&program, place, variables);
    let path = std::env::var("PATH").expect("there is a path");
    let [release, debug, git] = [("PROFILE", "release"), ("PROFILE", "debug"), ("PATH", path.as_str())];
    let elsewhere = directory.path();
    assert_eq!(version(elsewhere, &[release, git]), "1.2.3", "there is no repository");
    assert_eq!(version(elsewhere, &[release, ("PATH", "/nonexistent")]), "1.2.3", "there is no git");
    assert_eq!(version(elsewhere, &[release, ("LINGER_COMMIT", "0123456789ab")]), "1.2.3 (0123456789ab)");
    assert_eq!(version(elsewhere, &[debug, ("LINGER_COMMIT", " ")]), "1.2.3");
    assert_eq!(version(root(), &[debug, git]), "1.2.3", "a commit would compile everything again");
    let trust =
        [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*")];
    let ours = version(root(), &[&[release, git][..], &trust].concat());
    let commit = ours.strip_prefix("1.2.3 (").and_then(|rest| rest.strip_suffix(')')).expect(&ours);
    let hash = commit.strip_suffix("-modified").unwrap_or(commit);
    assert!(hash.len() == 12 && hash.chars().all(|c| c.is_ascii_hexdigit()), "{ours}");
}

/// The tag of an image or an action may be moved to other code.
#[test]
fn images_and_actions_are_pinned() {
    let dockerfile = instructions(&text("Dockerfile"));
    let bases = dockerfile.iter().filter(|(name, rest)| name == "ARG" && rest.contains("_IMAGE="));
    let redis = yaml("docker-compose.yml")["services"]["redis"]["image"].clone();
    let mut images: Vec<String> = bases.map(|(_, rest)| rest.clone()).collect();
    images.push(redis.as_str().expect("an image").to_owned());
    assert_eq!(images.len(), 3);
    for image in images {
        let (_, tag) = image.rsplit_once(':').expect("an image has a tag");
        let number = tag.split('-').find(|part| part.starts_with(|c: char| c.is_ascii_digit()));
        let number = number.unwrap_or_else(|| panic!("{image} has no version"));
        assert!(number.len() == 8 || number.split('.').count() == 3, "{image} is not exact");
    }
    let workflows = ["ci.yml", "nightly.yml", "release.yml"];
    let workflows = workflows.map(|name| text(&format!(".github/workflows/{name}"))).concat();
    let used: Vec<&str> =
        workflows.lines().filter_map(|line| line.split_once("uses: ")).map(|(_, used)| used).collect();
    assert!(!used.is_empty());
    for used in used {
        let (_, commit) = used.split_once('@').expect("an action has a version");
        let (commit, version) = commit.split_once(" # ").unwrap_or((commit, ""));
        let is_commit = commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit());
        assert!(is_commit && version.starts_with('v'), "{used}: a commit, and its version as a comment");
    }
}

/// The tests mount file systems and create networks. If they cannot, they fail under continuous integration.
#[test]
fn the_hosted_tests_run_in_a_privileged_container() {
    let container = yaml(".github/workflows/ci.yml")["jobs"]["test"]["container"].clone();
    assert_eq!(container["options"], "--privileged", "{container}");
}
