//! `linger timeline`: the delayed jobs by due time, drawn as bars.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use linger_client::{Request, Timeline, TimelineRequest, Timestamp};
use serde::Deserialize;

use super::{
    exit::{Exit, Failure},
    session::{ReadArgs, Session},
    terminal,
    text::{Wording, grouped, span},
};
use crate::job::parse_duration;

/// Minutes of a step when none is given: the first that makes few enough steps, or the last.
const STEPS: [u64; 10] = [1, 5, 15, 60, 180, 360, 720, 1_440, 10_080, 40_320];
/// Most steps, of which a day by the hour are 25, where there is no terminal to be filled or it is tall.
const MOST_STEPS: u64 = 31;
/// Lines of a terminal beside the steps: the command, two lines above, the step that has begun, and the next prompt.
const OTHER_LINES: u64 = 5;
/// The server accepts no longer span.
const LONGEST_SPAN: Duration = Duration::from_secs(11 * 366 * 86_400);
/// Steps without a job have a line each, up to this many in a row; more share one.
const MOST_EMPTY_LINES: usize = 2;

/// Arguments of `linger timeline`.
#[derive(Debug, Args)]
pub(super) struct TimelineArgs {
    /// Name of the topic [default: all of them, or the only one of the token]
    topic: Option<String>,
    /// How far to look ahead, from a minute to 11 years
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_duration)]
    span: Duration,
    /// How long each step is, in whole minutes, from now [default: by the span and the terminal, at round times]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    step: Option<Duration>,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs `linger timeline`.
pub(super) fn run(TimelineArgs { topic, span, step, read }: &TimelineArgs) -> ExitCode {
    read.run("timeline", async |session| {
        let wording = session.wording();
        let (topic, response) = match session.call(&request(topic.as_deref(), *span, *step, &wording)).await {
            Ok(response) => (topic.clone(), response),
            Err(failure) if failure.exit == Exit::NotAllowed && topic.is_none() => {
                let Some(only) = only_topic(session).await? else { return Err(failure) };
                let response = session.call(&request(Some(&only), *span, *step, &wording)).await?;
                (Some(only), response)
            }
            Err(failure) => return Err(failure),
        };
        let topic = topic.as_deref();
        if let Some(topic) = topic
            && is_empty(&session.read(&response)?)
        {
            // The timeline of a topic that does not exist is empty; this call fails for it.
            session.call(&Request::topic(topic)).await?;
        }
        session
            .print(&response, |timeline: Timeline| draw(topic, &timeline, &wording, terminal::columns()))?;
        Ok(Exit::Done)
    })
}

/// Without a step, steps begin at round times of the clock, and the first is the one that has begun.
fn request(topic: Option<&str>, span: Duration, step: Option<Duration>, wording: &Wording) -> Request {
    let default = default_step(span, most_steps());
    let from = step.is_none().then(|| beginning_of_step(wording, default));
    let begun = from.map_or(Duration::ZERO, |from| wording.time_since(from));
    let step = Some(step.unwrap_or(default));
    let span = span.saturating_add(begun).min(span.max(LONGEST_SPAN));
    Request::timeline(&TimelineRequest { topic, from, span, step })
}

/// When the present step of this length began, of steps that begin with the day by the clock of this machine. Steps of a day or
/// more begin with this day.
fn beginning_of_step(wording: &Wording, step: Duration) -> Timestamp {
    let midnight = wording.midnight();
    let steps = wording.time_since(midnight).as_secs() / step.as_secs().max(1);
    let since = u32::try_from(steps).ok().and_then(|steps| step.checked_mul(steps));
    since.and_then(|since| midnight.checked_add(since).ok()).unwrap_or(midnight)
}

/// The topic of a token that is for this one only.
async fn only_topic(session: &Session) -> Result<Option<String>, Failure> {
    #[derive(Deserialize)]
    struct Rights {
        topics: Option<Vec<String>>,
    }
    let Rights { topics } = session.read(&session.call(&Request::whoami()).await?)?;
    let only = topics.and_then(|topics| <[String; 1]>::try_from(topics).ok());
    Ok(only.map(|[topic]| topic).filter(|topic| !topic.ends_with('*')))
}

