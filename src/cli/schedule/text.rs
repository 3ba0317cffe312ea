//! How schedules look as text. Moments of runs are in UTC and in the time zone of this machine; the zone of a schedule may be a
//! third one.

use std::time::Duration;

use jiff::SignedDuration;
use linger_client::{ClockChange, Schedule, Timestamp};
use serde::Deserialize;

use super::super::text::{Wording, span};
use crate::messages::printable::escape_line;

/// Where the values of [`details`] begin.
const VALUES: usize = 17;

/// The columns of [`row`].
pub(super) const HEADING: [&str; 5] = ["NAME", "STATE", "NEXT", "TOPIC", "WHEN"];

/// A schedule as a row of the list.
pub(super) fn row(wording: &Wording, schedule: &Schedule) -> Vec<String> {
    let next = next_run(schedule).map_or(String::new(), |next| wording.distance(next));
    let Schedule { name, state, .. } = schedule;
    vec![name.clone(), state.clone(), next, topic(schedule), rule(schedule)]
}

/// A schedule in a line: `daily  active  next in 3h (09:30:00)`.
pub(super) fn line(wording: &Wording, schedule: &Schedule) -> String {
    let next = next_run(schedule).map(|next| format!("next {}", wording.relative(next)));
    let waiting = schedule.waiting.as_ref().map(|waiting| {
        let reason = escape_line(&waiting.reason).replace('_', " ");
        format!("since {}: {reason}", wording.moment(waiting.since))
    });
    let parts = [Some(schedule.name.clone()), Some(schedule.state.clone()), waiting.or(next)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// A schedule with everything that is known of it.
pub(super) fn details(wording: &Wording, schedule: &Schedule) -> String {
    let mut lines = vec![line(wording, schedule)];
    let width = VALUES - 2;
    let mut row = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("  {name:<width$}{value}")));
    };
    row("cron", schedule.cron.clone());
    row("time-zone", schedule.time_zone.clone());
    row("every", schedule.every.map(exact));
    row("start", schedule.start.map(|start| wording.moment(start)));
    row("end", schedule.end.map(|end| wording.moment(end)));
    row("jitter", schedule.jitter.map(exact));
    row("overlap", Some(schedule.overlap.clone()));
    row("missed", Some(schedule.missed.clone()));
    row("missed-within", schedule.missed_within.map(exact));
    for next in &schedule.next {
        row("next", Some(run(wording, *next)));
    }
    row("last", schedule.last.map(|last| run(wording, last)));
    row("last-job", schedule.last_job.clone());
    let runs = schedule.runs;
    let counts = format!("{} fired, {} overlapped, {} missed", runs.fired, runs.overlap, runs.missed);
    row("runs", Some(counts));
    row("revision", Some(schedule.revision.to_string()));
    // Line breaks between the values of the job stay, but none begins a row.
    row("job", Some(schedule.job.get().replace('\n', &format!("\n{:VALUES$}", ""))));
    lines.join("\n")
}

/// Moments of runs, one in a line, and the changes of clocks that meet runs.
pub(super) fn runs(wording: &Wording, moments: &[Timestamp], changes: &[ClockChange]) -> String {
    if moments.is_empty() {
        return "no run follows".to_owned();
    }
    let runs = moments.iter().map(|moment| run(wording, *moment));
    runs.chain(changes.iter().map(clock_change)).collect::<Vec<_>>().join("\n")
}

/// `clocks skip 2027-03-28 02:30:00: that run is at 2027-03-28T01:00:00Z`.
fn clock_change(ClockChange { at, time, effect }: &ClockChange) -> String {
    let verb = match effect.as_str() {
        "skipped" => "skip",
        "repeated" => "repeat",
        other => other,
    };
    format!("clocks {} {} {}: that run is at {at}", escape_line(verb), time.date(), time.time())
}

/// `2026-11-26T08:30:00Z  in 3h (09:30:00)`.
fn run(wording: &Wording, moment: Timestamp) -> String {
    format!("{moment}  {}", wording.relative(moment))
}

