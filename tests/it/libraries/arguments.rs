//! What a caller gives: it goes to the server as it is, or is refused with what is expected. Each language has its own table,
//! since their types differ.

use serde_json::json;

use super::{Language, Program, Site};

/// What the case `arguments` of Python gives, the class of the error, and a part of its text.
const IN_PYTHON: &[(&str, &str, &str)] = &[
    ("an empty id", "Refused", "/id must not be empty"),
    ("an empty id in a batch", "Refused", "/id must not be empty"),
    ("a number as an id", "TypeError", "id must be a str"),
    ("an empty topic", "Refused", "/topic must not be empty"),
    ("a job without an id", "ValueError", "an id must not be ''"),
    ("a job that is a folder", "ValueError", "an id must not be '..'"),
    ("an empty receipt", "Refused", "/receipt must not be empty"),
    ("no receipt", "TypeError", "receipt must be a str"),
    ("a negative delay", "Refused", "/delay must be zero or more"),
    ("a delay that is no number", "ValueError", "delay must be a finite number"),
    ("an infinite delay", "ValueError", "delay must be a finite number"),
    ("a boolean delay", "TypeError", "delay must be a number of seconds, a timedelta or a text"),
    ("a huge delay", "ValueError", "delay must be a finite number"),
    ("a long delay", "Refused", "/delay must be at most"),
    ("a delay in words", "Refused", "/delay must be a number of seconds or a string"),
    ("one text as a schedule", "TypeError", "retry must be a list of durations"),
    ("a naive time", "ValueError", "at must have a time zone"),
    ("a number as a time", "TypeError", "at must be a datetime with a time zone or a text"),
    ("a fraction of attempts", "TypeError", "max_attempts must be an int"),
    ("a boolean maximum", "TypeError", "max must be an int"),
    ("a list as a topic", "TypeError", "a topic must be a str"),
    ("a text as a wait", "TypeError", "wait must be a number of seconds or a timedelta"),
    ("an infinite wait", "ValueError", "wait must be a finite number"),
    ("a negative wait", "Refused", "/wait must be zero or more"),
    ("an empty note", "Refused", "/note must be 1 to 256 bytes long"),
    ("a number as a note", "TypeError", "note must be a str"),
    ("an empty name", "Refused", "/worker must have"),
    ("no topics", "ValueError", "topics must name at least one"),
    ("no handler", "TypeError", "must be callable"),
    ("a coroutine function as a handler", "TypeError", "wrap a coroutine in asyncio.run"),
    ("no place", "ValueError", "parallel must be at least 1"),
    ("a negative drain", "ValueError", "drain must not be negative"),
    ("no timeout", "ValueError", "timeout must be more than 0"),
    ("an infinite timeout", "ValueError", "timeout must be a finite number"),
    ("a token with a line break", "ValueError", "the token must have visible"),
    ("a URL without a scheme", "ValueError", "must be the URL of a server"),
    ("a URL without a host", "ValueError", "must be the URL of a server"),
    ("a URL of another scheme", "ValueError", "must be the URL of a server"),
    ("a URL with a query", "ValueError", "without a user, a query"),
    ("a URL with a password", "ValueError", "without a user, a query"),
    ("a URL with a port that is none", "ValueError", "must be the URL of a server"),
];

/// The same of Go's, and whether it is the server that refuses it.
const IN_GO: &[(&str, &str, &str)] = &[
    ("an empty topic", "refused", "/topic must not be empty"),
    ("a negative delay", "refused", "/delay must be zero or more"),
    ("a negative number of attempts", "refused", "/max_attempts must be a whole number"),
    ("a job without an id", "other", "an id must not be \"\""),
    ("a job that is a folder", "other", "an id must not be \"..\""),
    ("an empty receipt", "refused", "/receipt must not be empty"),
    ("a negative wait", "refused", "/wait must be zero or more"),
    ("an empty note", "refused", "/note must be 1 to 256 bytes long"),
    ("a note outside of a handler", "other", "needs the context of a handler"),
    ("no client", "other", "has no Client"),
    ("no topics", "other", "has no Topics"),
    ("no handler", "other", "has no Handler"),
    ("a negative drain", "other", "must not be negative"),
    ("a negative number of places", "other", "must not be negative"),
    ("a client that is not of New", "other", "not made by New"),
    ("a token with a line break", "other", "the token must have visible"),
    ("a URL without a scheme", "other", "must be the URL of a server"),
    ("a URL without a host", "other", "must be the URL of a server"),
    ("a URL of another scheme", "other", "must be the URL of a server"),
    ("a URL with a query", "other", "without a user, a query"),
    ("a URL with a password", "other", "without a user, a query"),
    ("a URL with a port that is none", "other", "must be the URL of a server"),
    ("a URL that cannot be read", "other", "cannot be read"),
];

fn assert_errors(language: Language, table: &[(&str, &str, &str)]) {
    let site = Site::new();
    let lines = Program::start(language, &site.server.url(), &["arguments"]).ends();
    for (line, (given, error, part)) in lines.iter().zip(table) {
        assert_eq!((&line["given"], &line["error"]), (&json!(given), &json!(error)), "{line}");
        assert!(line["text"].as_str().is_some_and(|text| text.contains(part)), "{part}: {line}");
        assert!(!line["text"].to_string().contains("secret"), "{line}");
    }
    assert_eq!(lines.len(), table.len());
}

#[test]
fn python_passes_on_or_refuses_what_is_given() {
    assert_errors(Language::Python, IN_PYTHON);
}

#[test]
fn go_passes_on_or_refuses_what_is_given() {
    assert_errors(Language::Go, IN_GO);
}

/// Also in lists beside numbers.
#[test]
fn python_passes_on_durations_and_times_as_the_api_has_them() {
    let site = Site::new();
    let mut program = Program::start(Language::Python, &site.server.url(), &["texts"]);
    program.wait_for(&json!({ "added": 3 }));
    let job = site.server.job("a");
    assert_eq!(
        (&job["state"], &job["ttr"], &job["retry"]),
        (&json!("delayed"), &json!(90), &json!([15, 60, 120]))
    );
    assert_eq!(site.server.job("b")["due_at"], "2100-01-01T00:00:00.000Z");
    assert_eq!(site.server.job("c")["due_at"], "2099-12-31T23:06:32.000Z");
    program.send("go on");
    program.wait_for(&json!({ "released": "a" }));
    let job = site.server.job("a");
    assert_eq!((&job["state"], &job["attempts"]), (&json!("delayed"), &json!(1)), "{job}");
    assert_eq!(site.server.job("b")["due_at"], "2101-01-01T00:00:00.000Z");
    program.send("go on");
    program.ends();
}