/// How many steps fit into the terminal.
fn most_steps() -> u64 {
    let fitting = |(_, rows): (u16, u16)| u64::from(rows).saturating_sub(OTHER_LINES).min(MOST_STEPS);
    terminal::size().map_or(MOST_STEPS, fitting)
}

fn default_step(span: Duration, most: u64) -> Duration {
    let minutes = span.as_secs().div_ceil(60);
    let fitting = STEPS.into_iter().find(|step| minutes.div_ceil(*step) <= most);
    Duration::from_secs(60 * fitting.unwrap_or(STEPS[STEPS.len() - 1]))
}

fn is_empty(timeline: &Timeline) -> bool {
    [delayed(timeline), timeline.ready, timeline.reserved] == [0; 3]
}

fn delayed(timeline: &Timeline) -> u64 {
    timeline.counts.iter().fold(timeline.outside, |all, count| all.saturating_add(*count))
}

/// A timeline as lines. Bars keep a line within `columns`; figures alone may exceed it.
fn draw(topic: Option<&str>, timeline: &Timeline, wording: &Wording, columns: usize) -> String {
    let mut lines = vec![
        format!(
            "{}: {} delayed, {} of them outside of this span; {} ready, {} reserved",
            topic.unwrap_or("all topics"),
            grouped(delayed(timeline)),
            grouped(timeline.outside),
            grouped(timeline.ready),
            grouped(timeline.reserved)
        ),
        format!("steps of {}, as of {}", span(timeline.step), wording.moment(timeline.now)),
    ];
    let counts = &timeline.counts;
    let most = counts.iter().copied().max().unwrap_or(0);
    let digits = grouped(most).len();
    let moments: Vec<String> = (0..counts.len()).map(|at| wording.minute(beginning(timeline, at))).collect();
    let width = moments.iter().map(String::len).max().unwrap_or(0);
    let room = columns.saturating_sub(width + digits + 4);
    let mut at = 0;
    while at < counts.len() {
        let empty = counts[at..].iter().take_while(|count| **count == 0).count();
        if empty > MOST_EMPTY_LINES {
            lines.push(format!("{:width$}  {:>digits$}  {empty} steps", moments[at], 0));
            at += empty;
            continue;
        }
        let (moment, count) = (&moments[at], counts[at]);
        let line =
            format!("{moment:width$}  {:>digits$}  {}", grouped(count), "#".repeat(bar(count, most, room)));
        lines.push(line.trim_end().to_owned());
        at += 1;
    }
    lines.join("\n")
}

/// The length of a bar: in proportion, but never nothing for a job.
fn bar(count: u64, most: u64, room: usize) -> usize {
    if count == 0 {
        return 0;
    }
    let length = u128::from(count) * room as u128 / u128::from(most);
    usize::try_from(length).map_or(room, |length| length.clamp(1.min(room), room))
}

