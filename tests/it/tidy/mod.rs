//! House rules that a reader would otherwise have to check: the structure, words, lengths, and the lists of faults.

mod lists;
mod rooms;
pub mod sources;
mod words;

use sources::{SOURCES, files};

/// Longest file of ours, in lines.
const MAX_LINES: usize = 400;

/// Longest function of ours that is not a test, in lines.
const MAX_FUNCTION_LINES: usize = 70;

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
fn functions_are_short_enough() {
    let mut wrong = Vec::new();
    for (file, text) in SOURCES.iter().flat_map(|folder| files(folder, "rs")) {
        let is_of_tests = |file: &str| file.contains("/tests/") || file.ends_with("/tests.rs");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let long = functions(code).filter(|(_, lines)| *lines > MAX_FUNCTION_LINES);
        wrong.extend(
            long.filter(|_| !is_of_tests(&file))
                .map(|(name, lines)| format!("{file}: {name} has {lines} lines")),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The functions with a body and how many lines each has: by the indentation that rustfmt gives.
fn functions(code: &str) -> impl Iterator<Item = (&str, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    (0..lines.len()).filter_map(move |first| {
        let name = words::defined_function(lines[first])?;
        let indent = lines[first].len() - lines[first].trim_start().len();
        let is_last = |line: &&str| {
            let (spaces, rest) = line.split_at_checked(indent).unwrap_or((line, ""));
            spaces.trim().is_empty()
                && (rest.starts_with('}') || rest.ends_with(';') && !rest.starts_with(' '))
        };
        if lines[first].ends_with(';') || lines[first].ends_with('}') {
            return Some((name, 1));
        }
        let length = lines[first + 1..].iter().position(is_last)?;
        Some((name, length + 2))
    })
}

#[test]
fn functions_are_measured() {
    let code = "pub fn one() -> u8 { 1 }\n\nimpl A {\n    async fn three(\n        &self) {\n    }\n}\ntrait B {\n    fn none(\n        a: u8,\n    );\n}\n";
    let measured: Vec<_> = functions(code).collect();
    assert_eq!(measured, [("one", 1), ("three", 3), ("none", 3)]);
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

/// The monotonic clock stops while the machine is suspended, so every delay would be late by as much. No test suspends a
/// machine.
#[test]
fn time_that_passes_is_boot_time() {
    let clocks: String = files("src/clock", "rs").into_iter().map(|(_, text)| text).collect();
    for uses in ["ClockId::Boottime)", "TimerfdClockId::Boottime,"] {
        assert_eq!(clocks.matches(uses).count(), 1, "{uses}");
    }
    for (file, text) in SOURCES.iter().flat_map(|folder| files(folder, "rs")) {
        assert!(!text.contains("ClockId::Monotonic"), "{file}");
    }
}

/// A test that skips itself would count as passed.
#[test]
fn no_test_skips_itself_in_silence() {
    let own_words = ["tests/it/harness/not_here.rs", "tests/it/tidy/mod.rs"];
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
