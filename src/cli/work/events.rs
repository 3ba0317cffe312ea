//! What the worker says about what happens, in text and in JSON.

use std::time::Duration;

use linger_client::{
    Error, Job, ReservedJob,
    worker::{Cause, Event, Outcome, Report},
};
use serde_json::{Value, json};

use super::printer::Entry;

/// The entry for an event.
pub(super) fn entry<'a>(event: &Event<'a>) -> Entry<'a> {
    match *event {
        Event::Started(job) => {
            let text = format!("attempt {}, {} late", job.attempt, span(job.late));
            Entry { job: Some(job), event: "start", text, fields: json!({ "late": job.late.as_secs_f64() }) }
        }
        Event::Ended { job, report, outcome, took } => ended(job, report, outcome, took),
        Event::Lost { job, refusal, is_kept } => {
            let reason = refusal.map_or("no heartbeat got through".to_owned(), ToString::to_string);
            let text = format!("{reason}{}", if is_kept { "; it goes on" } else { "" });
            Entry {
                job: Some(job),
                event: "lost",
                text,
                fields: json!({ "reason": reason, "kept": is_kept }),
            }
        }
        Event::Away(error) => {
            let text = format!("the server does not answer: {error}");
            general("away", text, json!({ "reason": error.to_string() }))
        }
        Event::Back(time) => general(
            "back",
            format!("the server answers again after {}", span(time)),
            json!({ "took": time.as_secs_f64() }),
        ),
        Event::Draining { cause, running, limit } => {
            let most = limit.map_or(String::new(), |limit| format!(", at most {}", span(limit)));
            let text = match (cause, running) {
                (Cause::Signal, 0) => "draining: nothing runs".to_owned(),
                (Cause::Signal, _) => format!("draining: {running} running{most}; ctrl-c again ends it now"),
                (cause, 0) => format!("draining: {}", words(cause)),
                (cause, _) => format!("draining: {}; {running} running{most}", words(cause)),
            };
            let limit = limit.map(|limit| limit.as_secs_f64());
            general("draining", text, json!({ "cause": words(cause), "running": running, "limit": limit }))
        }
        Event::Hurry(signals) => {
            let text = if signals == 2 {
                "ending commands now; ctrl-c again kills them"
            } else {
                "killing commands"
            };
            general("hurry", text.to_owned(), json!({ "signals": signals }))
        }
    }
}

fn general(event: &'static str, text: String, fields: Value) -> Entry<'static> {
    Entry { job: None, event, text, fields }
}

/// Why a worker ends, in words.
pub(super) fn words(cause: &Cause) -> String {
    match cause {
        Cause::Signal => "a signal".to_owned(),
        Cause::Empty => "no job is ready".to_owned(),
        Cause::Enough => "this was the last job".to_owned(),
        Cause::Broken(why) => format!("the command cannot be run: {why}"),
        Cause::NotAllowed(error) | Cause::Refused(error) => error.to_string(),
        Cause::Away(error) => format!("the server does not answer: {error}"),
        Cause::Unreported(1) => "the end of 1 job was not reported; it may run again".to_owned(),
        Cause::Unreported(jobs) => format!("the ends of {jobs} jobs were not reported; they may run again"),
    }
}

fn ended<'a>(job: &'a ReservedJob, report: &Report, outcome: &Outcome, took: Option<Duration>) -> Entry<'a> {
    let after = took.map(|took| format!("after {}", span(took)));
    let (what, detail) = match report {
        Report::Finish => (None, None),
        Report::Bury { reason } | Report::Release { reason, .. } => match reason.split_once(": ") {
            Some((what, detail)) => (Some(what), Some(detail)),
            None => (Some(reason.as_str()), None),
        },
    };
    let next = match outcome {
        Outcome::Accepted(job) => {
            job.as_deref().filter(|_| !matches!(report, Report::Bury { .. })).and_then(next)
        }
        Outcome::TooLate(_) => Some("too late, runs again".to_owned()),
        Outcome::Refused(error) => Some(format!("not reported: {error}")),
        Outcome::Unanswered => Some("not reported: the server does not answer".to_owned()),
    };
    let how = [what.map(str::to_owned), after].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let mut text = [Some(how), next].into_iter().flatten().collect::<Vec<_>>().join(", ");
    if let Some(detail) = detail {
        text += ": ";
        text += detail;
    }
    let (outcome, error) = match outcome {
        Outcome::Accepted(_) => ("accepted", None),
        Outcome::TooLate(error) => ("too_late", Some(error)),
        Outcome::Refused(error) => ("refused", Some(error)),
        Outcome::Unanswered => ("unanswered", None),
    };
    let reason = match report {
        Report::Finish => None,
        Report::Bury { reason } | Report::Release { reason, .. } => Some(reason),
    };
    let (took, error) = (took.map(|took| took.as_millis() as f64 / 1_000.0), error.map(Error::to_string));
    let fields = json!({ "outcome": outcome, "took": took, "reason": reason, "error": error });
    Entry { job: Some(job), event: report.name(), text, fields }
}

