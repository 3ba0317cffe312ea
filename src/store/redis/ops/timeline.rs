//! Delayed jobs by due time, and jobs by state, over all shards. Those of a topic are read from the counts that the
//! scripts keep by minute and hour; those of all topics from the index of delayed jobs.

use fred::types::Key;
use futures_util::future::try_join_all;

use super::topics::TopicReader;
use crate::{
    job::{State, Topic},
    store::{
        Minute, Result, Span, Timeline, Totals,
        redis::{
            connection::call::ScriptCall,
            coordination::shards::Shards,
            keys::{Shard, ShardKeys},
            reply::Reply,
            scripts::Script,
        },
    },
};

/// Most counts that one run of a script reads: it then takes less than a millisecond.
const MAX_READS: usize = 1_000;

const MINUTES_PER_HOUR: u32 = 60;

/// Counts of the timeline that belong to one step of the span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    step: usize,
    /// `m` or `h`.
    unit: &'static str,
    first: u32,
    count: u32,
}

/// The timeline of a topic, whose other counts `topics` reads, or of all topics.
pub async fn read(
    shards: &Shards,
    topics: &TopicReader,
    topic: Option<&Topic>,
    span: &Span,
) -> Result<Timeline> {
    let (counts, totals) = match topic {
        Some(topic) => {
            let stats = topics.get(topic).await?.unwrap_or_default();
            (count(shards, topic, span).await?, stats.totals())
        }
        None => (count_all(shards, span).await?, totals(shards).await?),
    };
    Ok(Timeline { counts, totals })
}

/// The delayed jobs of a topic in each step.
async fn count(shards: &Shards, topic: &Topic, span: &Span) -> Result<Vec<u64>> {
    let groups = shards.groups();
    let mut counts = vec![0; span.steps()];
    for group in try_join_all(groups.iter().map(|group| count_in(shards, group, topic, span))).await? {
        counts.iter_mut().zip(group).for_each(|(count, more)| *count += more);
    }
    Ok(counts)
}

/// The delayed jobs of a topic in each step, in a group of shards. One run of the script after the other, so that
/// workers' calls come in between: ten years take hundreds.
async fn count_in(shards: &Shards, group: &[Shard], topic: &Topic, span: &Span) -> Result<Vec<u64>> {
    let mut counts = vec![0; span.steps()];
    for run in split(counts_of(span), MAX_READS / group.len()) {
        for (step, count) in count_parts(shards, group, topic, run).await? {
            counts[step] += count;
        }
    }
    Ok(counts)
}

async fn count_parts(
    shards: &Shards,
    group: &[Shard],
    topic: &Topic,
    run: Vec<Part>,
) -> Result<Vec<(usize, u64)>> {
    let keys = keys(shards, group, |keys| [&keys.timeline]);
    let call = shards.read(Script::Timeline, group, keys).arg(topic.as_str());
    let add = |call: ScriptCall, part: &Part| {
        call.arg(part.unit).arg(i64::from(part.first)).arg(i64::from(part.count))
    };
    let mut reply = Reply::new(shards.call(run.iter().fold(call, add)).await?)?;
    run.iter().map(|part| Ok((part.step, reply.count()?))).collect()
}

/// The delayed jobs of all topics in each step.
async fn count_all(shards: &Shards, span: &Span) -> Result<Vec<u64>> {
    let steps: Vec<(Minute, Minute)> = span.step_bounds().collect();
    let groups = shards.groups();
    let mut counts = Vec::with_capacity(steps.len());
    for steps in steps.chunks(MAX_READS / groups.iter().map(Vec::len).max().unwrap_or(1)) {
        let runs = groups.iter().map(|group| count_due(shards, group, steps));
        let runs = try_join_all(runs).await?;
        counts.extend((0..steps.len()).map(|step| runs.iter().map(|run| run[step]).sum::<u64>()));
    }
    Ok(counts)
}

async fn count_due(shards: &Shards, group: &[Shard], steps: &[(Minute, Minute)]) -> Result<Vec<u64>> {
    let keys = keys(shards, group, |keys| [keys.index(State::Delayed)]);
    let call = shards.read(Script::CountDue, group, keys);
    let add = |call: ScriptCall, (from, to): &(Minute, Minute)| {
        call.arg(from.start().as_millis()).arg(to.start().as_millis())
    };
    let mut reply = Reply::new(shards.call(steps.iter().fold(call, add)).await?)?;
    steps.iter().map(|_| reply.count()).collect()
}

