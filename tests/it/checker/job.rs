//! The laws of a single job.

use std::time::Duration;

use super::{Act, Event, Law, Rest, Said, Verdict, Violation, rest::Resting};

/// A delivery, with what follows from its receipt.
struct Grant<'a> {
    event: &'a Event,
    receipt: &'a str,
    attempt: u32,
    ttr: Duration,
}

/// Everything known of one life of a job.
struct Story<'a> {
    name: &'a str,
    events: &'a [&'a Event],
    /// In the order of attempts.
    grants: Vec<Grant<'a>>,
    /// Calls that removed it, or may have.
    removals: Vec<&'a Event>,
    max_attempts: u32,
    verdict: &'a mut Verdict,
}

pub fn check(name: &str, events: &[&Event], rest: Option<&Rest>, verdict: &mut Verdict) {
    let mut grants: Vec<Grant<'_>> = events.iter().filter_map(|event| grant(event)).collect();
    grants.sort_by_key(|grant| (grant.attempt, grant.event.answered));
    let removals = events.iter().copied().filter(|event| event.act.removes() && event.possible()).collect();
    let max_attempts = events.iter().find_map(|event| match event.act {
        Act::Add { max_attempts, .. } => Some(max_attempts),
        _ => None,
    });
    verdict.deliveries += grants.len();
    verdict.again += grants.len().saturating_sub(1);
    let mut story =
        Story { name, events, grants, removals, max_attempts: max_attempts.unwrap_or_default(), verdict };
    story.is_delivered_in_turn();
    story.is_never_early();
    story.has_one_holder();
    story.refuses_stale_receipts();
    story.stays_gone();
    story.is_not_lost();
    if let Some(rest) = rest {
        story.rests(rest);
    }
}

fn grant(event: &Event) -> Option<Grant<'_>> {
    match &event.act {
        Act::Deliver { receipt, attempt, ttr } => {
            Some(Grant { event, receipt, attempt: *attempt, ttr: *ttr })
        }
        _ => None,
    }
}

