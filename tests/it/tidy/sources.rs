//! The text files of the repository, and what a Rust file imports.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Where the sources of the three packages are.
pub const SOURCES: [&str; 3] = ["src", "bench/src", "clients/rust/src"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The files below `folder` with this ending: their names from the root of the repository, and their texts.
pub fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("readable").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|found| found == ending) {
                let text = fs::read_to_string(&entry).expect("is text");
                let name = entry.strip_prefix(root()).expect("is below the root");
                found.push((name.to_string_lossy().into_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has .{ending} files");
    found
}

/// A file of the repository.
pub fn file(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The files of a package by module path, such as `queue/pop`, and what each imports. The tests of a module are left out
/// also if they have a file of their own.
pub fn imports_by_module(sources: &str) -> BTreeMap<String, Vec<String>> {
    let module_path = |file: &str| {
        let path = Path::new(file).strip_prefix(sources).expect("a file of the package").with_extension("");
        let path = path.to_string_lossy().into_owned();
        path.strip_suffix("/mod").unwrap_or(&path).to_owned()
    };
    let modules = files(sources, "rs").into_iter().map(|(file, text)| (module_path(&file), text));
    let without_tests = modules.filter(|(module, _)| !module.ends_with("/tests"));
    without_tests.map(|(module, text)| (module.clone(), imports(&module, &text))).collect()
}

/// The paths of this crate that a file names by `crate::` or `super::`, as module paths from the root. Its own tests are
/// left out.
pub fn imports(module: &str, text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join(" ");
    let anywhere = code.split("crate::").skip(1).flat_map(path_tree).map(|path| path.replace("::", "/"));
    // A path may begin with several of them.
    let begins = code.match_indices("super::").filter(|(at, _)| !code[..*at].ends_with("super::"));
    let relative = begins.flat_map(|(at, _)| path_tree(&code[at..])).map(|path| {
        let (mut above, mut path) = (module, path.replace("::", "/"));
        while let Some(rest) = path.strip_prefix("super/") {
            above = above.rsplit_once('/').map_or("", |(above, _)| above);
            path = rest.to_owned();
        }
        format!("{above}/{path}").trim_start_matches('/').to_owned()
    });
    anywhere.chain(relative).collect()
}

/// The paths at the beginning of a text: `a::{b, c::{d as e}} ...` gives `a::b` and `a::c::d`.
fn path_tree(text: &str) -> Vec<String> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '*';
    let end = text.find(|c| !is_path(c)).unwrap_or(text.len());
    let (head, rest) = text.split_at(end);
    if !head.is_empty() && !head.ends_with("::") || !rest.starts_with('{') {
        return vec![head.trim_end_matches(':').to_owned()];
    }
    let items = items_in_braces(&rest[1..]);
    items.iter().flat_map(|item| path_tree(item)).map(|item| format!("{head}{item}")).collect()
}

/// The comma-separated items of a brace group, whatever they nest.
fn items_in_braces(text: &str) -> Vec<String> {
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
fn imports_are_read_through_braces() {
    let text = "use super::{a::B, c};\nuse crate::{\n    job::{Job, Topic as T},\n    store::{Error, embedded::{self, rows}},\n};\nuse std::fmt;\n\
                use super::super::reply::Reply;\n// crate::http\nlet x = crate::queue::Queue::new(crate::VERSION) + super::keys::one();";
    let found = imports("store/redis/ops/add", text);
    let expected = [
        "job/Job",
        "job/Topic",
        "store/Error",
        "store/embedded/self",
        "store/embedded/rows",
        "queue/Queue/new",
        "VERSION",
        "store/redis/ops/a/B",
        "store/redis/ops/c",
        "store/redis/reply/Reply",
        "store/redis/ops/keys/one",
    ];
    assert_eq!(found, expected);
}
