//! The history of a job in JSON.

use serde::{Deserialize, Serialize};

use super::{Moment, Seconds};
use crate::job::{Actor, AttemptEnd, History, HistoryEntry, HistoryEvent, Reason};

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
            HistoryEvent::Rescheduled => plain("rescheduled"),
            HistoryEvent::Replaced => plain("replaced"),
        }
    }

    fn parse(&self) -> Result<HistoryEntry, String> {
        const ENDS: [AttemptEnd; 3] = [AttemptEnd::Released, AttemptEnd::TimedOut, AttemptEnd::Buried];
        let attempt = || {
            let ended = self.ended.as_deref()?;
            Some(HistoryEvent::Attempt {
                number: self.n?,
                took: self.took?.0,
                end: ENDS.into_iter().find(|end| end.as_str() == ended)?,
                reason: self.reason.as_deref().map(Reason::new).unwrap_or_default(),
            })
        };
        let event = match self.kind.as_str() {
            "attempt" => attempt(),
            "requeued" => Some(HistoryEvent::Requeued),
            "rescheduled" => Some(HistoryEvent::Rescheduled),
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
