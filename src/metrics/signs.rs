//! When a worker last took a job, or said something of one that it has, by the labels of the topics.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

/// For how long the last sign of the workers of a topic is kept. Some reservations are longer.
pub const KEPT: Duration = Duration::from_micros(KEPT_US.unsigned_abs());
const KEPT_US: i64 = 86_400 * 1_000_000;

/// The moments at which a worker last took, finished, released, buried or touched a job, in microseconds of one clock.
#[derive(Debug, Default)]
pub(super) struct Signs {
    topics: HashMap<Arc<str>, i64>,
    /// Of the topics without a label of their own.
    others: Option<i64>,
}

/// The last signs of workers by topic, in microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignsByTopic {
    /// The topics where that was within a day.
    pub topics: BTreeMap<Arc<str>, i64>,
    /// Whether these are all such topics.
    pub is_complete: bool,
}

impl Signs {
    /// Records a sign of a topic with this label, or of one that has none of its own.
    pub fn record(&mut self, label: Option<&Arc<str>>, now_us: i64) {
        match label {
            None => self.others = Some(now_us),
            Some(label) => match self.topics.get_mut(label) {
                Some(sign) => *sign = now_us,
                None => drop(self.topics.insert(label.clone(), now_us)),
            },
        }
    }

    /// A topic has lost its label.
    pub fn forget(&mut self, label: &str) {
        self.others = self.others.max(self.topics.remove(label));
    }

    pub fn by_topic(&self, now_us: i64) -> SignsByTopic {
        let is_kept = |at_us: i64| now_us - at_us <= KEPT_US;
        let kept = self.topics.iter().filter(|(_, at_us)| is_kept(**at_us));
        let topics = kept.map(|(label, at_us)| (label.clone(), *at_us)).collect();
        SignsByTopic { topics, is_complete: !self.others.is_some_and(is_kept) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sign_is_kept_for_a_day() {
        let (mut signs, label) = (Signs::default(), Arc::<str>::from("mail"));
        let seen = |signs: &Signs, now_us| {
            let SignsByTopic { topics, is_complete } = signs.by_topic(now_us);
            (topics.into_values().collect::<Vec<_>>(), is_complete)
        };
        assert_eq!(seen(&signs, 0), (vec![], true));
        signs.record(Some(&label), 7);
        signs.record(Some(&label), 12);
        assert_eq!(seen(&signs, 12 + KEPT_US), (vec![12], true));
        assert_eq!(seen(&signs, 13 + KEPT_US), (vec![], true));
        signs.forget("mail");
        assert_eq!(seen(&signs, 13), (vec![], false), "it has no label now");
        signs.record(Some(&label), 14 + KEPT_US);
        assert_eq!(seen(&signs, 14 + KEPT_US), (vec![14 + KEPT_US], true), "that of others is over");
    }
}
