//! The exit codes of the commands that call a server, and the failures behind them. Knows no command.

use std::{borrow::Cow, process::ExitCode};

use bytes::Bytes;
use linger_client::{Error, OptionsError, Refusal};

use crate::{messages::printable, process::signals::StopSignal};

/// Exit code for wrong usage or an invalid configuration; clap uses the same.
pub(super) const USAGE_ERROR: u8 = 2;

/// How a command that calls a server ended. Scripts rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// Done, also as a repeat that the server recognised.
    Done,
    /// Failed, or some of several items failed.
    Failed,
    /// Wrong usage, an unusable profile, or values that the server refuses.
    Usage,
    /// There is none: no job is due, or there is no such job, topic, schedule or operation.
    Absent,
    /// A conflict; nothing was changed.
    Conflict,
    /// The token does not allow it, or is missing.
    NotAllowed,
    /// No answer until the timeout: it may have happened, and may be run again.
    NoAnswer,
    /// A signal ended the command.
    Signal(StopSignal),
}

impl Exit {
    /// The number that the process ends with.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => USAGE_ERROR,
            Self::Absent => 3,
            Self::Conflict => 4,
            Self::NotAllowed => 5,
            Self::NoAnswer => 6,
            Self::Signal(signal) => signal.exit_code(),
        }
    }

    /// How a command ends that did several things: as each of them did, or else [`Exit::Failed`].
    pub fn of_all(exits: impl IntoIterator<Item = Self>) -> Self {
        let join = |one, other| if one == other { one } else { Self::Failed };
        exits.into_iter().reduce(join).unwrap_or(Self::Done)
    }

    /// The code in a problem document for a failure that has no answer of the server.
    fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Absent => "absent",
            Self::Conflict => "conflict",
            Self::NotAllowed => "not_allowed",
            Self::NoAnswer => "no_answer",
            Self::Signal(_) => "signal",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl From<&Refusal> for Exit {
    fn from(refusal: &Refusal) -> Self {
        match (refusal.status, refusal.code.as_str()) {
            (500.., _) => Self::NoAnswer,
            // The answer of anything else than Linger says nothing about jobs or tokens.
            (_, "") => Self::Failed,
            (404, "job_not_found" | "topic_not_found" | "schedule_not_found" | "operation_not_found") => {
                Self::Absent
            }
            (409, _) => Self::Conflict,
            (401 | 403, _) => Self::NotAllowed,
            (400 | 413 | 415 | 422, _) => Self::Usage,
            _ => Self::Failed,
        }
    }
}

impl From<&Error> for Exit {
    fn from(error: &Error) -> Self {
        match error {
            Error::Refused { refusal, .. } => Self::from(&**refusal),
            Error::WrongScheme { .. } => Self::Usage,
            Error::NotConnected { is_permanent: true, .. }
            | Error::Untrusted { .. }
            | Error::Foreign { .. } => Self::Failed,
            Error::NotConnected { .. }
            | Error::Cut { .. }
            | Error::TimedOut { .. }
            | Error::Unreadable { .. } => Self::NoAnswer,
        }
    }
}

/// Why a command, or one of the things that it does, failed.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub exit: Exit,
    /// The failure in a sentence.
    pub message: String,
    /// The status of the answer, if there was one.
    status: Option<u16>,
    /// The problem document of the server.
    document: Option<Bytes>,
    /// Whether it may be refused because an earlier attempt has done it.
    pub is_after_attempt: bool,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), status: None, document: None, is_after_attempt: false }
    }

    /// Wrong usage, or a profile that cannot be used.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The refusal of an item of a batch, with its problem document.
    pub fn of_item(status: u16, document: &str) -> Self {
        Self::of_refusal(&Refusal::new(status, None, document.to_owned().into()))
    }

    fn of_refusal(refusal: &Refusal) -> Self {
        Self {
            exit: Exit::from(refusal),
            message: printable::escape_line(&refusal.sentence()).into_owned(),
            status: Some(refusal.status),
            document: refusal.is_own().then(|| refusal.document.clone()),
            is_after_attempt: refusal.is_after_attempt,
        }
    }

    /// Whether the server, or a proxy before it, refuses what was sent: its size, or a value in it.
    pub fn is_about_content(&self) -> bool {
        self.status == Some(413) || self.exit == Exit::Usage && self.has_answer()
    }

    /// The same about one of several things, such as a job's id.
    pub fn about(self, what: &str) -> Self {
        let message = format!("{what}: {}", self.message);
        self.with_message(message)
    }

    /// The same in other words.
    pub fn with_message(self, message: String) -> Self {
        Self { message, ..self }
    }

    /// Whether the server answered.
    pub fn has_answer(&self) -> bool {
        self.document.is_some()
    }

    /// The problem document in one line: that of the server, or one with its members `code` and `detail`.
    pub fn problem(&self) -> String {
        let of_server = self.document.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
        let is_object = |text: &&str| serde_json::from_str::<serde_json::Map<_, _>>(text).is_ok();
        match of_server.filter(is_object) {
            Some(text) => one_line(text).into_owned(),
            None => serde_json::json!({ "code": self.exit.word(), "detail": self.message }).to_string(),
        }
    }
}

