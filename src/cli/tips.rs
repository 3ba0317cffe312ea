//! Tips of the command line where clap has none, or would lead somewhere else: words of other queues and tools, and names in the
//! place of a command. Does not know what commands do.

use std::ffi::OsString;

use clap::{
    Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::job::{ScheduleName, Topic};

/// What is meant by words that are no command.
const COMMANDS: [(&[&str], &str); 11] = [
    (
        &["list", "ls", "jobs"],
        "`linger dead ls TOPIC` lists dead letters and `linger topics` the topics; other jobs are listed by the API alone: \
         GET /jobs",
    ),
    (&["put", "push", "enqueue", "publish", "send", "submit"], "`linger add TOPIC BODY` adds a job"),
    (&["take", "reserve", "receive", "consume"], "`linger pop TOPIC` reserves a job"),
    (
        &["nack", "retry", "requeue"],
        "`linger release ID --receipt RECEIPT` gives a reserved job back, `linger dead requeue TOPIC ID` a dead letter",
    ),
    (&["peek", "show", "inspect"], "`linger get ID` shows a job, `linger topic show TOPIC` a topic"),
    (&["purge", "flush", "clear"], "`linger topic purge TOPIC` deletes every job of a topic"),
    (
        &["pause", "resume"],
        "`linger topic pause TOPIC` pauses a topic, `linger schedule pause NAME` a recurring job",
    ),
    (
        &["schedules", "cron", "crontab", "recurring", "every"],
        "`linger schedule list` lists recurring jobs, `linger schedule put NAME` makes one",
    ),
    (&["delay", "snooze", "postpone"], "`linger reschedule ID --delay DURATION`"),
    (
        &["stats", "status", "info"],
        "`linger top` shows the figures, `linger health` whether a server is ready",
    ),
    (
        &["start", "run", "server"],
        "`linger serve` serves the queue, `linger work TOPIC -- PROGRAM` runs a worker",
    ),
];

/// What is meant by flags that no command has.
const FLAGS: [(&str, &str); 2] = [
    (
        "--priority",
        "jobs have no priority: add urgent ones to a topic of their own, and name it first in `linger pop`",
    ),
    ("--port", "--listen takes a port: --listen 9277"),
];

/// Whether `version` stands in the place of the command, where it means `--version`.
pub(super) fn asks_for_version(error: &Error, words: &[OsString]) -> bool {
    invalid_command(error) == Some("version") && words.get(1).is_some_and(|word| word == "version")
}

/// Gives an error of a command line of these words the tips that fit, in place of those that do not.
pub(super) fn improve(error: &mut Error, words: &[OsString]) {
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let Some(word) = invalid_command(error).map(str::to_owned) else { return };
            let is_similar = error.get(ContextKind::SuggestedSubcommand).is_some();
            let before =
                words.iter().position(|given| *given == *word).and_then(|at| words.get(at.checked_sub(1)?));
            let tip = match before.and_then(|before| before.to_str()) {
                Some("topic") if ["list", "ls"].contains(&&*word) => {
                    Some("`linger topics` lists them".to_owned())
                }
                Some("topic") => {
                    is_topic(&word, is_similar).then(|| format!("`linger topic show {word}` shows it"))
                }
                Some("dead") => is_topic(&word, is_similar)
                    .then(|| format!("`linger dead ls {word}` lists its dead letters")),
                Some("schedule") => (!is_similar && ScheduleName::parse(&word).is_ok())
                    .then(|| format!("`linger schedule get {word}` shows it")),
                Some("config" | "profile" | "store" | "token") => None,
                _ => tip_for(&word),
            };
            if let Some(tip) = tip {
                error.remove(ContextKind::SuggestedSubcommand);
                insert(error, tip);
            }
        }
        ErrorKind::UnknownArgument => {
            // "to pass it as a value": no value of any command begins with two dashes.
            error.remove(ContextKind::Suggested);
            let flag = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(flag)) => flag.clone(),
                _ => return,
            };
            if let Some((_, tip)) = FLAGS.iter().find(|(name, _)| *name == flag) {
                error.remove(ContextKind::SuggestedArg);
                insert(error, (*tip).to_owned());
            }
        }
        _ => {}
    }
}

fn invalid_command(error: &Error) -> Option<&str> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::InvalidSubcommand => Some(word),
        _ => None,
    }
}

/// Whether a word in the place of a command is the name of a topic, and no mistyped command.
fn is_topic(word: &str, is_similar: bool) -> bool {
    !is_similar && Topic::parse(word).is_ok()
}

fn tip_for(word: &str) -> Option<String> {
    let found = COMMANDS.iter().find(|(words, _)| words.contains(&word));
    found.map(|(_, tip)| (*tip).to_owned())
}

fn insert(error: &mut Error, tip: String) {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
}
