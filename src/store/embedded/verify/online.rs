//! Verification: every record is sound and known to memory exactly once, every entry of memory leads to a
//! record, every count is that of the contents.
//!
//! It goes in steps of which each sees the disk and the memory of one moment, so that a store in use is held
//! up for milliseconds at a time: first the records in slices, then the ids in slices. What only adds up as a
//! whole (counts, reservations, the window) is one last step in memory, about half a second for each million
//! jobs.

use std::path::Path;

use super::verify_sql;
use crate::{
    job::Now,
    store::embedded::{
        memory::state::Memory,
        rows::{
            codec::RecordError,
            key::RowKey,
            records::{Db, SqlResult, Table},
            schema,
        },
    },
};

/// Faults that are named; more are only counted.
pub(crate) const MAX_FAULTS: usize = 100;
/// Records read in one step. Tests cross many ends of slices.
const SLICE: usize = if cfg!(test) { 3 } else { 500 };
/// Bytes of bodies read in one step.
const SLICE_BYTES: usize = 1 << 20;

/// What was found, in sentences.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    named: Vec<String>,
    unnamed: u64,
}

impl Findings {
    pub fn add(&mut self, fault: impl FnOnce() -> String) {
        if self.named.len() < MAX_FAULTS {
            self.named.push(fault());
        } else {
            self.unnamed += 1;
        }
    }

    /// Notes `fault` unless `holds`.
    pub fn check(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.add(fault);
        }
    }

    pub fn into_sentences(mut self) -> Vec<String> {
        if self.unnamed > 0 {
            self.named.push(format!("and {} more", self.unnamed));
        }
        self.named
    }
}

/// Where a verification goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum VerifyStep {
    Rows(Table, RowKey),
    JobIndex(usize),
    Whole,
}

impl VerifyStep {
    pub const FIRST: Self = Self::Rows(Table::Live, RowKey::START);

    /// Does this step; the next one.
    pub fn take(self, memory: &Memory, db: &Db, now: Now, faults: &mut Findings) -> SqlResult<Option<Self>> {
        Ok(match self {
            Self::Rows(table, from) => {
                Some(match (check_rows(memory, db, (table, from), now, faults)?, table) {
                    (Some(last), _) => Self::Rows(table, last.next()),
                    (None, Table::Live) => Self::Rows(Table::Dead, RowKey::START),
                    (None, Table::Dead) => Self::JobIndex(0),
                })
            }
            Self::JobIndex(shard) => {
                Some(check_index(memory, db, shard, faults)?.map_or(Self::Whole, Self::JobIndex))
            }
            Self::Whole => {
                memory.check_whole(db, now, faults)?;
                None
            }
        })
    }
}

/// All steps at once, then SQLite's own check on the same connection.
pub(crate) fn verify_all(memory: &Memory, db: &Db, now: Now, faults: &mut Findings) {
    let mut step = Some(VerifyStep::FIRST);
    while let Some(at) = step {
        step = at.take(memory, db, now, faults).unwrap_or_else(|error| {
            faults.add(|| format!("not everything could be read: {error}"));
            None
        });
    }
    check_integrity(db, faults);
}

/// What SQLite finds wrong with the structure of its file.
pub(crate) fn check_integrity(db: &Db, faults: &mut Findings) {
    match verify_sql::integrity(db.conn(), MAX_FAULTS) {
        Ok(lines) => lines.into_iter().for_each(|line| faults.add(|| line)),
        Err(error) => faults.add(|| format!("SQLite cannot check its file: {error}")),
    }
}

/// What SQLite finds wrong with the structure of the file at `path`, while others use it.
pub(crate) fn check_file(path: &Path) -> Vec<String> {
    let conn = match schema::open_reader(path) {
        Ok(conn) => conn,
        Err(error) => return vec![error.to_string()],
    };
    let differences = schema::differences(&conn).map(|differences| {
        let changed = |difference| format!("the database was changed by another program: {difference}");
        differences.into_iter().map(changed).collect::<Vec<_>>()
    });
    let found = differences
        .and_then(|differences| Ok([differences, verify_sql::integrity(&conn, MAX_FAULTS)?].concat()));
    found.unwrap_or_else(|error| vec![format!("{}: {error}", path.display())])
}

/// Holds a slice of records against memory; the last key when there may be more.
fn check_rows(
    memory: &Memory,
    db: &Db,
    (table, from): (Table, RowKey),
    now: Now,
    faults: &mut Findings,
) -> SqlResult<Option<RowKey>> {
    let (mut seen, mut bytes, mut result) = (0, 0, Ok(()));
    let last = db.records(table, from, |key, record, dead_ms| {
        let checked = match record {
            Ok(record) => {
                bytes += record.body.as_bytes().len();
                memory.check_record(db, (table, key, dead_ms), &record, now, faults)
            }
            Err(why) => db.id_in(table, key).map(|id| {
                let id = id.unwrap_or_default();
                faults.add(|| format!("the record of job {id:?} at {key:?} is broken: {why}"));
            }),
        };
        seen += 1;
        result = checked;
        result.is_ok() && seen < SLICE && bytes < SLICE_BYTES
    })?;
    result.map(|()| last)
}

/// Looks up the records of a few tables of ids; the next table when there is one.
fn check_index(
    memory: &Memory,
    db: &Db,
    mut shard: usize,
    faults: &mut Findings,
) -> SqlResult<Option<usize>> {
    let mut seen = 0;
    while seen < SLICE {
        let Some(entries) = memory.job_index().in_shard(shard) else { return Ok(None) };
        for (hash, at) in entries {
            seen += 1;
            match db.read_head(Table::of(at.dead), at.key)? {
                Ok(head) => {
                    let found = memory.job_index().hash(head.id.as_str().as_bytes());
                    let at = at.key;
                    faults.check(found == hash, || {
                        format!("job {} at {at:?} is known under another id", head.id)
                    });
                }
                // One that cannot be read was named with its row.
                Err(why) => faults.check(why != RecordError::Missing, || {
                    format!("memory knows a job at {:?} that is not on disk", at.key)
                }),
            }
        }
        shard += 1;
    }
    Ok(Some(shard))
}
