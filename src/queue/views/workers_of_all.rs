//! What workers do at all processes: how often they poll a topic, when one last took a job, what happened to its jobs.

use super::{cause::LastSign, process_notice::OtherProcess};
use crate::{
    job::{Timestamp, Topic},
    metrics::{EventSummary, EventsByTopic, PollsByTopic, SIGNS_KEPT, SignsByTopic},
};

/// What workers do at all processes.
#[derive(Debug)]
pub(in crate::queue) struct WorkersOfAll {
    pub own_polls: PollsByTopic,
    pub own_signs: SignsByTopic,
    pub own_start: Timestamp,
    pub others: Vec<OtherProcess>,
    /// Whether there can be no process beside these.
    pub are_all: bool,
}

impl WorkersOfAll {
    /// The polls of a topic; `None` if those of some process are not known.
    pub fn polls(&self, topic: &Topic) -> Option<u64> {
        let own = self.own_polls.count(topic.as_str()).filter(|_| self.are_all)?;
        self.others
            .iter()
            .try_fold(own, |sum, other| Some(sum + other.polls.as_ref()?.count(topic.as_str())?))
    }

    /// When a worker last took a job of a topic, or said something of one. A process knows nothing of before its start.
    pub fn last_sign(&self, topic: &Topic, now: Timestamp) -> LastSign {
        let signs = self.others.iter().map(|other| other.signs.as_ref()).chain([Some(&self.own_signs)]);
        let starts = self.others.iter().map(|other| other.view.started_at).chain([self.own_start]);
        let (mut last, mut is_known) = (None, self.are_all);
        for signs in signs {
            let sign = signs.and_then(|signs| signs.topics.get(topic.as_str()).copied());
            is_known &= sign.is_some() || signs.is_some_and(|signs| signs.is_complete);
            last = last.max(sign);
        }
        match last {
            _ if !is_known => LastSign::Unknown,
            Some(at_us) => LastSign::At(Timestamp::from_millis(at_us / 1_000)),
            None if starts.min().is_some_and(|first| now >= first.after(SIGNS_KEPT)) => LastSign::Never,
            None => LastSign::Unknown,
        }
    }

    /// What happened to the jobs of a topic in the last minute at the other processes; `None` if that is not known of some.
    pub fn minute_elsewhere(&self, topic: &Topic) -> Option<EventSummary> {
        let mut sum = self.are_all.then(EventSummary::default)?;
        for EventsByTopic { topics, is_complete } in self.others.iter().map(|other| &other.by_topic) {
            match topics.get(topic.as_str()) {
                Some(minute) => sum.add(minute),
                None if *is_complete => {}
                None => return None,
            }
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc, time::Duration};

    use super::*;
    use crate::{
        metrics::PastHour,
        queue::views::process_notice::{self, ProcessLoad, ProcessView},
        store::Notice,
    };

    fn signs(at_us: Option<i64>, is_complete: bool) -> SignsByTopic {
        let topics = at_us.map(|at_us| (Arc::from("t"), at_us));
        SignsByTopic { topics: topics.into_iter().collect(), is_complete }
    }

    /// Another process, as its notice says.
    fn other(signs: Option<SignsByTopic>) -> OtherProcess {
        let process = OtherProcess {
            view: ProcessView {
                name: "web-1/1".to_owned(),
                version: "0.1.0".to_owned(),
                started_at: Timestamp::from_millis(0),
                seen_at: Timestamp::from_millis(0),
                load: ProcessLoad::default(),
            },
            minute: EventSummary::default(),
            hour: EventSummary::default(),
            by_topic: EventsByTopic { topics: BTreeMap::new(), is_complete: true },
            past: PastHour::new(0),
            polls: Some(PollsByTopic::default()),
            signs,
        };
        let content = process_notice::content(&process).as_bytes().to_vec().into();
        let notice = Notice { id: "1".to_owned(), content, age: Duration::ZERO };
        process_notice::read(&notice, Timestamp::from_millis(0)).expect("is a notice")
    }

    #[test]
    fn the_last_sign_is_the_latest_of_all_processes_that_say_it() {
        let at_moment = |own: SignsByTopic, others: Vec<OtherProcess>, are_all, now_ms| {
            let (own_polls, own_start) = (PollsByTopic::default(), Timestamp::from_millis(0));
            let workers = WorkersOfAll { own_polls, own_signs: own, own_start, others, are_all };
            workers.last_sign(&Topic::parse("t").expect("valid"), Timestamp::from_millis(now_ms))
        };
        let a_day_on = 86_400_000;
        let last = |own, others, are_all| at_moment(own, others, are_all, a_day_on);
        let at = |ms| LastSign::At(Timestamp::from_millis(ms));
        let (early, late) = (signs(Some(5_000), true), signs(Some(9_000), false));
        assert_eq!(last(early.clone(), vec![other(Some(late.clone()))], true), at(9));
        assert_eq!(last(late, vec![other(Some(early.clone()))], true), at(9));
        assert_eq!(last(signs(None, true), vec![other(Some(signs(None, true)))], true), LastSign::Never);
        for others in [vec![other(None)], vec![other(Some(signs(None, false)))]] {
            assert_eq!(last(early.clone(), others, true), LastSign::Unknown, "a later one may be missing");
        }
        assert_eq!(last(early, Vec::new(), false), LastSign::Unknown);
        assert_eq!(
            at_moment(signs(None, true), Vec::new(), true, a_day_on - 1),
            LastSign::Unknown,
            "before the start"
        );
    }
}
