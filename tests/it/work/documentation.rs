//! The page for users says what the help says.

use std::{collections::BTreeSet, fs, path::Path};

use crate::harness::process::{run, stdout};

/// The long flags in a text.
fn flags(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
    let found = text.split("--").skip(1).map(|rest| rest.split(|c| !is_name(c)).next().unwrap_or_default());
    found.filter(|name| name.starts_with(char::is_alphabetic)).map(str::to_owned).collect()
}

#[test]
fn the_page_and_the_help_have_the_same_flags() {
    let directory = tempfile::tempdir().expect("a directory");
    let help = stdout(&run(&["work", "--help"], directory.path()));
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/work.md")).expect("a page");
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
