//! House rules that a reader would otherwise have to check: the structure, words, lengths, and the lists of faults.

mod lists;
mod rooms;
pub mod sources;
mod words;

use sources::{SOURCES, files};

/// Longest file of ours, in lines.
const MAX_LINES: usize = 400;

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