/// When a job that was given back runs again.
fn next(job: &Job) -> Option<String> {
    match job.state.as_str() {
        "dead" => Some(format!("dead after {} of {} attempts", job.attempts, job.max_attempts)),
        "ready" => Some("again now".to_owned()),
        "delayed" => {
            // The moment of the release by the server's own clock.
            let attempt = job.history.last().filter(|entry| entry.kind == "attempt")?;
            let released = attempt.at.checked_add(attempt.took?).ok()?;
            let wait = Duration::try_from(job.due_at.duration_since(released)).unwrap_or_default();
            Some(format!("again in {}", span(wait)))
        }
        _ => None,
    }
}

/// `2 ms`, `1.5 s`, `25 s`, `1 h 30 min`.
fn span(time: Duration) -> String {
    let ms = time.as_millis();
    let (seconds, minutes, hours) = ((ms + 500) / 1_000, (ms + 30_000) / 60_000, ms / 3_600_000);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..10_000 if ms % 1_000 >= 50 => format!("{:.1} s", time.as_secs_f64()),
        1_000..60_000 => format!("{seconds} s"),
        60_000..3_600_000 if seconds % 60 != 0 => format!("{} min {} s", seconds / 60, seconds % 60),
        60_000..3_600_000 => format!("{minutes} min"),
        _ if minutes % 60 != 0 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_the_units_that_matter() {
        for (ms, text) in [
            (2, "2 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (1_500, "1.5 s"),
            (15_002, "15 s"),
            (60_000, "1 min"),
            (90_000, "1 min 30 s"),
            (3_600_000, "1 h"),
            (5_400_000, "1 h 30 min"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn a_release_says_why_and_when_the_job_runs_again() {
        let job = r#"{"id":"a","topic":"t","state":"delayed","created_at":"2026-11-21T05:40:00.000Z","ttr":60,
            "due_at":"2026-11-21T06:10:18.118Z","attempts":1,"max_attempts":16,"body":null,"history":[{"kind":"attempt",
            "at":"2026-11-21T06:10:03.038Z","n":1,"took":0.080,"ended":"released"}]}"#;
        let released: Job = serde_json::from_str(job).expect("is a job");
        let reserved = r#"{"id":"a","topic":"t","created_at":"2026-11-21T05:40:00.000Z","ttr":60,"attempt":1,
            "due_at":"2026-11-21T06:10:00.000Z","max_attempts":16,"receipt":"9f","late":0.004,
            "reserved_until":"2026-11-21T06:11:00.004Z","body":null}"#;
        let job: ReservedJob = serde_json::from_str(reserved).expect("is a reserved job");
        let report = Report::Release { delay: None, reason: "exit 1: psp: timeout".to_owned() };
        let outcome = Outcome::Accepted(Some(Box::new(released)));
        let found = ended(&job, &report, &outcome, Some(Duration::from_millis(80)));
        assert_eq!(found.text, "exit 1 after 80 ms, again in 15 s: psp: timeout");
        let found = ended(&job, &Report::Finish, &Outcome::Accepted(None), Some(Duration::from_millis(80)));
        assert_eq!((found.event, found.text.as_str()), ("finish", "after 80 ms"));
    }
}
