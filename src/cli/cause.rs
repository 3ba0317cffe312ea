//! Why the jobs of a topic wait, in words.

use linger_client::{Cause, Pause};

use super::text::{Wording, counted, per_second, span};
use crate::messages::printable::escape_line;

/// Why the jobs of a topic wait; nothing if none is known.
pub(super) fn cause_text(wording: &Wording, cause: &Cause) -> Option<String> {
    Some(match cause {
        Cause::DeliveryPaused(pause) => format!("delivery is {}", pause_text(wording, pause)),
        Cause::CallbackFails { host, answer, at, resting_until } => {
            let next = resting_until.map(|until| format!("; next call {}", wording.due(until)));
            let (host, answer) = (escape_line(host), escape_line(answer));
            format!("{host} fails: {answer} {}{}", wording.since(*at), next.unwrap_or_default())
        }
        Cause::IntakePaused(pause) => format!("intake is {}", pause_text(wording, pause)),
        Cause::NoWorker => "no worker has polled for a minute".to_owned(),
        Cause::WorkersBusy { reserved } => format!("all workers are busy with {}", counted(*reserved, "job")),
        Cause::WorkersSilent { reserved, since } => {
            let since =
                since.map_or("for a day".to_owned(), |since| format!("since {}", wording.moment(since)));
            format!("the workers have {} and have said nothing {since}", counted(*reserved, "job"))
        }
        Cause::Backlog { added, finished, empty_in } => {
            let empty_in = empty_in.map(|empty_in| format!("; done in about {}", span(empty_in)));
            let rates = format!("{} in and {} out a second", per_second(*added), per_second(*finished));
            format!("workers are at it: {rates}{}", empty_in.unwrap_or_default())
        }
        _ => return None,
    })
}

/// When, by whom and why an operation was paused, and until when.
pub(super) fn pause_text(wording: &Wording, pause: &Pause) -> String {
    let since = pause.since.map(|since| format!("since {}", wording.moment(since)));
    let by = pause.by.as_ref().map(|by| format!("by {}", escape_line(by)));
    let until = pause.until.map(|until| format!("until {}", wording.moment(until)));
    let reason = pause.reason.as_ref().map(|reason| format!("because: {}", escape_line(reason)));
    [Some("paused".to_owned()), since, by, until, reason].into_iter().flatten().collect::<Vec<_>>().join(" ")
}
