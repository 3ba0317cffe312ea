//! The lines of an export: a header, one line for what is set for each topic, one for each schedule, one for each remembered id,
//! one for each job, and an end.

use serde::{Deserialize, Serialize};

use super::{job_line, remembered_line::RememberedLine, schedule_line::ScheduleLine, topic_line::TopicLine};
use crate::{
    job::{RememberedId, json::JobJson},
    store::{JobRecord, StoredSchedule, TopicRecord},
};

/// How the first line of an export begins.
pub const HEADER: &[u8] = b"{\"linger_export\":";

/// The format that this version writes and reads.
pub const FORMAT: u64 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub struct Header {
    /// The format.
    pub linger_export: u64,
    /// The version of the program.
    pub version: String,
    /// The engine of the store.
    pub engine: String,
    /// When the export began.
    pub at: String,
}

/// The content of the last line.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    pub jobs: u64,
    pub topics: u64,
    /// Left out if there are none, so that versions without schedules read the export.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub schedules: u64,
    /// Remembered ids. Left out if there are none, too.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub remembered: u64,
    /// Of all lines between the header and this one.
    pub sha256: String,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndLine {
    end: End,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobMember<J> {
    job: J,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScheduleMember {
    schedule: ScheduleLine,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RememberedMember {
    remembered: RememberedLine,
}

/// A line behind the header.
pub enum ExportLine {
    Topic(Box<TopicRecord>),
    Schedule(StoredSchedule),
    Remembered(RememberedId),
    Job(Box<JobRecord>),
    End(End),
}

/// The header as a line.
pub fn header(header: &Header) -> Vec<u8> {
    encode(header)
}

/// A topic as a line.
pub fn topic(record: &TopicRecord) -> Vec<u8> {
    encode(&TopicLine::new(record))
}

/// A schedule as a line; why it cannot be one.
pub fn schedule(schedule: &StoredSchedule) -> Result<Vec<u8>, String> {
    Ok(encode(&ScheduleMember { schedule: ScheduleLine::new(schedule)? }))
}

/// A remembered id as a line.
pub fn remembered(remembered: &RememberedId) -> Vec<u8> {
    encode(&RememberedMember { remembered: RememberedLine::new(remembered) })
}

/// A job as a line; why it cannot be one.
pub fn job(record: &JobRecord) -> Result<Vec<u8>, String> {
    Ok(encode(&JobMember { job: job_line::write(record)? }))
}

/// The end as a line.
pub fn end(end: &End) -> Vec<u8> {
    encode(&EndLine { end: end.clone() })
}

fn encode(line: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(line).expect("a line has only texts as names");
    bytes.push(b'\n');
    bytes
}

/// Reads the first line; why it is none.
pub fn parse_header(line: &[u8]) -> Result<Header, String> {
    let header: Header =
        serde_json::from_slice(line).map_err(|_| "it is not an export of Linger".to_owned())?;
    match header.linger_export {
        FORMAT => Ok(header),
        other => Err(format!(
            "it has export format {other}, of Linger {}; this version reads format {FORMAT} only",
            header.version
        )),
    }
}

/// Reads a line behind the header; why it is none.
pub fn parse(line: &[u8]) -> Result<ExportLine, String> {
    let fault = |error: serde_json::Error| error.to_string();
    if line.starts_with(b"{\"job\":") {
        let JobMember::<JobJson> { job } = serde_json::from_slice(line).map_err(fault)?;
        return job_line::read(job).map(|record| ExportLine::Job(Box::new(record)));
    }
    if line.starts_with(b"{\"topic\":") {
        let topic: TopicLine = serde_json::from_slice(line).map_err(fault)?;
        return topic.into_record().map(|record| ExportLine::Topic(Box::new(record)));
    }
    if line.starts_with(b"{\"schedule\":") {
        let ScheduleMember { schedule } = serde_json::from_slice(line).map_err(fault)?;
        return schedule.into_schedule().map(ExportLine::Schedule);
    }
    if line.starts_with(b"{\"remembered\":") {
        let RememberedMember { remembered } = serde_json::from_slice(line).map_err(fault)?;
        return remembered.into_remembered().map(ExportLine::Remembered);
    }
    let EndLine { end } = serde_json::from_slice(line)
        .map_err(|_| "it is neither a topic, a schedule, a remembered id, a job nor the end".to_owned())?;
    Ok(ExportLine::End(end))
}
