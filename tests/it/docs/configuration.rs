//! `docs/configuration.md`: the part between the marks is made of `config/default.toml`, and of the functions that read
//! its keys, which know their types. The test writes that part anew if the variable `LINGER_WRITE_CONFIGURATION` is set.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use crate::harness::pages::{read, root};

const PAGE: &str = "docs/configuration.md";
const START: &str = "<!-- tests/it/docs/configuration.rs writes from here -->\n";
const END: &str = "<!-- to here -->\n";

/// What each function of `config::Reader` reads.
const TYPES: [(&str, &str); 11] = [
    ("address", "IP address and port"),
    ("optional_address", "IP address and port"),
    ("path", "path"),
    ("host_names", "list of host names"),
    ("text", "string"),
    ("flag", "`true` or `false`"),
    ("optional_file", "path of a file"),
    ("duration", "duration"),
    ("count", "whole number"),
    ("size", "size"),
    ("choice", "one of these words"),
];

/// The keys that are read by a function of their own.
const SPECIAL_TYPES: [(&str, &str); 13] = [
    ("redis.url", "URL"),
    ("redis.nodes", "list of `host:port`, or of URLs"),
    ("redis.server_name", "name or address"),
    ("redis.prefix", "string"),
    ("redis.shards", "whole number, or `\"auto\"`"),
    ("queue.dead_retention", "duration, or `\"forever\"`"),
    ("callbacks.retry", "list of durations"),
    ("callbacks.allow_networks", "list of words and networks, or `\"auto\"`"),
    ("callbacks.deny_networks", "list of words and networks"),
    ("traces.endpoint", "URL"),
    ("ui.title", "string"),
    ("compat.ouqiang.topics", "list of names and prefixes of topics"),
    ("log.level", "level, or list of levels"),
];

/// The type of each key.
fn types() -> BTreeMap<String, &'static str> {
    let mut types: BTreeMap<String, &str> = BTreeMap::new();
    for entry in fs::read_dir(root().join("src/config")).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let code: String = read(&path).split_whitespace().collect();
        for call in code.split("reader.").skip(1) {
            let Some((function, arguments)) = call.split_once("(\"") else { continue };
            let keys = arguments.split(')').next().expect("a split has a first part").split('"');
            let keys: Vec<&str> = keys.step_by(2).filter(|key| key.contains('.')).collect();
            if function == "secret" {
                types.insert(keys[0].to_owned(), "string");
                types.insert(keys[1].to_owned(), "path of a file");
            } else if let Some((_, name)) = TYPES.iter().find(|(known, _)| *known == function) {
                types.insert(keys[0].to_owned(), name);
            }
        }
    }
    types.extend(SPECIAL_TYPES.map(|(key, name)| (key.to_owned(), name)));
    types
}

/// Text as Markdown shows it unchanged.
fn markdown(text: &str) -> String {
    text.replace('*', "\\*").replace('<', "\\<")
}

/// The generated part of the page.
fn settings() -> String {
    let (mut types, mut page, mut sections) = (types(), String::new(), Vec::new());
    let (mut section, mut comment) = (String::new(), Vec::new());
    let defaults = read("config/default.toml");
    // The first paragraphs are about the file itself.
    let (_, defaults) = defaults.split_once("\n\n[").expect("the file begins with comments");
    for line in format!("[{defaults}").lines() {
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text.trim());
        } else if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
            let anchor = section.replace('.', "");
            sections.push(format!("[`{section}`](#section-{anchor})"));
            let about = std::mem::take(&mut comment);
            write!(page, "## Section `{section}`\n\n").expect("a string grows");
            if !about.is_empty() {
                write!(page, "{}\n\n", markdown(&about.join("\n"))).expect("a string grows");
            }
        } else if let Some((key, default)) = line.split_once(" = ") {
            let key = format!("{section}.{key}");
            let about = markdown(&std::mem::take(&mut comment).join("\n"));
            assert!(!about.is_empty(), "{key} has no comment");
            let name = types.remove(&key).unwrap_or_else(|| panic!("{key} has no type in this test"));
            write!(page, "### `{key}`\n\n{about}\n\nType: {name}. Default: `{default}`.\n\n")
                .expect("a string grows");
        } else {
            assert!(line.is_empty(), "{line}");
        }
    }
    assert!(types.is_empty(), "these are no settings: {types:?}");
    format!("\n{}\n\n{page}", sections.join(" · "))
}

#[test]
fn the_page_has_every_setting_as_the_defaults_describe_it() {
    let page = read(PAGE);
    let (before, rest) = page.split_once(START).expect("the page has the first mark");
    let (found, after) = rest.split_once(END).expect("the page has the second mark");
    let expected = settings();
    if std::env::var_os("LINGER_WRITE_CONFIGURATION").is_some() {
        fs::write(root().join(PAGE), format!("{before}{START}{expected}{END}{after}"))
            .expect("can be written");
        return;
    }
    let differs = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "{PAGE} is not what config/default.toml says; run this test with LINGER_WRITE_CONFIGURATION=1: {differs:?}"
    );
}