/// The next run; none of a schedule that is paused.
fn next_run(schedule: &Schedule) -> Option<Timestamp> {
    schedule.next.first().copied().filter(|_| schedule.state != "paused")
}

/// The rule: `30 9 * * MON-FRI  Europe/Berlin`, or `every 15m`.
fn rule(schedule: &Schedule) -> String {
    let zone = schedule.time_zone.as_deref().unwrap_or_default();
    match (&schedule.cron, schedule.every) {
        (Some(cron), _) => format!("{cron}  {zone}"),
        (None, Some(every)) => format!("every {}", exact(every)),
        (None, None) => String::new(),
    }
}

fn topic(schedule: &Schedule) -> String {
    #[derive(Deserialize)]
    struct JobOfRun {
        topic: String,
    }
    serde_json::from_str::<JobOfRun>(schedule.job.get()).map(|job| job.topic).unwrap_or_default()
}

/// A duration with all of its units: `1h1m1s`.
fn exact(duration: Duration) -> String {
    match SignedDuration::try_from(duration) {
        Ok(duration) => format!("{duration:#}").replace(' ', ""),
        Err(_) => span(duration),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn wording() -> Wording {
        let zone = TimeZone::fixed(jiff::tz::offset(8));
        Wording::in_zone("2026-11-26T05:30:00Z".parse().expect("is a moment"), zone)
    }

    fn schedule(more: &str) -> Schedule {
        let text = format!(
            r#"{{"name":"daily","overlap":"skip","missed":"one","job":{{"topic":"report","body":[
1]}},"revision":3,"next":["2026-11-26T08:30:00.000Z","2026-11-27T08:30:00.000Z"],
                "runs":{{"fired":12,"overlap":1,"missed":0}},{more}}}"#
        );
        serde_json::from_str(&text).expect("is a schedule")
    }

    const BY_CLOCK: &str = r#""cron":"30 9 * * MON-FRI","time_zone":"Europe/Berlin""#;

    #[test]
    fn details_have_the_runs_in_utc_and_in_local_time() {
        let text = details(
            &wording(),
            &schedule(&format!(
                r#"{BY_CLOCK},"state":"active","jitter":3661.25,"missed_within":86400,
                    "last":"2026-11-25T08:30:00.000Z","last_job":"cron:daily:20261125T083000Z""#
            )),
        );
        let expected = [
            "daily  active  next in 3h (16:30:00)",
            "  cron           30 9 * * MON-FRI",
            "  time-zone      Europe/Berlin",
            "  jitter         1h1m1s250ms",
            "  overlap        skip",
            "  missed         one",
            "  missed-within  24h",
            "  next           2026-11-26T08:30:00Z  in 3h (16:30:00)",
            "  next           2026-11-27T08:30:00Z  in 1d3h (2026-11-27 16:30:00)",
            "  last           2026-11-25T08:30:00Z  21h ago",
            "  last-job       cron:daily:20261125T083000Z",
            "  runs           12 fired, 1 overlapped, 0 missed",
            "  revision       3",
            r#"  job            {"topic":"report","body":["#,
            "                 1]}",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_schedule_is_worded_by_its_state() {
        for (more, text) in [
            (r#""state":"active""#, "daily  active  next in 3h (16:30:00)"),
            (r#""state":"paused""#, "daily  paused"),
            (
                r#""state":"waiting","waiting":{"since":"2026-11-26T05:29:00.000Z","reason":"store_full\n"}"#,
                r"daily  waiting  since 13:29:00: store full\n",
            ),
        ] {
            assert_eq!(line(&wording(), &schedule(more)), text);
        }
    }

    #[test]
    fn a_row_has_the_rule_and_the_topic() {
        for (more, cells) in [
            (
                format!(r#"{BY_CLOCK},"state":"active""#),
                ["daily", "active", "in 3h", "report", "30 9 * * MON-FRI  Europe/Berlin"],
            ),
            (r#""every":900,"state":"paused""#.to_owned(), ["daily", "paused", "", "report", "every 15m"]),
        ] {
            assert_eq!(row(&wording(), &schedule(&more)), cells);
        }
        assert_eq!(runs(&wording(), &[], &[]), "no run follows");
    }
}
