//! The page for users says what the help says.

use std::{collections::BTreeSet, fs, path::Path};

use crate::harness::process::{run, stdout};

/// The long flags in a text.
fn flags(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
    let found = text.split("--").skip(1).map(|rest| rest.split(|c| !is_name(c)).next().unwrap_or_default());
    found.filter(|name| name.starts_with(char::is_alphabetic)).map(str::to_owned).collect()
}

/// A file of the repository.
fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("reads")
}

#[test]
fn the_page_and_the_help_have_the_same_flags() {
    let directory = tempfile::tempdir().expect("a directory");
    let help = stdout(&run(&["work", "--help"], directory.path()));
    let page = read("docs/work.md");
    let table: String = page.lines().filter(|line| line.starts_with("| `-")).collect();
    let mut in_help = flags(&help);
    in_help.remove("help");
    assert_eq!(flags(&table), in_help);
    assert!(in_help.len() > 15, "{in_help:?}");
    // Also their defaults.
    let words: Vec<&str> = help.split_whitespace().collect();
    let defaults =
        words.windows(2).filter(|pair| pair[0] == "[default:").map(|pair| pair[1].trim_end_matches(']'));
    for default in defaults.filter(|default| default.starts_with(|c: char| c.is_ascii_digit())) {
        assert!(table.contains(&format!("`{default}`")), "{default}");
    }
}

/// The values of a key of a unit, of the last line that has it.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let line = unit.lines().rev().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("no {key}")).split(' ').collect()
}

/// Each start of a command that cannot be run uses up attempts. Only a server that did not answer is worth another start.
#[test]
fn no_unit_starts_a_worker_again_after_an_end_that_no_start_mends() {
    let (unit, page) = (read("deploy/systemd/linger-work@.service"), read("docs/work.md"));
    let (_, block) = page.split_once("```ini\n").expect("the page has a unit");
    let (block, _) = block.split_once("```").expect("the block ends");
    let (_, codes) = page.split_once("## Exit codes").expect("the page has the codes");
    let codes =
        codes.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()?.parse::<u8>().ok());
    let final_codes: Vec<String> =
        codes.filter(|code| ![0, 6].contains(code)).map(|code| code.to_string()).collect();
    assert_eq!(final_codes, ["1", "2", "4", "5"]);
    for unit in [unit.as_str(), block] {
        assert_eq!(values(unit, "Restart"), ["on-failure"]);
        assert_eq!(values(unit, "RestartPreventExitStatus"), final_codes);
        assert_eq!(values(unit, "KillMode"), ["mixed"]);
        // --drain, --kill-after and the time for reports.
        let stop: u32 = values(unit, "TimeoutStopSec")[0].parse().expect("a number");
        assert!(stop > 25 + 10 + 5, "{stop}");
    }
}

#[test]
fn a_server_that_cannot_start_is_given_up_after_the_time_that_its_unit_names() {
    let unit = read("deploy/systemd/linger.service");
    let number = |key: &str| values(&unit, key)[0].parse::<u32>().expect("a number");
    assert!(unit.contains("is tried again 30 times, for five minutes, then given up"));
    assert_eq!((number("StartLimitBurst"), number("StartLimitBurst") * number("RestartSec")), (30, 5 * 60));
    // Otherwise the interval ends before so many starts, and they go on for ever.
    assert!(number("StartLimitIntervalSec") > 5 * 60);
    assert_eq!(values(&unit, "RestartPreventExitStatus"), ["2"]);
}