impl From<Error> for Failure {
    /// Without the name of the call: the name of the command says more.
    fn from(error: Error) -> Self {
        if let Some(refusal) = error.refusal() {
            return Self::of_refusal(refusal);
        }
        let (message, call) = (error.to_string(), format!("{}: ", error.call()));
        let message = message.strip_prefix(&call).unwrap_or(&message);
        Self::new(Exit::from(&error), printable::escape_line(message))
    }
}

impl From<OptionsError> for Failure {
    fn from(error: OptionsError) -> Self {
        Self::usage(error.to_string())
    }
}

/// JSON without line breaks. They occur only between values, where a blank means the same.
pub(super) fn one_line(json: &str) -> Cow<'_, str> {
    let json = json.trim_ascii();
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ").into() } else { json.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_ends_a_command_by_its_status_and_code() {
        let exit = |status, code: &str| {
            let document = format!(r#"{{"status":{status},"code":"{code}","detail":"x"}}"#);
            Exit::from(&Refusal::new(status, None, document.into()))
        };
        for (status, code, expected) in [
            (404, "job_not_found", Exit::Absent),
            (404, "topic_not_found", Exit::Absent),
            (404, "schedule_not_found", Exit::Absent),
            (404, "operation_not_found", Exit::Absent),
            (404, "not_found", Exit::Failed),
            (404, "", Exit::Failed),
            (302, "", Exit::Failed),
            (401, "", Exit::Failed),
            (409, "", Exit::Failed),
            (413, "", Exit::Failed),
            (502, "", Exit::NoAnswer),
            (409, "intake_paused", Exit::Conflict),
            (401, "unauthorized", Exit::NotAllowed),
            (403, "forbidden", Exit::NotAllowed),
            (413, "body_too_large", Exit::Usage),
            (405, "method_not_allowed", Exit::Failed),
            (507, "store_full", Exit::NoAnswer),
        ] {
            assert_eq!(exit(status, code), expected, "{status} {code}");
        }
    }

    #[test]
    fn several_things_end_as_each_did_or_as_failed() {
        assert_eq!(Exit::of_all([]), Exit::Done);
        assert_eq!(Exit::of_all([Exit::Absent, Exit::Absent]), Exit::Absent);
        assert_eq!(Exit::of_all([Exit::Done, Exit::Absent, Exit::Done]), Exit::Failed);
    }

    #[test]
    fn a_problem_is_one_line_with_a_code() {
        let item = Failure::of_item(409, "{\n\"status\":409,\"code\":\"job_exists\",\"detail\":\"x\"}\n");
        assert_eq!(item.problem(), r#"{ "status":409,"code":"job_exists","detail":"x"}"#);
        let other = Failure::usage("a \"b\"");
        assert_eq!(other.problem(), r#"{"code":"usage","detail":"a \"b\""}"#);
        assert_eq!(
            Failure::of_item(502, "<html>").problem(),
            r#"{"code":"no_answer","detail":"the answer is not Linger's: 502: <html>"}"#
        );
        let foreign = Failure::of_item(403, r#"{"error":"log in"}"#).problem();
        assert!(
            foreign.starts_with(r#"{"code":"failed","detail":"the answer is not Linger's: 403: "#),
            "{foreign}"
        );
    }

    #[test]
    fn a_failure_has_no_line_breaks_of_the_server_and_no_name_of_a_call() {
        let refusal = Refusal::new(
            409,
            None,
            r#"{"status":409,"code":"job_exists","detail":"a\nlinger: done"}"#.into(),
        );
        let failure = Failure::from(Error::Refused { call: "patch", refusal: Box::new(refusal) });
        assert_eq!(failure.message, "the server answers 409: job_exists, a\\nlinger: done");
        let cut = Failure::from(Error::Cut { call: "patch", reason: "reset".to_owned() });
        assert_eq!(cut.message, "reset");
    }
}
