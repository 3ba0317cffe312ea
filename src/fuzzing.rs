//! Fuzz targets: every parser of untrusted input and of stored bytes. Each target
//! checks its invariants and panics where one is broken.
//!
//! Built for tests and for fuzzing only. `fuzz/` drives the targets (`scripts/fuzz`); the test below replays
//! what it found, and what was written by hand, on every run.

mod router;

use std::fmt::{Debug, Display};

use crate::{
    auth, http,
    job::{JobId, Receipt, RetrySchedule, Timestamp, Topic, TopicPattern, format_seconds, parse_duration},
    store::{embedded, redis},
};

/// One thing to try with arbitrary bytes.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also that of its folder of inputs under `fuzz/corpus`.
pub const TARGETS: [(&str, Target); 15] = [
    ("bodies", http::fuzz_bodies),
    ("durations", durations),
    ("headers", http::fuzz_headers),
    ("lmstfy", http::lmstfy::fuzz),
    ("moments", moments),
    ("names", names),
    ("ouqiang", http::ouqiang::fuzz),
    ("paths", router::paths),
    ("query", http::fuzz_query),
    ("receipts", receipts),
    ("record_embedded", embedded::fuzz_record),
    ("record_redis", redis::fuzz_record),
    ("router", router::requests),
    ("schedules", schedules),
    ("tokens", tokens),
];

/// The target called `name`.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn target(name: &str) -> Target {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("there is no fuzz target {name}")).1
}

/// What was read and printed reads as the same.
fn reads_back<T: Display + Debug + PartialEq, E: Display + Debug + PartialEq>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) {
    match parse(text) {
        Ok(value) => assert_eq!(parse(&value.to_string()).as_ref(), Ok(&value)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn names(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    reads_back(text, JobId::parse);
    reads_back(text, Topic::parse);
    reads_back(text, TopicPattern::parse);
    if let (Ok(pattern), Ok(topic)) = (TopicPattern::parse(&format!("{text}*")), Topic::parse(text)) {
        assert!(pattern.matches(&topic));
    }
}

fn receipts(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    reads_back(text, Receipt::parse);
}

fn moments(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    reads_back(text, Timestamp::parse);
}

fn durations(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(duration) = parse_duration(text) else { return };
    let printed = format_seconds(duration);
    let again = parse_duration(&printed).expect("what is printed can be read");
    // Printed in whole milliseconds.
    assert!(again <= duration && duration - again < std::time::Duration::from_millis(1), "{text}: {printed}");
    assert_eq!(format_seconds(again), printed);
}

/// Eight bytes a step, in milliseconds.
fn schedules(data: &[u8]) {
    let steps = data.as_chunks::<8>().0.iter().map(|step| u64::from_le_bytes(*step));
    let steps: Vec<_> = steps.map(std::time::Duration::from_millis).collect();
    let Ok(schedule) = RetrySchedule::new(steps.clone()) else { return };
    assert_eq!(schedule.steps(), steps, "whole milliseconds stay");
    for attempt in [0, 1, 2, 63, 64, 65, u32::MAX] {
        let (timeout, release) = (schedule.after_timeout(attempt), schedule.after_release(attempt));
        assert!(timeout <= RetrySchedule::MAX_STEP && release <= RetrySchedule::MAX_STEP);
        assert!(schedule.is_empty() || (timeout == release && steps.contains(&timeout)));
    }
}

fn tokens(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match auth::parse_tokens(text) {
        Ok(tokens) => {
            assert!(tokens.count() > 0);
            let gate = auth::Authenticator::with_tokens(tokens);
            assert!(gate.authenticate(None).is_err() && gate.authenticate(Some(data)).is_err());
        }
        Err(problem) => assert!(!problem.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_input_of_every_corpus_holds() {
        let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        let mut folders: Vec<_> =
            fs::read_dir(&corpora).expect("is there").map(|f| f.expect("is read").file_name()).collect();
        folders.sort();
        assert_eq!(folders, TARGETS.map(|(name, _)| name), "one folder for each target");
        for (name, target) in TARGETS {
            let mut inputs = 0;
            for input in fs::read_dir(corpora.join(name)).expect("is there") {
                let path = input.expect("is read").path();
                let bytes = fs::read(&path).expect("can be read");
                if std::panic::catch_unwind(|| target(&bytes)).is_err() {
                    panic!("{} breaks an invariant", path.display());
                }
                inputs += 1;
            }
            assert!(inputs >= 3, "{name} has {inputs} inputs");
        }
        router::stop();
    }

    #[test]
    fn every_target_has_its_program() {
        let manifest = include_str!("../fuzz/Cargo.toml");
        for (name, _) in TARGETS {
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
            let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fuzz/fuzz_targets/{name}.rs"));
            assert!(fs::read_to_string(program).expect("is there").contains(&format!("{name:?}")), "{name}");
        }
    }
}
