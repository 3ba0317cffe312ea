//! House rules for words: names that were given up for the field's standard terms do not come back, and sentences in
//! comments and pages name their subject.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::{SOURCES, file, files};

/// Names that no module, type or function may have. `docs/glossary.md` has the words that took their place.
const RETIRED: &[&str] = &[
    "Alarm",
    "Calling",
    "Deaf",
    "Desk",
    "Doubt",
    "GiveBack",
    "Giver",
    "Hints",
    "Hold",
    "Line",
    "Located",
    "Need",
    "News",
    "Note",
    "Nudge",
    "Paced",
    "Parts",
    "Passed",
    "Patience",
    "Place",
    "Room",
    "Seat",
    "Shot",
    "Taken",
    "Told",
    "Turns",
    "Want",
    "Work",
    "adding",
    "answers",
    "ask",
    "at",
    "backfill",
    "crew",
    "figures",
    "gather",
    "gathered",
    "graves",
    "guests",
    "hasty",
    "hearsay",
    "heart",
    "held",
    "hints",
    "ids",
    "insist",
    "intake",
    "lanes",
    "leaving",
    "link",
    "look",
    "make_up",
    "marks",
    "note",
    "of",
    "on_the_way",
    "one",
    "pace",
    "parts",
    "patient",
    "payload",
    "put_in",
    "room",
    "seal",
    "seats",
    "settle",
    "shift",
    "shoot",
    "survey",
    "take",
    "take_out",
    "tell",
    "twin",
    "upkeep",
];

/// Words that hide who does something, and clauses in place of a noun. Name the client, the worker or the process.
const VAGUE: [&str; 9] = [
    "anybody",
    "as far as",
    "everybody",
    "nobody",
    "somebody",
    "someone",
    "those who",
    "what becomes of",
    "whoever",
];

/// What stands before the name in a definition.
const DEFINITIONS: [&str; 6] = ["mod", "fn", "struct", "enum", "trait", "type"];

/// Words that may stand before that.
const QUALIFIERS: [&str; 6] = ["pub", "pub(crate)", "pub(super)", "const", "async", "default"];

/// The name that a line defines, if it defines one.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| QUALIFIERS.contains(word));
    words.next().filter(|word| DEFINITIONS.contains(word))?;
    words.next()?.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}

/// The name of the function that a line defines, if it defines one.
pub fn defined_function(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| QUALIFIERS.contains(word));
    words.next().filter(|word| *word == "fn")?;
    defined(line)
}

#[test]
fn retired_words_name_nothing() {
    let mut wrong = Vec::new();
    for (file, text) in SOURCES.iter().flat_map(|folder| files(folder, "rs")) {
        let names = text.lines().filter_map(defined).filter(|name| RETIRED.contains(name));
        wrong.extend(names.map(|name| format!("{file}: {name}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A search for the name of a type should find one type. A few names are the standard term in several modules.
#[test]
fn few_types_share_a_name() {
    let mut places = BTreeMap::<String, BTreeSet<String>>::new();
    for (file, text) in files("src", "rs") {
        let is_for_tests = ["test", "fuzzing", "benching"].iter().any(|part| file.contains(part));
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for line in code.lines().filter(|_| !is_for_tests) {
            let defines_type = ["struct ", "enum ", "trait "].iter().any(|kind| line.contains(kind));
            if let Some(name) = defined(line).filter(|_| defines_type) {
                places.entry(name.to_owned()).or_default().insert(file.clone());
            }
        }
    }
    places.retain(|_, files| files.len() > 1);
    assert!(places.len() < 20, "{} names are defined more than once: {places:#?}", places.len());
}

/// The first vague word of a text.
fn vague(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    VAGUE.into_iter().find(|word| {
        text.match_indices(word).any(|(at, _)| {
            !text[..at].ends_with(is_letter) && !text[at + word.len()..].starts_with(is_letter)
        })
    })
}

#[test]
fn sentences_name_their_subject() {
    let code = [("src", "rs"), ("bench", "rs"), ("clients", "rs"), ("tests", "rs")];
    let comments = code.iter().flat_map(|(folder, ending)| files(folder, ending)).flat_map(|(file, text)| {
        // These lists have the words.
        let is_list = file.ends_with("tidy/words.rs");
        let comment = move |line: &str| Some(line.split_once("//")?.1.to_owned()).filter(|_| !is_list);
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, comment(line).unwrap_or_default()));
        lines.map(|(at, line)| (format!("{file}:{at}"), line)).collect::<Vec<_>>()
    });
    let lua = files("src", "lua").into_iter();
    let pages = files("docs", "md").into_iter().chain(lua);
    let front = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "openapi.yaml", "config/default.toml"];
    let pages = pages.chain(front.map(|name| (name.to_owned(), file(name)))).flat_map(|(file, text)| {
        let lines =
            text.lines().enumerate().map(|(at, line)| (format!("{file}:{}", at + 1), line.to_owned()));
        lines.collect::<Vec<_>>()
    });
    let found = comments.chain(pages).filter_map(|(at, line)| Some(format!("{at}: {}", vague(&line)?)));
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn vague_words_are_whole_words() {
    assert_eq!(vague("// Nobody waits"), Some("nobody"));
    assert_eq!(vague("It holds what becomes of a job"), Some("what becomes of"));
    assert_eq!(vague("someone_else, nobodys"), None);
}

#[test]
fn definitions_are_recognised() {
    for (line, name) in [
        ("pub(crate) struct Seat {", Some("Seat")),
        ("    async fn look(&self) {", Some("look")),
        ("mod payload;", Some("payload")),
        ("type Line<'a> = &'a str;", Some("Line")),
        ("// mod payload;", None),
        ("let seat = Seat::new();", None),
    ] {
        assert_eq!(defined(line), name, "{line}");
    }
}
