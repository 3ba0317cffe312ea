//! Why dead letters died, and when: the newest of one topic or of all, grouped by their reasons.

use std::collections::{HashMap, hash_map::Entry};

use crate::{
    job::{Job, JobId, State, Timestamp, Topic},
    queue::{error::Result, service::Queue},
    store::{JobFilter, Minute, Order, Span},
};

/// How many dead letters are examined for their reasons: the newest.
const MAX_EXAMINED: usize = 10_000;
/// Dead letters read by one call.
const SLICE: usize = 1_000;
/// How many groups of reasons there may be: those of most dead letters.
const MAX_REASONS: usize = 100;
/// Most steps of deaths over time: the minutes of an hour, about.
const MAX_STEPS: u32 = 60;

/// Why the newest dead letters died, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadReasons {
    /// The groups, the largest first.
    pub reasons: Vec<DeadReason>,
    /// When the first step of deaths begins.
    pub from: Minute,
    /// How many minutes a step has. Each begins at a multiple of them, and the last one contains the present.
    pub step: u32,
    /// How many of the examined dead letters died in each step.
    pub deaths: Vec<u64>,
    /// How many dead letters were examined.
    pub examined: usize,
    /// Whether every dead letter is in one of the groups.
    pub is_complete: bool,
}

/// Dead letters of a topic whose reasons differ only in their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadReason {
    /// Their topic.
    pub topic: Topic,
    /// The reason, with `#` in place of each number.
    pub pattern: String,
    /// What all reasons of the group begin with.
    pub prefix: String,
    /// How many they are.
    pub count: u64,
    /// How many of them died in each step.
    pub deaths: Vec<u64>,
    /// When the first of them died.
    pub first_dead_at: Timestamp,
    /// When the last of them died.
    pub last_dead_at: Timestamp,
    /// The one that died last.
    pub last_id: JobId,
}

impl Queue {
    /// Groups the newest dead letters of a topic, or of all topics, by their topics and reasons.
    ///
    /// # Errors
    /// [`Error::Busy`](crate::queue::Error::Busy), or the store's.
    pub async fn dead_reasons(&self, topic: Option<&Topic>) -> Result<DeadReasons> {
        // One for looks: it ends after a bounded number of jobs, each of which counts.
        let _permit = self.read_permits.acquire().await?;
        let filter = JobFilter { topic: topic.cloned(), ..JobFilter::all(State::Dead) };
        let (mut groups, mut after) = (ReasonGroups::default(), None);
        let is_end = loop {
            let page = self.store.list(&filter, Order::Descending, after.as_ref(), SLICE).await?;
            page.jobs.iter().for_each(|listed| groups.add(&listed.job));
            after = page.next;
            if after.is_none() || groups.examined >= MAX_EXAMINED {
                break after.is_none();
            }
        };
        Ok(groups.into_reasons(is_end, self.clock.wall_now()))
    }
}

/// Dead letters that were examined, by topic and pattern.
#[derive(Debug, Default)]
struct ReasonGroups {
    by_pattern: HashMap<(Topic, String), ReasonGroup>,
    examined: usize,
}

/// A group, with the minutes in which its dead letters died.
#[derive(Debug)]
struct ReasonGroup {
    reason: DeadReason,
    minutes: Vec<Minute>,
}

impl ReasonGroups {
    /// Counts a dead letter. The list has the one that died last first.
    fn add(&mut self, job: &Job) {
        let reason = job.reason.as_ref().map_or("", |reason| reason.as_str());
        let dead_at = job.dead_at().unwrap_or(job.due_at);
        let key = (job.topic.clone(), pattern_of(reason));
        match self.by_pattern.entry(key) {
            Entry::Occupied(group) => group.into_mut().add(reason, dead_at),
            Entry::Vacant(place) => {
                let (topic, pattern) = place.key().clone();
                place.insert(ReasonGroup::new(topic, pattern, reason, dead_at, &job.id));
            }
        }
        self.examined += 1;
    }

    fn into_reasons(self, is_end: bool, now: Timestamp) -> DeadReasons {
        let minutes = || self.by_pattern.values().flat_map(|group| &group.minutes).copied();
        let now = Minute::containing(now);
        // A clock that was set back may leave dead letters of the future.
        let last = minutes().fold(now, Minute::max);
        let steps = DeathSteps::covering(minutes().fold(last, Minute::min), last);
        let deaths = steps.count(minutes());
        let with_deaths = |ReasonGroup { mut reason, minutes }: ReasonGroup| {
            reason.deaths = steps.count(minutes.into_iter());
            reason
        };
        let mut groups: Vec<ReasonGroup> = self.by_pattern.into_values().collect();
        groups.sort_by(|ReasonGroup { reason: one, .. }, ReasonGroup { reason: other, .. }| {
            let by_name = || (&one.topic, &one.pattern).cmp(&(&other.topic, &other.pattern));
            other.count.cmp(&one.count).then_with(by_name)
        });
        let is_complete = is_end && groups.len() <= MAX_REASONS;
        groups.truncate(MAX_REASONS);
        let reasons = groups.into_iter().map(with_deaths).collect();
        DeadReasons {
            reasons,
            from: steps.from,
            step: steps.step,
            deaths,
            examined: self.examined,
            is_complete,
        }
    }
}

