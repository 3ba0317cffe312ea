//! House rules for the rooms inside a part: arrows run one way, and no two files import each other in a circle.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Which rooms each room may use, apart from itself. A room may only use rooms that stand above it.
const ROOMS: &[(&str, &[&str])] = &[
    ("store/redis/options", &[]),
    ("store/redis/time", &[]),
    ("store/redis/keys", &[]),
    ("store/redis/reply", &[]),
    ("store/redis/scripts", &[]),
    ("store/redis/layout", &["options"]),
    ("store/redis/context", &["layout", "options"]),
    ("store/redis/codec", &["reply"]),
    ("store/redis/fuzzing", &["codec"]),
    ("store/redis/connection", &["context", "keys", "layout", "options", "scripts", "time"]),
    (
        "store/redis/coordination",
        &["codec", "connection", "context", "keys", "layout", "options", "reply", "scripts", "time"],
    ),
    (
        "store/redis/ops",
        &["codec", "connection", "context", "coordination", "keys", "reply", "scripts", "time"],
    ),
    ("store/redis/engine", &["coordination", "ops"]),
    ("store/redis/open", &["connection", "context", "coordination", "engine", "keys", "options", "time"]),
];

/// The source files, by module path, without `mod.rs`: such a file only lists and re-exports its modules.
fn modules() -> BTreeMap<String, String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("readable").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|found| found == "rs") {
                let text = fs::read_to_string(&entry).expect("is text");
                found.insert(module_path(entry.strip_prefix(&root).expect("is below")), text);
            }
        }
    }
    found
}

fn module_path(file: &Path) -> String {
    let path = file.with_extension("").to_string_lossy().into_owned();
    path.strip_suffix("/mod").unwrap_or(&path).to_owned()
}

/// The paths that a file imports, as module paths from the root. Its own tests are left out.
fn imports(module: &str, text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join(" ");
    let uses = code.split("use ").skip(1).filter_map(|rest| rest.split_once(';')).map(|(tree, _)| tree);
    let parent = module.rsplit_once('/').map_or("", |(parent, _)| parent);
    let absolute = |path: String| {
        let path = path.replace("::", "/");
        let inside = path.strip_prefix("crate/").map(str::to_owned);
        inside.or_else(|| path.strip_prefix("super/").map(|rest| format!("{parent}/{rest}")))
    };
    uses.flat_map(|tree| expand(tree.trim())).filter_map(absolute).collect()
}

/// `a::{b, c::{d}}` as `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let Some((head, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let body = rest.rsplit_once('}').map_or(rest, |(body, _)| body);
    let (mut items, mut item, mut depth) = (Vec::new(), String::new(), 0);
    for c in body.chars() {
        match c {
            '{' => depth += 1,
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
    let items = items.iter().map(|item| item.trim()).filter(|item| !item.is_empty());
    items.flat_map(expand).map(|item| format!("{}{item}", head.trim())).collect()
}

/// The longest of `names` that is `path` or a parent of it.
fn longest<'a>(path: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let contains = |name: &&str| path == *name || path.starts_with(&format!("{name}/"));
    names.filter(contains).max_by_key(|name| name.len())
}

#[test]
fn arrows_between_rooms_run_one_way() {
    let mut wrong = Vec::new();
    for (at, (room, may_use)) in ROOMS.iter().enumerate() {
        let part = room.rsplit_once('/').expect("a room of a part").0;
        for used in *may_use {
            let above = ROOMS[..at].iter().any(|(other, _)| *other == format!("{part}/{used}"));
            assert!(above, "{room} may only use rooms above it, not {used}");
        }
    }
    for (module, text) in modules() {
        let rooms = || ROOMS.iter().map(|(room, _)| *room);
        let Some(own) = longest(&module, rooms()) else { continue };
        let (_, may_use) = ROOMS.iter().find(|(room, _)| *room == own).expect("is listed");
        let part = own.rsplit_once('/').expect("a room of a part").0;
        for import in imports(&module, &text) {
            let Some(used) = longest(&import, rooms()) else { continue };
            let name = used.strip_prefix(part).map(|name| name.trim_start_matches('/'));
            if used != own && !name.is_some_and(|name| may_use.contains(&name)) {
                wrong.push(format!("{module} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_file_of_a_part_with_rooms_is_in_a_room() {
    let parts: BTreeSet<&str> =
        ROOMS.iter().filter_map(|(room, _)| room.rsplit_once('/')).map(|(part, _)| part).collect();
    for module in modules().keys() {
        if let Some(part) = longest(module, parts.iter().copied()).filter(|part| part != module) {
            assert!(
                longest(module, ROOMS.iter().map(|(room, _)| *room)).is_some(),
                "{module} of {part} is in no room"
            );
        }
    }
}

#[test]
fn files_import_each_other_without_circles() {
    let modules = modules();
    let names = || modules.keys().map(String::as_str);
    let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (module, text) in &modules {
        let used = imports(module, text).into_iter().filter_map(|import| longest(&import, names()));
        arrows.insert(module, used.filter(|used| used != module).collect());
    }
    // Remove files that use none of the others, until none is left or only circles are.
    loop {
        let left: BTreeSet<&str> = arrows.keys().copied().collect();
        let before = arrows.len();
        arrows.retain(|_, used| used.iter().any(|used| left.contains(used)));
        if arrows.len() == before {
            break;
        }
    }
    assert!(arrows.is_empty(), "these files are in a circle, or use one: {:#?}", arrows.keys());
}

#[test]
fn imports_are_read_through_braces() {
    let text = "use super::{a::B, c};\nuse crate::{\n    job::{Job, Topic as T},\n    store::Error,\n};\nuse std::fmt;";
    let found = imports("store/redis/ops/add", text);
    assert_eq!(found, ["store/redis/ops/a/B", "store/redis/ops/c", "job/Job", "job/Topic", "store/Error"]);
}
