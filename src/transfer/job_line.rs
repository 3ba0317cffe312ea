//! A job in an export: the JSON form of a job, and what only a store knows of it.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::{
    job::{
        Attributes, Body, Callback, Fingerprint, JobId, Receipt, State, Tag,
        json::{JobJson, decode_other, encode_other},
    },
    store::JobRecord,
};

/// The line of a record; why there is none.
pub fn write(record: &JobRecord) -> Result<JobJson, String> {
    let JobRecord { job, fingerprint, receipt, other } = record;
    let text = std::str::from_utf8(job.body.as_bytes()).map_err(|_| "its body is not UTF-8".to_owned())?;
    let (body, body_text) = if text.contains('\n') {
        (None, Some(text.to_owned()))
    } else {
        let raw = RawValue::from_string(text.to_owned()).map_err(|_| "its body is not JSON".to_owned())?;
        (Some(raw), None)
    };
    let mut line = JobJson::new(job);
    line.receipt = receipt.as_ref().map(ToString::to_string);
    line.fingerprint = Some(fingerprint_text(*fingerprint));
    line.attributes = encode_other(other);
    (line.body, line.body_text) = (body, body_text);
    Ok(line)
}

/// A fingerprint in hexadecimal.
pub fn fingerprint_text(fingerprint: Fingerprint) -> String {
    format!("{:032x}", u128::from_be_bytes(fingerprint.0))
}

/// The record in a line; what is wrong with it.
pub fn read(line: JobJson) -> Result<JobRecord, String> {
    let id = JobId::parse(&line.id).map_err(|error| format!("its id {error}"))?;
    parse(line).map_err(|why| format!("job {id}: {why}"))
}

fn parse(mut line: JobJson) -> Result<JobRecord, String> {
    let text = match (line.body.take(), line.body_text.take()) {
        (Some(body), None) => String::from(Box::<str>::from(body)),
        (None, Some(text)) => text,
        (Some(_), Some(_)) | (None, None) => return Err("it must have one body".to_owned()),
    };
    let receipt = line.receipt.take().as_deref().map(Receipt::parse).transpose();
    let mut record = JobRecord {
        receipt: receipt.map_err(|_| "its receipt is malformed")?,
        fingerprint: parse_fingerprint(line.fingerprint.take().as_deref().unwrap_or_default())?,
        other: decode_other(line.attributes.take().as_deref())?,
        job: line.into_job(Body::parse(Bytes::from(text)).map_err(|error| format!("its body {error}"))?)?,
    };
    // An earlier version exports it as an attribute that it does not know.
    record.job.note = record.job.note.take().or_else(|| record.other.progress_note());
    check(&record).map(|()| record).map_err(str::to_owned)
}

/// Checks what the engines rely on.
fn check(record: &JobRecord) -> Result<(), &'static str> {
    let spec = &record.job.spec;
    if (record.job.state() == State::Reserved) != record.receipt.is_some() {
        return Err("exactly a reserved job has a receipt");
    }
    if JobRecord::known_tags().any(|tag| record.other.get(tag).is_some())
        || record
            .other
            .get(Tag::CALLBACK)
            .is_some_and(|stored| Callback::decode(stored) != spec.callback.as_deref().cloned())
        || record.attributes().trace() != spec.trace
        || record.attributes().progress_note() != record.job.note
        || record.other.as_bytes().len() > Attributes::MAX_BYTES / 4
        || record.attributes().as_bytes().len() > Attributes::MAX_BYTES / 2
    {
        return Err("its attributes are out of range");
    }
    Ok(())
}

pub fn parse_fingerprint(text: &str) -> Result<Fingerprint, String> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let bits = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
    bits.map(|bits| Fingerprint(bits.to_be_bytes())).ok_or_else(|| "its fingerprint is malformed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, JobState, NoteText, ProgressNote, Timestamp};

    #[test]
    fn the_note_in_an_export_of_an_earlier_version_is_read() {
        let at = Timestamp::from_millis(1_790_000_000_000);
        let job = Job::sample(JobState::Delayed, at);
        let note = ProgressNote { at, text: NoteText::new("3 of 7").expect("valid") };
        let mut other = Attributes::default();
        other.set_progress_note(Some(&note));
        // An earlier version keeps the attribute, and does not know what it is.
        let exported = JobRecord { job, fingerprint: Fingerprint([0; 16]), receipt: None, other };
        let record = read(write(&exported).expect("is JSON")).expect("is sound");
        assert_eq!(record.job.note, Some(note.clone()));
        assert_eq!(record.attributes().progress_note(), Some(note));
    }
}