impl ReasonGroup {
    /// A group of one dead letter.
    fn new(topic: Topic, pattern: String, text: &str, dead_at: Timestamp, id: &JobId) -> Self {
        let reason = DeadReason {
            topic,
            pattern,
            prefix: text.to_owned(),
            count: 1,
            deaths: Vec::new(),
            first_dead_at: dead_at,
            last_dead_at: dead_at,
            last_id: id.clone(),
        };
        Self { reason, minutes: vec![Minute::containing(dead_at)] }
    }

    fn add(&mut self, text: &str, dead_at: Timestamp) {
        let reason = &mut self.reason;
        reason.count += 1;
        reason.first_dead_at = reason.first_dead_at.min(dead_at);
        reason.last_dead_at = reason.last_dead_at.max(dead_at);
        let common = reason.prefix.chars().zip(text.chars()).take_while(|(one, other)| one == other);
        let common_bytes: usize = common.map(|(one, _)| one.len_utf8()).sum();
        reason.prefix.truncate(common_bytes);
        self.minutes.push(Minute::containing(dead_at));
    }
}

/// What the reason of a failed call begins with, in front of the status of HTTP.
const STATUS: &str = "http_";

/// The reason with `#` in place of each run of digits, but for the status of a failed call: another status has another cause.
fn pattern_of(reason: &str) -> String {
    let after = reason.strip_prefix(STATUS).unwrap_or_default();
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let (status, rest) = reason.split_at(if digits == 3 { STATUS.len() + digits } else { 0 });
    let mut pattern = String::with_capacity(reason.len());
    for character in rest.chars() {
        if !character.is_ascii_digit() {
            pattern.push(character);
        } else if !pattern.ends_with('#') {
            pattern.push('#');
        }
    }
    format!("{status}{pattern}")
}

/// Equal steps of time, each of which begins at a multiple of its length. Unlike a [`Span`] they may reach back to any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DeathSteps {
    from: Minute,
    step: u32,
    steps: u32,
}

impl DeathSteps {
    /// The shortest steps from one minute to another that are at most [`MAX_STEPS`].
    fn covering(first: Minute, last: Minute) -> Self {
        let steps = |step: u32| last.0 / step - first.0 / step + 1;
        let longest = Span::STEPS[Span::STEPS.len() - 1];
        let mut choices = Span::STEPS.into_iter().chain((2..).map(|times| times * longest));
        let step = choices.find(|step| steps(*step) <= MAX_STEPS).expect("longer steps are fewer");
        Self { from: Minute(first.0 / step * step), step, steps: steps(step) }
    }

    /// How many of the minutes are in each step.
    fn count(&self, minutes: impl Iterator<Item = Minute>) -> Vec<u64> {
        let mut counts = vec![0; self.steps as usize];
        minutes.for_each(|minute| counts[((minute.0 - self.from.0) / self.step) as usize] += 1);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_differ_in_numbers_have_one_pattern() {
        assert_eq!(pattern_of("order 17 from 10.0.0.7"), "order # from #.#.#.#");
        assert_eq!(pattern_of("no numbers"), "no numbers");
        assert_eq!(
            pattern_of("http_503 from 10.0.0.7"),
            "http_503 from #.#.#.#",
            "a status has a cause of its own"
        );
        assert_eq!(pattern_of("http_503"), "http_503");
        assert_eq!(
            (pattern_of("http_5031"), pattern_of("http_"), pattern_of("")),
            ("http_#".into(), "http_".into(), String::new())
        );
    }

    #[test]
    fn a_group_knows_what_its_reasons_begin_with() {
        let at = Timestamp::from_millis;
        let (topic, id) = (Topic::parse("t").expect("valid"), JobId::parse("job-9").expect("valid"));
        let mut group = ReasonGroup::new(topic, "order # é".to_owned(), "order 503 é", at(9), &id);
        assert_eq!(group.reason.prefix, "order 503 é");
        group.add("order 504 é", at(8));
        group.add("order 52 é", at(6));
        assert_eq!((group.reason.count, group.reason.prefix.as_str()), (3, "order 5"));
        assert_eq!((group.reason.first_dead_at, group.reason.last_dead_at), (at(6), at(9)));
        assert_eq!(group.reason.last_id, id);
        group.add("é", at(10));
        assert_eq!((group.reason.prefix.as_str(), group.reason.last_dead_at), ("", at(10)));
    }

    #[test]
    fn steps_are_as_short_as_their_number_allows_and_begin_at_multiples() {
        let covering = |first, last| {
            let DeathSteps { from, step, steps } = DeathSteps::covering(Minute(first), Minute(last));
            (from.0, step, steps)
        };
        assert_eq!(covering(7, 7), (7, 1, 1));
        assert_eq!(covering(7, 66), (7, 1, 60));
        assert_eq!(covering(7, 67), (5, 5, 13));
        assert_eq!(covering(59, 59 * 60), (0, 60, 60));
        let (from, step, steps) = covering(0, Minute::containing(Timestamp::MAX).0);
        assert_eq!((from, step % (28 * 24 * 60)), (0, 0));
        assert!((55..=MAX_STEPS).contains(&steps), "{steps} steps of {step} minutes");
    }
}
