//! Figures of the whole queue: delayed jobs by due time, totals, and what happened in the last hour.

use std::time::Duration;

use axum::extract::State;

use super::HandlerResult;
use crate::{
    http::{
        access::{self, Authenticated},
        app::App,
        wire::{
            parameters::Query,
            responses,
            stats::{self, StatsDetail},
            values::{self, ParseResult},
        },
    },
    queue::{Minute, Span, TimelineOf},
};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: u32 = 60;
const DAY: u32 = 24 * HOUR;
const MAX_SPAN: u32 = 11 * 366 * DAY;
/// Most steps when none is given, if there are steps that long.
const DEFAULT_STEPS: u32 = 120;

/// `GET /timeline`.
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    mut query: Query,
) -> HandlerResult {
    let topic = query.optional("topic", values::topic_text);
    let by_topic = query.optional("by", by_topic).is_some();
    let from = query.optional("from", values::timestamp_text);
    let span = query.optional("span", span_minutes).unwrap_or(HOUR);
    let step = query.optional("step", |text| step_minutes(text, span)).unwrap_or_else(|| default_step(span));
    if by_topic && topic.is_some() {
        query.refuse_value("by", "shows the topics with most delayed jobs; leave it out or the topic");
    }
    query.finish()?;
    access::check_topics(&caller, topic.as_ref())?;
    let from = Minute::containing(from.unwrap_or_else(|| app.edge.clock.wall_now()));
    let span = Span::new(from, step, span.div_ceil(step)).expect("the parameters are within its limits");
    let of = match topic {
        Some(topic) => TimelineOf::Topic(topic),
        None if by_topic => TimelineOf::ByTopic,
        None => TimelineOf::All,
    };
    let view = app.queue.timeline(of, span).await?;
    Ok(responses::timeline(&view, &span))
}

/// `GET /stats`.
pub async fn stats(State(app): State<App>, mut query: Query) -> HandlerResult {
    let detail = query.optional("by", stats_detail);
    query.finish()?;
    Ok(stats::response(&app.queue.stats().await?, detail))
}

fn by_topic(text: &str) -> ParseResult<()> {
    if text == "topic" { Ok(()) } else { Err("must be \"topic\"".to_owned()) }
}

fn stats_detail(text: &str) -> ParseResult<StatsDetail> {
    match text {
        "topic" => Ok(StatsDetail::ByTopic),
        "minute" => Ok(StatsDetail::ByMinute),
        _ => Err("must be \"topic\" or \"minute\"".to_owned()),
    }
}

/// A span, rounded up to whole minutes.
fn span_minutes(text: &str) -> ParseResult<u32> {
    let minutes = values::duration_text(text)?.as_millis().div_ceil(MINUTE.as_millis());
    let minutes = u32::try_from(minutes).ok().filter(|minutes| (1..=MAX_SPAN).contains(minutes));
    minutes.ok_or_else(|| "must be between a minute and 11 years".to_owned())
}

fn step_minutes(text: &str, span: u32) -> ParseResult<u32> {
    let step = values::duration_text(text)?;
    let minutes = u32::try_from(step.as_secs() / MINUTE.as_secs()).unwrap_or(u32::MAX);
    if step.is_zero() || MINUTE.checked_mul(minutes) != Some(step) {
        return Err("must be whole minutes".to_owned());
    }
    if minutes > MAX_SPAN {
        return Err("must be at most 11 years".to_owned());
    }
    let steps = span.div_ceil(minutes);
    if steps > Span::MAX_STEPS {
        return Err(format!("makes {steps} steps of this span, at most {} are allowed", Span::MAX_STEPS));
    }
    Ok(minutes.min(span))
}

fn default_step(span: u32) -> u32 {
    let fitting = Span::STEPS.into_iter().find(|step| span.div_ceil(*step) <= DEFAULT_STEPS);
    fitting.unwrap_or(Span::STEPS[Span::STEPS.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_span_has_a_step_that_fits() {
        for (span, step) in [(1, 1), (HOUR, 1), (DAY, 15), (7 * DAY, 3 * HOUR), (366 * DAY, 7 * DAY)] {
            assert_eq!(default_step(span), step, "{span} minutes");
        }
        for span in (1..=MAX_SPAN).step_by(977).chain([MAX_SPAN]) {
            // The longest step makes two steps of which the second is hardly needed.
            for step in [default_step(span), span - 1].into_iter().filter(|step| *step > 0) {
                assert!(
                    Span::new(Minute(0), step, span.div_ceil(step)).is_some(),
                    "{span} by {step} minutes"
                );
            }
        }
    }
}
