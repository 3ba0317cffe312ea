//! The lists that long runs read, `tests/mutants.toml` and `tests/prove.toml`, and the files of the walks. What they name exists,
//! which the runs themselves would notice only hours later.

use std::process::Command;

use super::sources::{file, files};

fn entries(list: &str, kind: &str) -> Vec<toml::Value> {
    let table: toml::Table = file(list).parse().expect("is TOML");
    let entries = table[kind].as_array().expect("a list").clone();
    assert!(!entries.is_empty(), "{list} has {kind} entries");
    entries
}

#[test]
fn every_mutant_applies() {
    for mutant in entries("tests/mutants.toml", "mutant") {
        let text = |key: &str| mutant[key].as_str().expect("a text");
        assert_eq!(file(text("file")).matches(text("old")).count(), 1, "{}", text("name"));
        assert_ne!(text("old"), text("new"), "{}", text("name"));
    }
}

/// The module of the tests that only `scripts/test --all` runs.
const REPEATED: &str = "::repeated::";

#[test]
fn nine_of_ten_mutants_are_noticed_by_the_tests_of_a_change() {
    let mutants = entries("tests/mutants.toml", "mutant");
    let forms: Vec<_> = mutants.iter().map(|mutant| mutant["form"].as_str().expect("a text")).collect();
    assert!(forms.iter().all(|form| ["plain", "all"].contains(form)), "{forms:?}");
    let only_in_all = forms.iter().filter(|form| **form == "all").count();
    assert!(only_in_all * 10 <= forms.len(), "{only_in_all} of {}", forms.len());
}

#[test]
fn every_file_of_a_walk_exists() {
    let page = file("docs/decisions/0032-walks.md");
    let blocks: Vec<&str> =
        page.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 3, "one list for each walk");
    for path in blocks.into_iter().flat_map(str::lines) {
        assert!(!file(&format!("src/{path}")).is_empty(), "{path}");
    }
}

#[test]
fn every_filter_of_a_list_matches_a_test() {
    let program = std::env::current_exe().expect("this program");
    let list = Command::new(program).arg("--list").output().expect("runs").stdout;
    let mut tests: Vec<String> =
        String::from_utf8(list).expect("is text").lines().map(str::to_owned).collect();
    assert!(tests.len() > 1_000, "{} tests are listed", tests.len());
    // The tests within the library, by their modules.
    for (file, text) in files("src", "rs") {
        let module = file
            .trim_start_matches("src/")
            .trim_end_matches(".rs")
            .trim_end_matches("/mod")
            .replace('/', "::");
        for name in test_names(&text) {
            tests.extend([format!("{module}::{name}"), format!("{module}::tests::{name}")]);
        }
    }
    for (list, kind) in [("tests/mutants.toml", "mutant"), ("tests/prove.toml", "part")] {
        for entry in entries(list, kind) {
            let Some(filters) = entry.get("tests") else { continue };
            let is_plain = entry.get("form").is_some_and(|form| form.as_str() == Some("plain"));
            let is_run = |test: &str| !(is_plain && test.contains(REPEATED));
            for filter in
                filters.as_array().expect("a list").iter().map(|filter| filter.as_str().expect("a text"))
            {
                assert!(
                    tests.iter().any(|test| test.contains(filter) && is_run(test)),
                    "{:?}: no test that is run matches {filter}",
                    entry["name"]
                );
            }
        }
    }
}

/// The names of the test functions in a Rust file.
fn test_names(text: &str) -> Vec<&str> {
    let (mut names, mut is_test) = (Vec::new(), false);
    for line in text.lines().map(str::trim_start) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let name = line.split_once("fn ").and_then(|(_, rest)| rest.split('(').next());
        if let Some(name) = name.filter(|_| std::mem::take(&mut is_test)) {
            names.push(name);
        }
    }
    names
}

/// The figures of the pages are of this program, or the pages say that they are not.
#[test]
fn pages_name_the_state_of_the_program_that_was_proven() {
    let mut check = Command::new("scripts/prove");
    let said = check.arg("--check").current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

/// Behind an assertion it would be 0 even if a hundred jobs were lost.
#[test]
fn no_test_reports_a_literal_as_a_count_of_losses() {
    // This one tries the report itself.
    let left_out = "tests/it/prove.rs";
    let mut wrong = Vec::new();
    for (file, text) in files("tests", "rs").into_iter().filter(|(file, _)| file != left_out) {
        for line in text.lines().filter(|line| line.contains("proof: what=")) {
            for key in ["lost", "violations", "returned", "silent", "early"] {
                if line.contains(&format!(" {key}=0")) {
                    wrong.push(format!("{file}: {key}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
