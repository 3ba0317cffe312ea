//! The history of a job in JSON.

use serde::{Deserialize, Serialize};

use super::{Moment, Seconds};
use crate::job::{Actor, AttemptEnd, DueChange, History, HistoryEntry, HistoryEvent, Reason};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryJson {
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u32>,
    at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    took: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Moment>,
}

impl EntryJson {
    pub fn new(HistoryEntry { at, by, event }: &HistoryEntry) -> Self {
        let by = by.as_ref().map(|by| by.as_str().to_owned());
        let plain = |kind: &str| Self {
            kind: kind.to_owned(),
            n: None,
            at: Moment(*at),
            took: None,
            ended: None,
            by: by.clone(),
            reason: None,
            from: None,
            to: None,
        };
        match event {
            HistoryEvent::Attempt { number, took, end, reason } => Self {
                n: Some(*number),
                took: Some(Seconds(*took)),
                ended: Some(end.as_str().to_owned()),
                reason: reason.as_ref().map(|reason| reason.as_str().to_owned()),
                ..plain("attempt")
            },
            HistoryEvent::Requeued => plain("requeued"),
            HistoryEvent::Rescheduled(due) => Self {
                from: due.map(|due| Moment(due.from)),
                to: due.map(|due| Moment(due.to)),
                ..plain("rescheduled")
            },
            HistoryEvent::Replaced => plain("replaced"),
        }
    }

    fn parse(&self) -> Result<HistoryEntry, String> {
        let attempt = || {
            Some(HistoryEvent::Attempt {
                number: self.n?,
                took: self.took?.0,
                end: AttemptEnd::parse(self.ended.as_deref()?)?,
                reason: self.reason.as_deref().map(Reason::new).unwrap_or_default(),
            })
        };
        let due_change = || {
            let (from, to) = (self.from.as_ref()?.0, self.to.as_ref()?.0);
            Some(DueChange { from, to })
        };
        let event = match self.kind.as_str() {
            "attempt" => attempt(),
            "requeued" => Some(HistoryEvent::Requeued),
            "rescheduled" => Some(HistoryEvent::Rescheduled(due_change())),
            "replaced" => Some(HistoryEvent::Replaced),
            _ => None,
        };
        let event = event.ok_or("its history is malformed")?;
        Ok(HistoryEntry { at: self.at.0, by: self.by.as_deref().map(parse_actor).transpose()?, event })
    }
}

/// The history of these entries; what is wrong with them.
pub fn parse_history(entries: &[EntryJson]) -> Result<History, String> {
    let mut history = History::default();
    entries.iter().try_for_each(|entry| entry.parse().map(|entry| history.push(&entry)))?;
    Ok(history)
}

/// The name of an actor; what is wrong with it.
pub fn parse_actor(text: &str) -> Result<Actor, String> {
    Actor::parse(text).map_err(|error| format!("the name {text:?} {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::job::Timestamp;

    #[test]
    fn every_entry_reads_back() {
        let moment = Timestamp::from_millis(1_792_000_000_123);
        let attempt = |end| HistoryEvent::Attempt {
            number: 3,
            took: Duration::from_millis(1_500),
            end,
            reason: Reason::new("psp timeout"),
        };
        let ends = [AttemptEnd::Released, AttemptEnd::TimedOut, AttemptEnd::Buried, AttemptEnd::Revoked]
            .map(attempt);
        let change = DueChange { from: moment, to: Timestamp::from_millis(1) };
        let others = [
            HistoryEvent::Requeued,
            HistoryEvent::Rescheduled(None),
            HistoryEvent::Rescheduled(Some(change)),
            HistoryEvent::Replaced,
        ];
        for event in ends.into_iter().chain(others) {
            let entry = HistoryEntry { at: moment, by: Actor::parse("ann").ok(), event };
            let json = serde_json::to_string(&EntryJson::new(&entry)).expect("is JSON");
            let read: EntryJson = serde_json::from_str(&json).expect("reads");
            assert_eq!(read.parse(), Ok(entry), "{json}");
        }
    }
}
