//! Verification of a store in use: every record is sound and is in memory exactly once, every entry of memory has
//! a record, every count is right, every schedule and what is remembered of each id are sound.
//!
//! It runs in steps, each of which sees disk and memory at one moment, so that it delays other operations only for
//! milliseconds at a time: first the records in slices, then the schedules, the remembered ids and the index in
//! slices. Counts and reservations are compared as a whole in one last step, about half a second for each million
//! jobs.

use std::path::Path;

use super::{
    findings::{Findings, MAX_FINDINGS},
    memory_check::{check_record, check_whole},
    verify_sql,
};
use crate::{
    job::Now,
    store::embedded::{
        memory::state::Memory,
        rows::{
            codec::RecordError,
            db::{Db, SqlResult, Table},
            key::RowKey,
            schema,
        },
    },
};

/// Records read in one step. Tests cross many ends of slices.
const SLICE: usize = if cfg!(test) { 3 } else { 500 };
/// Bytes of bodies read in one step.
const SLICE_BYTES: usize = 1 << 20;

/// The next step of a verification.
#[derive(Debug, Clone)]
pub(crate) enum VerifyStep {
    Rows(Table, RowKey),
    /// Behind the schedule with this name.
    Schedules(Vec<u8>),
    /// Behind this remembered id.
    Remembered(Vec<u8>),
    /// Behind this key of the archive.
    Archive(Vec<u8>),
    Index(usize),
    Whole,
}

impl VerifyStep {
    pub const FIRST: Self = Self::Rows(Table::Live, RowKey::START);

    /// Runs this step and adds to `findings`. Returns the next step; none when something could not be read.
    pub fn run_on(
        &self,
        mut findings: Findings,
        memory: &Memory,
        db: &Db,
        now: Now,
    ) -> (Option<Self>, Findings) {
        let next = self.run(memory, db, now, &mut findings).unwrap_or_else(|error| {
            findings.add(|| format!("not everything could be read: {error}"));
            None
        });
        (next, findings)
    }

    /// Runs this step. Returns the next one.
    fn run(&self, memory: &Memory, db: &Db, now: Now, findings: &mut Findings) -> SqlResult<Option<Self>> {
        Ok(match *self {
            Self::Rows(table, from) => {
                Some(match (check_rows(memory, db, (table, from), now, findings)?, table) {
                    (Some(last), _) => Self::Rows(table, last.next()),
                    (None, Table::Live) => Self::Rows(Table::Dead, RowKey::START),
                    (None, Table::Dead) => Self::Schedules(Vec::new()),
                })
            }
            Self::Schedules(ref after) => {
                let remembered = Self::Remembered(Vec::new());
                Some(check_schedules(db, after, findings)?.map_or(remembered, Self::Schedules))
            }
            Self::Remembered(ref after) => {
                let archive = Self::Archive(Vec::new());
                Some(check_remembered(db, after, findings)?.map_or(archive, Self::Remembered))
            }
            Self::Archive(ref after) => {
                Some(check_archive(db, after, findings)?.map_or(Self::Index(0), Self::Archive))
            }
            Self::Index(shard) => {
                Some(check_index(memory, db, shard, findings)?.map_or(Self::Whole, Self::Index))
            }
            Self::Whole => {
                check_whole(memory, db, now, findings)?;
                None
            }
        })
    }
}

/// Runs all steps at once, then SQLite's own check on the same connection.
pub(crate) fn verify_all(memory: &Memory, db: &Db, now: Now, findings: &mut Findings) {
    let mut step = Some(VerifyStep::FIRST);
    while let Some(at) = step {
        step = at.run(memory, db, now, findings).unwrap_or_else(|error| {
            findings.add(|| format!("not everything could be read: {error}"));
            None
        });
    }
    check_integrity(db, findings);
}

/// Adds the findings that SQLite finds in the structure of its file.
pub(crate) fn check_integrity(db: &Db, findings: &mut Findings) {
    match verify_sql::integrity(db.conn(), MAX_FINDINGS) {
        Ok(lines) => lines.into_iter().for_each(|line| findings.add(|| line)),
        Err(error) => findings.add(|| format!("SQLite cannot check its file: {error}")),
    }
}