impl Story<'_> {
    fn broken(&mut self, law: Law, words: String) {
        self.verdict.violations.push(Violation { law, job: self.name.to_owned(), words });
    }

    /// The moment from which it is known to have been acknowledged.
    fn acknowledged(&self) -> Option<Duration> {
        let adds = self.events.iter().filter(|event| matches!(event.act, Act::Add { .. }) && event.done());
        adds.map(|event| event.answered).min()
    }

    fn is_delivered_in_turn(&mut self) {
        let mut broken = Vec::new();
        for grant in &self.grants {
            if grant.attempt == 0 || (self.max_attempts > 0 && grant.attempt > self.max_attempts) {
                let (attempt, max) = (grant.attempt, self.max_attempts);
                broken.push(format!("was delivered as attempt {attempt} of {max}"));
            }
        }
        for pair in self.grants.windows(2) {
            let [one, next] = pair else { continue };
            if one.attempt == next.attempt {
                broken.push(format!("was delivered twice as attempt {}", one.attempt));
            } else if next.event.answered < one.event.sent {
                broken.push(format!("had attempt {} before attempt {}", next.attempt, one.attempt));
            }
            if one.receipt == next.receipt {
                broken.push(format!("had one receipt for attempts {} and {}", one.attempt, next.attempt));
            }
        }
        broken.into_iter().for_each(|words| self.broken(Law::Attempts, words));
    }

    fn is_never_early(&mut self) {
        let adds = self.events.iter().filter_map(|event| match event.act {
            Act::Add { delay, .. } => Some(event.sent + delay),
            _ => None,
        });
        let Some(due) = adds.min() else {
            return self.broken(Law::NothingInvented, "was never sent".to_owned());
        };
        let mut broken = Vec::new();
        for (at, grant) in self.grants.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| &self.grants[before]);
            let returns = before.filter(|before| before.attempt + 1 == grant.attempt);
            let due = returns.and_then(|before| self.released_until(before)).unwrap_or(due);
            if grant.event.answered < due {
                let early = due - grant.event.answered;
                broken.push(format!("was delivered {early:?} early, as attempt {}", grant.attempt));
            }
        }
        broken.into_iter().for_each(|words| self.broken(Law::NeverEarly, words));
    }

    /// Until when the release that surely ended this reservation keeps the job back at least.
    fn released_until(&self, grant: &Grant<'_>) -> Option<Duration> {
        self.events.iter().find_map(|event| match &event.act {
            Act::Release { receipt, delay } if receipt == grant.receipt && event.done() => {
                Some(event.sent + *delay)
            }
            _ => None,
        })
    }

    /// Until when this reservation lasts at the least, were it not for `except`: its deadline, or the
    /// sending of a call that may have ended it.
    fn held_until(&self, grant: &Grant<'_>, except: Option<&Event>) -> Duration {
        let mut deadline = grant.event.sent + grant.ttr;
        let mut ended = Duration::MAX;
        for event in self.events {
            let other = except.is_none_or(|except| !std::ptr::eq(*event, except));
            if !other || event.act.shown() != Some(grant.receipt) || !event.possible() {
                continue;
            }
            if let Act::Touch { ttr, .. } = event.act {
                let touched = event.sent + ttr;
                // Of one that nobody knows of, the worse for the holder counts.
                deadline = if event.done() { touched } else { deadline.min(touched) };
            } else if event.act.ends_hold() {
                ended = ended.min(event.sent);
            }
        }
        deadline.min(ended)
    }

    fn has_one_holder(&mut self) {
        let (mut broken, mut held) = (Vec::new(), Duration::ZERO);
        for grant in &self.grants {
            if grant.event.answered < held {
                let left = held - grant.event.answered;
                broken.push(format!("was delivered while another held it for {left:?} more"));
            }
            held = held.max(self.held_until(grant, None));
        }
        for refused in self.events.iter().filter(|event| event.said == Said::Refused) {
            self.verdict.refused += 1;
            let shown = self.grants.iter().find(|grant| refused.act.shown() == Some(grant.receipt));
            let Some(until) = shown.map(|grant| self.held_until(grant, Some(refused))) else { continue };
            if refused.answered < until {
                let left = until - refused.answered;
                broken.push(format!("was taken from its holder {left:?} before its time was over"));
            }
        }
        broken.into_iter().for_each(|words| self.broken(Law::OneHolder, words));
    }

    fn refuses_stale_receipts(&mut self) {
        let mut broken = Vec::new();
        for call in self.events.iter().filter(|event| event.act.shown().is_some() && event.done()) {
            let Some(of) = self.grants.iter().find(|grant| call.act.shown() == Some(grant.receipt)) else {
                broken.push(format!("took a receipt that nobody was given, for {:?}", call.act));
                continue;
            };
            let later = |grant: &&Grant<'_>| grant.attempt > of.attempt && grant.event.answered <= call.sent;
            if let Some(next) = self.grants.iter().find(later) {
                let (stale, present) = (of.attempt, next.attempt);
                broken.push(format!("took the receipt of attempt {stale} after attempt {present} was out"));
            }
            let ended = |event: &&&Event| {
                event.act.ends_hold()
                    && event.act.shown() == call.act.shown()
                    && event.done()
                    && event.answered <= call.sent
                    && event.act != call.act
            };
            if let Some(end) = self.events.iter().find(ended) {
                broken.push(format!("took {:?} after {:?}", call.act, end.act));
            }
        }
        broken.into_iter().for_each(|words| self.broken(Law::StaleReceipt, words));
    }

    fn stays_gone(&mut self) {
        let gone: Vec<&Event> = self.removals.iter().copied().filter(|event| event.done()).collect();
        let Some(first) = gone.iter().min_by_key(|event| event.answered) else { return };
        let mut broken = Vec::new();
        if gone.len() > 1 {
            broken.push(format!("went {} times", gone.len()));
        }
        let receipt = first.act.shown();
        let last = self.grants.iter().find(|grant| receipt == Some(grant.receipt)).map(|grant| grant.attempt);
        for grant in &self.grants {
            if grant.event.sent >= first.answered || last.is_some_and(|last| grant.attempt > last) {
                broken.push(format!("was delivered as attempt {} after it had gone", grant.attempt));
            }
        }
        let late = |event: &&&Event| {
            event.done()
                && event.sent >= first.answered
                && event.act.shown().is_some()
                && !event.act.removes()
        };
        if let Some(event) = self.events.iter().find(late) {
            broken.push(format!("took {:?} after it had gone", event.act));
        }
        broken.into_iter().for_each(|words| self.broken(Law::GoneStaysGone, words));
    }

    fn is_not_lost(&mut self) {
        let Some(acknowledged) = self.acknowledged() else { return };
        self.verdict.acknowledged += 1;
        self.verdict.gone += usize::from(self.removals.iter().any(|event| event.done()));
        let missed = self.events.iter().find(|event| {
            let may_have_gone = || self.removals.iter().any(|removal| removal.sent < event.answered);
            event.said == Said::Gone && event.sent >= acknowledged && !may_have_gone()
        });
        if let Some(missed) = missed {
            self.broken(Law::NothingLost, format!("was not there for {:?}", missed.act));
        }
    }

    fn rests(&mut self, rest: &Rest) {
        let Some(resting) = rest.jobs.get(self.name) else {
            if self.acknowledged().is_some() && self.removals.is_empty() {
                self.broken(Law::NothingLost, "is not there any more".to_owned());
            }
            return;
        };
        if self.removals.iter().any(|event| event.done()) {
            self.broken(Law::GoneStaysGone, format!("is there again: {resting:?}"));
        }
        let buried = |certain: bool| {
            let bury = |event: &&Event| matches!(event.act, Act::Bury { .. });
            self.events
                .iter()
                .any(|event| bury(event) && if certain { event.done() } else { event.possible() })
        };
        let may_be_dead = buried(false) || (self.max_attempts > 0 && resting.attempts >= self.max_attempts);
        let must_be_dead = buried(true) || self.used_up();
        match resting {
            Resting { dead: true, attempts } if !may_be_dead => {
                let max = self.max_attempts;
                self.broken(Law::DeadLetters, format!("is dead after {attempts} attempts of {max}"));
            }
            Resting { dead: false, .. } if must_be_dead => {
                self.broken(Law::DeadLetters, format!("should be dead: {resting:?}"));
            }
            Resting { .. } => {}
        }
        if self.max_attempts > 0 && resting.attempts > self.max_attempts {
            self.broken(Law::Attempts, format!("has {} attempts of {}", resting.attempts, self.max_attempts));
        }
    }

    /// Whether its last attempt was surely given back.
    fn used_up(&self) -> bool {
        let last =
            self.grants.last().filter(|last| self.max_attempts > 0 && last.attempt == self.max_attempts);
        last.is_some_and(|last| self.released_until(last).is_some())
    }
}
