//! Why the jobs of a topic wait, in words.

use linger_client::{Cause, Pause};

use super::text::{Wording, counted, grouped, per_second, span};
use crate::messages::printable::escape_line;

/// Why the jobs of a topic wait, in the words of the dashboard (`ui/js/cause.js`). `None` for a cause of a later version.
pub(super) fn cause_text(wording: &Wording, cause: &Cause) -> Option<String> {
    Some(match cause {
        Cause::DeliveryPaused(pause) => format!("delivery is {}", pause_text(wording, pause)),
        Cause::CallbackFails { host, answer, at, resting_until } => {
            let next = resting_until.map(|until| format!(", next call {}", wording.relative(until)));
            let (host, answer) = (escape_line(host), escape_line(answer));
            let at = wording.distance(*at);
            format!("calls to {host} fail: {answer} {at}{}", next.unwrap_or_default())
        }
        Cause::IntakePaused(pause) => format!("intake is {}", pause_text(wording, pause)),
        Cause::NoWorker => "no worker has polled for a minute".to_owned(),
        Cause::WorkersBusy { reserved, since } => {
            let heard = since.map(|since| format!(", last heard from {}", wording.distance(since)));
            format!("all workers are busy with {}{}", counted(*reserved, "job"), heard.unwrap_or_default())
        }
        Cause::WorkersSilent { reserved, since } => {
            let silent = since.map_or("a day".to_owned(), |since| wording.since(since));
            format!("workers have {}, and have said nothing for {silent}", counted(*reserved, "job"))
        }
        Cause::Backlog { added, finished, empty_in } => {
            let rates = added
                .zip(*finished)
                .map(|(added, finished)| format!(": {} in, {} out", rate(added), rate(finished)));
            let empty_in = empty_in.map(|empty_in| format!(", done in about {}", span(empty_in)));
            format!("a backlog{}{}", rates.unwrap_or_default(), empty_in.unwrap_or_default())
        }
        _ => return None,
    })
}

/// What happened in a minute as a rate, as in the dashboard: "0", "24/min", "1.5/s", "240/s".
fn rate(per_minute: u64) -> String {
    match per_minute {
        0 => "0".to_owned(),
        1..60 => format!("{per_minute}/min"),
        60..600 => format!("{}/s", per_second(per_minute)),
        _ => format!("{}/s", grouped(per_minute.saturating_add(30) / 60)),
    }
}

/// When, by whom and why an operation was paused, and until when.
pub(super) fn pause_text(wording: &Wording, pause: &Pause) -> String {
    let since = pause.since.map(|since| format!("since {}", wording.moment(since)));
    let by = pause.by.as_ref().map(|by| format!("by {}", escape_line(by)));
    let until = pause.until.map(|until| format!("until {}", wording.moment(until)));
    let reason = pause.reason.as_ref().map(|reason| format!("because: {}", escape_line(reason)));
    [Some("paused".to_owned()), since, by, until, reason].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use jiff::{Timestamp, tz::TimeZone};

    use super::*;

    #[test]
    fn each_cause_is_told_in_words() {
        let now: Timestamp = "2026-11-22T06:10:00Z".parse().expect("is a moment");
        let wording = Wording::in_zone(now, TimeZone::UTC);
        let told = |json: &str| cause_text(&wording, &serde_json::from_str(json).expect("is a cause"));
        for (json, text) in [
            (
                r#"{"kind":"delivery_paused","since":"2026-11-22T06:00:00Z","by":"ann","reason":"the bank\nis down","until":"2026-11-22T07:00:00Z"}"#,
                r"delivery is paused since 06:00:00 by ann until 07:00:00 because: the bank\nis down",
            ),
            (r#"{"kind":"intake_paused","since":null}"#, "intake is paused"),
            (
                r#"{"kind":"callback_fails","host":"http://a:80","answer":"http_503","at":"2026-11-22T06:09:56Z","resting_until":"2026-11-22T06:10:39Z"}"#,
                "calls to http://a:80 fail: http_503 4s ago, next call in 39s (06:10:39)",
            ),
            (
                r#"{"kind":"callback_fails","host":"http://a:80","answer":"connect","at":"2026-11-22T06:09:56Z"}"#,
                "calls to http://a:80 fail: connect 4s ago",
            ),
            (r#"{"kind":"no_worker"}"#, "no worker has polled for a minute"),
            (r#"{"kind":"workers_busy","reserved":1}"#, "all workers are busy with 1 job"),
            (
                r#"{"kind":"workers_busy","reserved":40,"since":"2026-11-22T06:08:45Z"}"#,
                "all workers are busy with 40 jobs, last heard from 1m15s ago",
            ),
            (
                r#"{"kind":"workers_silent","reserved":3,"since":"2026-11-22T05:10:00Z"}"#,
                "workers have 3 jobs, and have said nothing for 1h",
            ),
            (
                r#"{"kind":"workers_silent","reserved":3,"since":null}"#,
                "workers have 3 jobs, and have said nothing for a day",
            ),
            (
                r#"{"kind":"backlog","added":6,"finished":60,"empty_in":90}"#,
                "a backlog: 6/min in, 1.0/s out, done in about 1m30s",
            ),
            (r#"{"kind":"backlog","added":0,"finished":900}"#, "a backlog: 0 in, 15/s out"),
            (r#"{"kind":"backlog"}"#, "a backlog"),
        ] {
            assert_eq!(told(json).as_deref(), Some(text), "{json}");
        }
        assert_eq!(told(r#"{"kind":"one of a later version"}"#), None);
    }
}