/// The jobs of all topics by state.
async fn totals(shards: &Shards) -> Result<Totals> {
    let mut totals = Totals::default();
    for part in try_join_all(shards.groups().into_iter().map(|group| totals_of(shards, group))).await? {
        totals += part;
    }
    Ok(totals)
}

async fn totals_of(shards: &Shards, group: Vec<Shard>) -> Result<Totals> {
    let keys = keys(shards, &group, |keys| {
        let [delayed, reserved, dead] =
            [State::Delayed, State::Reserved, State::Dead].map(|state| keys.index(state));
        [&keys.jobs, delayed, reserved, dead]
    });
    let mut reply = Reply::new(shards.call(shards.read(Script::Totals, &group, keys)).await?)?;
    let mut totals = Totals::default();
    for state in State::ALL {
        *totals.count_mut(state) = reply.count()?;
    }
    Ok(totals)
}

/// Some keys of each shard.
fn keys<const N: usize>(shards: &Shards, group: &[Shard], of: impl Fn(&ShardKeys) -> [&Key; N]) -> Vec<Key> {
    group.iter().flat_map(|shard| of(shards.keys.shard(*shard)).map(Clone::clone)).collect()
}

/// The counts that make up each step: whole hours where there are any, else minutes.
fn counts_of(span: &Span) -> impl Iterator<Item = Part> {
    span.step_bounds().enumerate().flat_map(|(step, (Minute(from), Minute(to)))| {
        let part =
            move |unit, first: u32, end: u32| Part { step, unit, first, count: end.saturating_sub(first) };
        let (first_hour, end_hour) = (from.div_ceil(MINUTES_PER_HOUR), to / MINUTES_PER_HOUR);
        let all = if first_hour < end_hour {
            [
                part("m", from, first_hour * MINUTES_PER_HOUR),
                part("h", first_hour, end_hour),
                part("m", end_hour * MINUTES_PER_HOUR, to),
            ]
        } else {
            [part("m", from, to), part("m", to, to), part("m", to, to)]
        };
        all.into_iter().filter(|part| part.count > 0)
    })
}

/// Splits the parts into runs of at most `most` counts each.
fn split(parts: impl Iterator<Item = Part>, most: usize) -> Vec<Vec<Part>> {
    let most = u32::try_from(most.max(1)).expect("is small");
    let (mut runs, mut left) = (Vec::<Vec<Part>>::new(), 0);
    for mut part in parts {
        while part.count > 0 {
            if left == 0 {
                runs.push(Vec::new());
                left = most;
            }
            let now = Part { count: part.count.min(left), ..part };
            runs.last_mut().expect("a run was pushed").push(now);
            (part.first, part.count, left) =
                (part.first + now.count, part.count - now.count, left - now.count);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(part: &Part) -> std::ops::Range<u32> {
        let unit = if part.unit == "h" { MINUTES_PER_HOUR } else { 1 };
        part.first * unit..(part.first + part.count) * unit
    }

    #[test]
    fn the_parts_of_a_span_cover_it_in_order() {
        for (from, step, steps) in [(0, 1, 400), (7, 13, 50), (59, 60, 9), (60, 60, 9), (119, 1_440, 30)] {
            let span = Span::new(Minute(from), step, steps).expect("is short");
            for most in [1, 7, 1_000] {
                let runs = split(counts_of(&span), most);
                assert!(
                    runs.iter().all(|run| run.iter().map(|part| part.count as usize).sum::<usize>() <= most)
                );
                let mut at = from;
                for part in runs.iter().flatten() {
                    let covered = minutes(part);
                    assert_eq!(covered.start, at, "{part:?}");
                    let step_of = |minute: u32| (minute - from) / step;
                    assert_eq!(step_of(covered.start) as usize, part.step);
                    assert_eq!(step_of(covered.end - 1) as usize, part.step);
                    at = covered.end;
                }
                assert_eq!(at, from + step * steps);
            }
        }
    }

    #[test]
    fn ten_years_are_read_by_the_hour() {
        let span = Span::new(Minute(61), 60 * 24 * 30, 120).expect("is eleven years at most");
        let minutes: u32 = counts_of(&span).filter(|part| part.unit == "m").map(|part| part.count).sum();
        assert_eq!(minutes, 120 * 60);
    }
}
