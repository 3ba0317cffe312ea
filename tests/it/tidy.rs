//! House rules that a reader would otherwise have to check: the layers' arrows, file lengths, words.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Who may use whom, top to bottom; a module may use itself and what stands in its list.
const LAYERS: &[(&str, &[&str])] = &[
    ("auth", &["job", "small_file"]),
    ("benching", &["http", "store", "job"]),
    ("clock", &["job"]),
    ("fuzzing", &["auth", "http", "store", "job"]),
    ("job", &[]),
    ("printable", &[]),
    ("shutdown", &[]),
    ("signals", &[]),
    ("small_file", &[]),
    ("metrics", &[]),
    ("failure_log", &[]),
    ("telemetry", &["config", "metrics"]),
    ("config", &["job", "printable"]),
    ("store/embedded", &["store", "job", "clock", "metrics", "config"]),
    ("store/redis", &["store", "job", "clock", "metrics", "failure_log", "config"]),
    ("store", &["job", "clock", "metrics"]),
    ("queue", &["store", "job", "clock", "metrics", "failure_log", "config"]),
    ("net", &["clock", "metrics", "small_file", "config"]),
    ("http", &["net", "queue", "auth", "job", "clock", "metrics", "config"]),
    (
        "server",
        &[
            "http",
            "net",
            "queue",
            "store",
            "auth",
            "job",
            "clock",
            "metrics",
            "shutdown",
            "signals",
            "telemetry",
            "config",
            "printable",
        ],
    ),
    ("cli", &["server", "auth", "job", "clock", "config", "printable"]),
];

/// Where the sources of the three packages are.
const SOURCES: [&str; 3] = ["src", "bench/src", "client/src"];

/// The rooms of an engine, and which others each may use. Files beside the rooms may use all of them.
const ROOMS: &[(&str, &str, &[&str])] = &[
    ("embedded", "rows", &[]),
    ("embedded", "disk", &["rows"]),
    ("embedded", "memory", &["rows"]),
    ("embedded", "ops", &["memory", "rows", "disk"]),
    ("embedded", "writer", &["ops", "memory", "rows", "disk"]),
    ("embedded", "recovery", &["ops", "memory", "rows", "disk"]),
    ("embedded", "verify", &["recovery", "memory", "rows", "disk"]),
];

/// The rooms of `http` from top to bottom. Each may use itself and the rooms below it, never one above.
const HTTP_ROOMS: [&str; 14] = [
    "fuzzing",
    "benching",
    "routes",
    "handlers",
    "wire",
    "middleware",
    "access",
    "browser",
    "app",
    "errors",
    "json",
    "route",
    "refusal_log",
    "options",
];

/// Longest file of ours, in lines.
const MAX_LINES: usize = 400;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("readable").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|found| found == ending) {
                let text = fs::read_to_string(&entry).expect("is text");
                found.push((name(&entry), text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} holds .{ending} files");
    found
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).expect("is ours").to_string_lossy().into_owned()
}

/// The layer that a source file belongs to; the longest match counts.
fn layer(file: &str) -> Option<(&'static str, &'static [&'static str])> {
    let inside = file.strip_prefix("src/")?.trim_end_matches(".rs");
    let of = |layer: &str| inside == layer || inside.starts_with(&format!("{layer}/"));
    LAYERS.iter().copied().filter(|(layer, _)| of(layer)).max_by_key(|(layer, _)| layer.len())
}

/// Top-level modules of the crate that a source file names by `crate::`, also within braces.
fn used(text: &str) -> Vec<(String, String)> {
    used_within(text, "crate::")
}

/// Modules within `parent`, such as `crate::`, that a source file names, also within braces.
fn used_within(text: &str, parent: &str) -> Vec<(String, String)> {
    let code: String = text
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut used = Vec::new();
    for part in code.split(parent).skip(1) {
        let inner = part.strip_prefix('{').map_or_else(|| vec![part.to_owned()], top_level_items);
        for item in inner {
            let mut words =
                item.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty());
            let first = words.next().unwrap_or_default().to_owned();
            used.push((first, item.chars().take(40).collect()));
        }
    }
    used
}

/// The comma-separated items of a brace group, whatever they nest.
fn top_level_items(text: &str) -> Vec<String> {
    let (mut items, mut item, mut depth) = (Vec::new(), String::new(), 0);
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(std::mem::take(&mut item));
                continue;
            }
            _ => {}
        }
        item.push(c);
    }
    items.push(item);
    items.into_iter().map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