/// When a step begins.
fn beginning(timeline: &Timeline, step: usize) -> Timestamp {
    let since = u32::try_from(step).ok().and_then(|step| timeline.step.checked_mul(step));
    let begins = since.and_then(|since| timeline.from.checked_add(since).ok());
    begins.unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn timeline(counts: &[u64]) -> Timeline {
        Timeline {
            now: "2026-11-22T06:10:05.250Z".parse().expect("is a moment"),
            from: "2026-11-22T06:10:00Z".parse().expect("is a moment"),
            step: Duration::from_secs(3_600),
            counts: counts.to_vec(),
            outside: 9_041,
            ready: 17,
            reserved: 4,
        }
    }

    #[track_caller]
    fn assert_drawn(topic: Option<&str>, counts: &[u64], columns: usize, lines: &[&str]) {
        let zone = TimeZone::fixed(jiff::tz::offset(8));
        let timeline = timeline(counts);
        let drawn = draw(topic, &timeline, &Wording::in_zone(timeline.now, zone), columns);
        assert_eq!(drawn.lines().collect::<Vec<_>>(), lines);
        let wide = drawn.lines().skip(2).find(|line| line.len() > columns.max(36));
        assert_eq!(wide, None);
    }

    #[test]
    fn bars_are_in_proportion_and_fill_the_line() {
        let lines = [
            "mail: 9,245 delayed, 9,041 of them outside of this span; 17 ready, 4 reserved",
            "steps of 1h, as of 14:10:05",
            "2026-11-22 14:10  120  ##################",
            "2026-11-22 15:10   80  ############",
            "2026-11-22 16:10    0",
            "2026-11-22 17:10    4  #",
        ];
        assert_drawn(Some("mail"), &[120, 80, 0, 4], 41, &lines);
    }

    #[test]
    fn a_job_beside_a_million_has_a_bar_and_long_empty_stretches_share_a_line() {
        let lines = [
            "all topics: 1,009,042 delayed, 9,041 of them outside of this span; 17 ready, 4 reserved",
            "steps of 1h, as of 14:10:05",
            "2026-11-22 14:10          0",
            "2026-11-22 15:10          0",
            "2026-11-22 16:10  1,000,000  ###################################################",
            "2026-11-22 17:10          0  20 steps",
            "2026-11-23 13:10          1  #",
            "2026-11-23 14:10          0  3 steps",
        ];
        let counts = [&[0, 0, 1_000_000][..], &[0; 20], &[1], &[0; 3]].concat();
        assert_drawn(None, &counts, 80, &lines);
    }

    #[test]
    fn nothing_due_is_one_line() {
        let lines = [
            "all topics: 9,041 delayed, 9,041 of them outside of this span; 17 ready, 4 reserved",
            "steps of 1h, as of 14:10:05",
            "2026-11-22 14:10  0  24 steps",
        ];
        assert_drawn(None, &[0; 24], 80, &lines);
    }

    #[test]
    fn a_narrow_terminal_has_short_bars_or_none() {
        let counts = [9_876_543_210, 1_234_567_890];
        let lines = [
            "all topics: 11,111,120,141 delayed, 9,041 of them outside of this span; 17 ready, 4 reserved",
            "steps of 1h, as of 14:10:05",
            "2026-11-22 14:10  9,876,543,210  #######",
            "2026-11-22 15:10  1,234,567,890  #",
        ];
        assert_drawn(None, &counts, 40, &lines);
        let lines =
            [lines[0], lines[1], "2026-11-22 14:10  9,876,543,210", "2026-11-22 15:10  1,234,567,890"];
        assert_drawn(None, &counts, 20, &lines);
    }

    #[test]
    fn steps_begin_with_the_day_of_the_machine() {
        let wording = |now: &str| {
            let zone = TimeZone::fixed(jiff::tz::offset(2));
            Wording::in_zone(now.parse().expect("is a moment"), zone)
        };
        for (step_minutes, beginning) in [
            (1, "2026-11-22T06:10:00Z"),
            (60, "2026-11-22T06:00:00Z"),
            (180, "2026-11-22T04:00:00Z"),
            (1_440, "2026-11-21T22:00:00Z"),
            (40_320, "2026-11-21T22:00:00Z"),
        ] {
            let step = Duration::from_secs(60 * step_minutes);
            let began = beginning_of_step(&wording("2026-11-22T06:10:05.250Z"), step);
            assert_eq!(began.to_string(), beginning, "{step_minutes} minutes");
        }
        let midnight = "2026-11-21T22:00:00Z";
        assert_eq!(beginning_of_step(&wording(midnight), Duration::from_secs(60)).to_string(), midnight);
    }

    #[test]
    fn a_step_makes_few_lines_of_any_span() {
        for (span, step) in [
            ("1m", "1m"),
            ("31m", "1m"),
            ("1h", "5m"),
            ("24h", "1h"),
            ("7d", "6h"),
            ("31d", "1d"),
            ("365d", "28d"),
            ("4026d", "28d"),
        ] {
            let [span, step] = [span, step].map(|text| parse_duration(text).expect("is a duration"));
            assert_eq!(default_step(span, MOST_STEPS), step, "{span:?}");
        }
        // A terminal of 24 lines.
        assert_eq!(
            default_step(parse_duration("24h").expect("is a duration"), 19),
            Duration::from_secs(3 * 3_600)
        );
        assert_eq!(default_step(Duration::from_secs(3_600), 0), Duration::from_secs(60 * STEPS[9]));
    }
}