/// The findings that SQLite finds in the structure of the file at `path`, which may be in use.
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
        .and_then(|differences| Ok([differences, verify_sql::integrity(&conn, MAX_FINDINGS)?].concat()));
    found.unwrap_or_else(|error| vec![format!("{}: {error}", path.display())])
}

/// Compares a slice of records with memory. Returns the last key when there may be more.
fn check_rows(
    memory: &Memory,
    db: &Db,
    (table, from): (Table, RowKey),
    now: Now,
    findings: &mut Findings,
) -> SqlResult<Option<RowKey>> {
    let (mut seen, mut bytes, mut result) = (0, 0, Ok(()));
    let last = verify_sql::for_each_record(db, table, from, |key, record, dead_ms| {
        let checked = match record {
            Ok(record) => {
                bytes += record.body.as_bytes().len();
                check_record(memory, db, (table, key, dead_ms), &record, now, findings)
            }
            Err(why) => verify_sql::stored_id(db, table, key).map(|id| {
                let id = id.unwrap_or_default();
                findings.add(|| format!("the record of job {id:?} at {key:?} is broken: {why}"));
            }),
        };
        seen += 1;
        result = checked;
        result.is_ok() && seen < SLICE && bytes < SLICE_BYTES
    })?;
    result.map(|()| last)
}

/// Checks a slice of the schedules. Returns the last name when there may be more.
fn check_schedules(db: &Db, after: &[u8], findings: &mut Findings) -> SqlResult<Option<Vec<u8>>> {
    let (mut seen, mut bytes) = (0, 0);
    db.for_each_schedule(after, |schedule| {
        match schedule {
            Ok(schedule) => bytes += schedule.content.text.len(),
            Err(name) => findings.add(|| format!("the schedule {name:?} is damaged")),
        }
        seen += 1;
        seen < SLICE && bytes < SLICE_BYTES
    })
}

/// Checks a slice of the remembered ids. Returns the last one when there may be more.
fn check_remembered(db: &Db, after: &[u8], findings: &mut Findings) -> SqlResult<Option<Vec<u8>>> {
    let mut seen = 0;
    db.for_each_remembered(after, |remembered| {
        if let Err(id) = remembered {
            findings.add(|| format!("the remembered id {id:?} is damaged"));
        }
        seen += 1;
        seen < SLICE
    })
}

/// Checks a slice of the archive. Returns the last key when there may be more.
fn check_archive(db: &Db, after: &[u8], findings: &mut Findings) -> SqlResult<Option<Vec<u8>>> {
    let (mut seen, mut bytes) = (0, 0);
    db.for_each_archived(after, |record| {
        match record {
            Ok(record) => bytes += record.content.len(),
            Err(key) => findings.add(|| format!("the archived record {key:?} is damaged")),
        }
        seen += 1;
        seen < SLICE && bytes < SLICE_BYTES
    })
}

/// Looks up the records of a few tables of the index. Returns the next table when there is one.
fn check_index(
    memory: &Memory,
    db: &Db,
    mut shard: usize,
    findings: &mut Findings,
) -> SqlResult<Option<usize>> {
    let mut seen = 0;
    while seen < SLICE {
        let Some(entries) = memory.job_index().in_shard(shard) else { return Ok(None) };
        for (hash, at) in entries {
            seen += 1;
            match db.read_head(Table::for_job(at.dead), at.key)? {
                Ok(head) => {
                    let found = memory.job_index().hash(head.id.as_str().as_bytes());
                    let at = at.key;
                    findings.check(found == hash, || {
                        format!("job {} at {at:?} is in memory under another id", head.id)
                    });
                }
                // An unreadable record has been reported with its row.
                Err(why) => findings.check(why != RecordError::Missing, || {
                    format!("memory has a job at {:?} that is not on disk", at.key)
                }),
            }
        }
        shard += 1;
    }
    Ok(Some(shard))
}