#[test]
fn the_layers_run_strictly_downward() {
    let modules: Vec<&str> = LAYERS.iter().filter_map(|(layer, _)| layer.split('/').next()).collect();
    let mut wrong = Vec::new();
    for (file, text) in files("src", "rs") {
        let Some((own, may_use)) = layer(&file) else {
            assert!(matches!(file.as_str(), "src/lib.rs" | "src/main.rs"), "{file} belongs to no layer");
            continue;
        };
        let top = own.split('/').next().expect("not empty");
        for (module, item) in used(&text) {
            if modules.contains(&module.as_str()) && module != top && !may_use.contains(&module.as_str()) {
                wrong.push(format!("{file} uses {module}"));
            }
            for engine in ["embedded", "redis"] {
                let other = own.starts_with("store/") && own != format!("store/{engine}");
                if other && item.starts_with(&format!("store::{engine}")) {
                    wrong.push(format!("{file} uses the other engine"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_rooms_of_an_engine_run_one_way() {
    let mut wrong = Vec::new();
    for (engine, room, may_use) in ROOMS {
        let is_other =
            |name: &str| ROOMS.iter().any(|(of, other, _)| of == engine && *other == name && other != room);
        for (file, text) in files(&format!("src/store/{engine}/{room}"), "rs") {
            for (module, _) in used_within(&text, &format!("{engine}::")) {
                if is_other(&module) && !may_use.contains(&module.as_str()) {
                    wrong.push(format!("{file} uses {module}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The modules of `http` that a text names, by `crate::http::` or, in the folder `http` itself, by `super::`.
fn used_in_http(text: &str, is_in_folder: bool) -> Vec<String> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut used = Vec::new();
    let mut add_paths = |rest: &str| {
        let items = rest.strip_prefix('{').map_or_else(|| vec![rest.to_owned()], top_level_items);
        let word =
            |item: String| item.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
        used.extend(items.into_iter().filter_map(word));
    };
    for part in code.split("crate::").skip(1) {
        let items = part.strip_prefix('{').map_or_else(|| vec![part.to_owned()], top_level_items);
        items.iter().filter_map(|item| item.strip_prefix("http::")).for_each(&mut add_paths);
    }
    if is_in_folder {
        code.split("super::").skip(1).for_each(&mut add_paths);
    }
    used
}

#[test]
fn the_rooms_of_http_run_strictly_downward() {
    let rank = |room: &str| HTTP_ROOMS.iter().position(|known| *known == room);
    let mut wrong = Vec::new();
    for (file, text) in files("src/http", "rs") {
        let path = file.strip_prefix("src/http/").expect("a file of http").trim_end_matches(".rs");
        let room = path.split('/').next().expect("split gives one");
        let Some(own) = rank(room) else {
            assert_eq!(room, "mod", "{file} belongs to no room of http");
            continue;
        };
        let production = text.split("#[cfg(test)]").next().expect("split gives one");
        for used in used_in_http(production, !path.contains('/')) {
            if rank(&used).is_some_and(|used| used < own) {
                wrong.push(format!("{file} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_source_file_says_what_it_owns_and_is_short_enough() {
    let mut wrong = Vec::new();
    for (file, text) in SOURCES.iter().chain(&["tests"]).flat_map(|folder| files(folder, "rs")) {
        if !text.starts_with("//!") {
            wrong.push(format!("{file} does not open with what it owns"));
        }
        let lines = text.lines().count();
        if lines > MAX_LINES {
            wrong.push(format!("{file} has {lines} lines"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn nothing_is_silenced_or_left_for_later() {
    let banned = [".unwrap()", "todo!(", "unimplemented!(", "#[ignore", "#[allow(", "#![allow(", "println!("];
    let mut wrong = Vec::new();
    for (file, text) in SOURCES.iter().flat_map(|folder| files(folder, "rs")) {
        for (number, line) in text.lines().enumerate() {
            for word in banned {
                // Programs that only scripts run answer on stdout.
                let is_answer = word == "println!(" && file.starts_with("bench/src/bin");
                if line.contains(word) && !line.trim_start().starts_with("//") && !is_answer {
                    wrong.push(format!("{file}:{}: {word}", number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Everybody would take it for passed.
#[test]
fn no_test_skips_itself_in_silence() {
    let own_words = ["tests/it/harness/not_here.rs", "tests/it/tidy.rs"];
    let mut wrong = Vec::new();
    for (file, text) in
        files("tests", "rs").into_iter().filter(|(file, _)| !own_words.contains(&file.as_str()))
    {
        for word in ["return println!", "not run here", "#[ignore"] {
            if text.contains(word) {
                wrong.push(format!("{file}: {word}; use harness::not_here"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `scripts/mutants` would say so too, but is seldom run.
#[test]
fn every_mutant_has_its_place_in_the_code() {
    let list: toml::Table =
        std::fs::read_to_string("tests/mutants.toml").expect("is there").parse().expect("is TOML");
    let mutants = list["mutant"].as_array().expect("a list");
    assert!(!mutants.is_empty());
    for mutant in mutants {
        let text = |key: &str| mutant[key].as_str().expect("a text");
        let code = std::fs::read_to_string(text("file")).expect("the file is there");
        assert_eq!(code.matches(text("old")).count(), 1, "{}", text("name"));
        assert_ne!(text("old"), text("new"), "{}", text("name"));
    }
}

#[test]
fn the_readers_of_use_lines_see_through_braces() {
    let text = "use crate::{\n    job::{Job, Topic},\n    store::{embedded, Error},\n};\n// crate::http\nlet x = crate::queue::Queue;";
    let modules: Vec<_> = used(text).into_iter().map(|(module, _)| module).collect();
    assert_eq!(modules, ["job", "store", "queue"]);
}
