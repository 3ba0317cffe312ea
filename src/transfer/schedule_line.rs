//! A schedule in an export. Its text is a string, because only `queue` reads it, and it has several lines.

use serde::{Deserialize, Serialize};

use crate::{
    job::{ScheduleName, json::Moment},
    store::{ScheduleContent, StoredSchedule},
};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleLine {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<Moment>,
    text: String,
}

impl ScheduleLine {
    /// The line of a schedule; why there is none.
    pub fn new(schedule: &StoredSchedule) -> Result<Self, String> {
        let StoredSchedule { name, content: ScheduleContent { next, text } } = schedule;
        let text = std::str::from_utf8(text).map_err(|_| "its text is not UTF-8".to_owned())?;
        Ok(Self { name: name.as_str().to_owned(), next: next.map(Moment), text: text.to_owned() })
    }

    /// The schedule in the line; what is wrong with it.
    pub fn into_schedule(self) -> Result<StoredSchedule, String> {
        let name =
            ScheduleName::parse(&self.name).map_err(|error| format!("the name of a schedule {error}"))?;
        let content = ScheduleContent { next: self.next.map(|next| next.0), text: self.text.into() };
        Ok(StoredSchedule { name, content })
    }
}
