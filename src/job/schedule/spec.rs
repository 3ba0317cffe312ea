//! What a client asks of a schedule: the content of a PUT, without its name.

use std::time::Duration;

use super::{
    Missed, MissedRule, Overlap, Recurrence, RecurrenceFields, Rule, ScheduleError, jitter, members::Members,
};
use crate::job::{
    ScheduleName, Timestamp, Topic, format_seconds,
    json::{Moment, Seconds},
    time::ceil_millis,
};

/// What a client asks of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleSpec {
    /// When it runs.
    pub recurrence: Recurrence,
    /// Runs are due less than this after their occurrence, in whole milliseconds.
    pub jitter: Duration,
    /// What happens if the previous run is not over.
    pub overlap: Overlap,
    /// Which late runs take place.
    pub missed: MissedRule,
    /// The topic of its jobs, which the template names as well.
    pub topic: Topic,
    /// The job: any field of an add but id, delay and at, as the client's JSON. The domain does not read it.
    pub template: String,
    /// Members of later versions.
    pub(super) other: Members,
}

/// The fields of a PUT. Those that the client left out are `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleFields {
    /// `cron`, `every`, `time_zone`, `start` and `end`.
    pub recurrence: RecurrenceFields,
    /// `jitter`.
    pub jitter: Option<Duration>,
    /// `overlap`.
    pub overlap: Option<Overlap>,
    /// `missed`.
    pub missed: Option<Missed>,
    /// `missed_within`.
    pub missed_within: Option<Duration>,
    /// The topic in `job`.
    pub topic: Topic,
    /// `job`, as JSON.
    pub template: String,
}

impl ScheduleSpec {
    /// Accepts what a client asks. The template is checked where jobs are added.
    ///
    /// # Errors
    /// [`ScheduleError`] with the field at fault.
    pub fn new(fields: &ScheduleFields) -> Result<Self, ScheduleError> {
        let spec = Self::assemble(fields, Members::default())?;
        spec.recurrence.check()?;
        spec.check_jitter()?;
        Ok(spec)
    }

    fn check_jitter(&self) -> Result<(), ScheduleError> {
        if self.jitter.is_zero() {
            return Ok(());
        }
        let longest = self.recurrence.longest_interval();
        if self.jitter > longest {
            let longest = format_seconds(longest);
            let problem = format!("must be at most the time between two runs, {longest} s");
            return Err(ScheduleError::new("jitter", problem));
        }
        Ok(())
    }

    /// Without the checks that depend on the zone database: a schedule that was accepted stays one.
    fn assemble(fields: &ScheduleFields, other: Members) -> Result<Self, ScheduleError> {
        let overlap = fields.overlap.unwrap_or_default();
        Ok(Self {
            recurrence: Recurrence::parse(&fields.recurrence)?,
            jitter: Duration::from_millis(ceil_millis(fields.jitter.unwrap_or_default()).unsigned_abs()),
            overlap,
            missed: MissedRule::new(fields.missed.unwrap_or_default(), fields.missed_within, overlap)?,
            topic: fields.topic.clone(),
            template: fields.template.clone(),
            other,
        })
    }

    /// Whether both ask the same of a schedule. Members of later versions have no say.
    #[must_use]
    pub fn asks_same(&self, other: &Self) -> bool {
        *self == Self { other: self.other.clone(), ..other.clone() }
    }

    /// When the run of an occurrence is due: at the occurrence, or up to the jitter later.
    #[must_use]
    pub fn due_at(&self, name: &ScheduleName, occurrence: Timestamp) -> Timestamp {
        jitter::due_at(name, &self.recurrence, self.jitter, occurrence)
    }

    /// As it is stored: a JSON object.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut members = self.other.clone();
        match self.recurrence.rule() {
            Rule::Cron { pattern, zone } => {
                members.set("cron", Some(pattern.as_str()));
                members.set("time_zone", Some(zone.name()));
            }
            Rule::Every(every) => members.set("every", Some(Seconds(*every))),
        }
        members.set("start", self.recurrence.start().map(Moment));
        members.set("end", self.recurrence.end().map(Moment));
        members.set("jitter", (!self.jitter.is_zero()).then_some(Seconds(self.jitter)));
        members.set("overlap", Some(self.overlap.as_str()));
        members.set("missed", Some(self.missed.missed().as_str()));
        members.set("missed_within", self.missed.within().map(Seconds));
        members.set("topic", Some(self.topic.as_str()));
        members.set("job", Some(&self.template));
        members.encode()
    }

    /// Reads a stored one. Members that this version does not know are kept.
    ///
    /// # Errors
    /// The rest of a sentence about the stored schedule if it is malformed, or uses what this version does not know.
    pub fn decode(text: &str) -> Result<Self, String> {
        let mut members = Members::decode(text)?;
        let recurrence = RecurrenceFields {
            cron: members.remove("cron")?,
            every: members.remove("every")?.map(|Seconds(every)| every),
            time_zone: members.remove("time_zone")?,
            start: members.remove("start")?.map(|Moment(start)| start),
            end: members.remove("end")?.map(|Moment(end)| end),
        };
        let overlap: String = members.require("overlap")?;
        let missed: String = members.require("missed")?;
        let topic: String = members.require("topic")?;
        let unknown = |member: &str| format!("has an unknown {member}");
        let overlap = Overlap::ALL.into_iter().find(|known| known.as_str() == overlap);
        let missed = Missed::ALL.into_iter().find(|known| known.as_str() == missed);
        let fields = ScheduleFields {
            recurrence,
            jitter: members.remove("jitter")?.map(|Seconds(jitter)| jitter),
            overlap: Some(overlap.ok_or_else(|| unknown("overlap"))?),
            missed: Some(missed.ok_or_else(|| unknown("missed"))?),
            missed_within: members.remove("missed_within")?.map(|Seconds(within)| within),
            topic: Topic::parse(&topic).map_err(|error| format!("has a topic that {error}"))?,
            template: members.require("job")?,
        };
        Self::assemble(&fields, members).map_err(|error| format!("has a field at fault: {error}"))
    }
}
