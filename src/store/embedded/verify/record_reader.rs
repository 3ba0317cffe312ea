//! Reads all records of a store in one read transaction of SQLite, on a connection of its own, from this or another
//! process. Like a backup it blocks no operation and shows exactly what was committed when it began; meanwhile the log
//! grows, because it cannot start over.

use std::{collections::HashMap, fs, io, path::Path};

use async_trait::async_trait;

use super::{
    offline::read_run_state,
    verify_sql::{for_each_record, stored_id},
};
use crate::{
    clock::Clock,
    job::{DueKind, Receipt, State, Timestamp},
    store::{
        ClockOffsets, Error, JobRecord, MoveMark, RecordPage, RecordReader, Result,
        embedded::{
            disk::data_dir::{DB_FILE, WAL_FILE},
            options::OpenError,
            recovery::wal::WalState,
            rows::{
                codec::{Lease, Record},
                db::{Db, SqlResult, Table},
                key::RowKey,
                meta::RunState,
                schema,
            },
        },
    },
};

/// Records on a page, and about the most bytes of their bodies or texts.
const PAGE: (usize, usize) = (500, 1 << 20);

/// Reads the records of the store in `data_dir`, also while a server uses it; then, as broken ones, those that were set aside if
/// they are wanted.
///
/// # Errors
/// Why the store cannot be read.
pub fn read_records(
    data_dir: &Path,
    clock: &dyn Clock,
    with_set_aside: bool,
) -> std::result::Result<Box<dyn RecordReader>, OpenError> {
    let snapshot = Snapshot { with_set_aside, ..Snapshot::open(data_dir, clock)? };
    Ok(Box::new(SnapshotReader(Some(snapshot))))
}

/// What a move must know of a store before it reads the records.
#[derive(Debug)]
pub struct Identity {
    /// Its id.
    pub id: String,
    /// Where it stands in a move.
    pub mark: Option<MoveMark>,
    /// Its clock.
    pub clocks: ClockOffsets,
}

/// The identity of the store in `data_dir`, also while a server uses it.
///
/// # Errors
/// Why the store cannot be read.
pub fn read_identity(data_dir: &Path, clock: &dyn Clock) -> std::result::Result<Identity, OpenError> {
    let db_path = data_dir.join(DB_FILE);
    fs::metadata(&db_path).map_err(io_at(&db_path))?;
    let db = Db::new(schema::open_existing(&db_path)?);
    let sqlite = |source| OpenError::Sqlite { path: db_path.clone(), source };
    let moved = |why: String| OpenError::Moved { path: db_path.clone(), why };
    let head = db.read_store_head().map_err(sqlite)?;
    let head = head.ok_or_else(|| moved("the head of the store is damaged".to_owned()))?;
    let mark = db.move_mark().map_err(sqlite)?.transpose().map_err(|damaged| moved(damaged.to_string()))?;
    let now = clock.read().rounded_down;
    let now = db.clock_mark().map_err(sqlite)?.map_or(now, |mark| mark.max(now));
    Ok(Identity { id: head.store.to_text(), mark, clocks: ClockOffsets::of_moment(now, clock) })
}

/// The reader; without a snapshot while a page is being read, and after a failure.
struct SnapshotReader(Option<Snapshot>);

#[async_trait]
impl RecordReader for SnapshotReader {
    async fn next(&mut self) -> Result<Option<RecordPage>> {
        let stopped = || Error::Unavailable("reading the records was interrupted".to_owned());
        let mut snapshot = self.0.take().ok_or_else(stopped)?;
        let read = tokio::task::spawn_blocking(move || (snapshot.read_page(), snapshot)).await;
        let (page, snapshot) = read.map_err(|_| stopped())?;
        self.0 = Some(snapshot);
        page.map_err(|error| Error::Damaged(format!("not everything could be read: {error}")))
    }
}

/// What the next page has.
#[derive(Debug, Clone)]
enum NextPage {
    Topics,
    /// Behind the schedule with this name.
    Schedules(Vec<u8>),
    /// Behind this id.
    Remembered(Vec<u8>),
    Jobs(Table, RowKey),
    /// Behind the record that was set aside with this number.
    SetAside(i64),
    None,
}

/// One moment of a store.
struct Snapshot {
    db: Db,
    leases: HashMap<RowKey, Option<Lease>>,
    next: NextPage,
    with_set_aside: bool,
    /// The present moment, and no earlier than any on which the store acted.
    now: Timestamp,
    /// The present moment by the machine's clock.
    wall_now: Timestamp,
}

impl Snapshot {
    fn open(data_dir: &Path, clock: &dyn Clock) -> std::result::Result<Self, OpenError> {
        let (db_path, wal_path) = (data_dir.join(DB_FILE), data_dir.join(WAL_FILE));
        fs::metadata(&db_path).map_err(io_at(&db_path))?;
        let db = Db::new(schema::open_existing(&db_path)?);
        let sqlite = |source| OpenError::Sqlite { path: db_path.clone(), source };
        // From the first read on, the transaction sees one moment, and the log cannot be emptied.
        db.conn().execute_batch("BEGIN").map_err(sqlite)?;
        let run = read_run_state(&db, &db_path)?;
        if run == RunState::Open {
            let wal = WalState::inspect(&wal_path).map_err(io_at(&wal_path))?;
            wal.check_compatible(&wal_path, &db_path, run)?;
        }
        let mark = db.clock_mark().map_err(sqlite)?;
        let now = clock.read().rounded_down;
        let leases = db.leases().map_err(sqlite)?.into_iter().collect();
        let now = mark.map_or(now, |mark| mark.max(now));
        Ok(Self {
            db,
            leases,
            next: NextPage::Topics,
            with_set_aside: false,
            now,
            wall_now: clock.wall_now(),
        })
    }

    fn read_page(&mut self) -> SqlResult<Option<RecordPage>> {
        match self.next.clone() {
            NextPage::Topics => {
                self.next = NextPage::Schedules(Vec::new());
                self.read_topics().map(Some)
            }
            NextPage::Schedules(after) => self.read_schedules(&after).map(Some),
            NextPage::Remembered(after) => self.read_remembered(&after).map(Some),
            NextPage::Jobs(table, from) => self.read_jobs(table, from).map(Some),
            NextPage::SetAside(after) => self.read_set_aside(after).map(Some),
            NextPage::None => Ok(None),
        }
    }

    fn read_topics(&self) -> SqlResult<RecordPage> {
        let mut page = RecordPage::default();
        for topic in self.db.topic_records()? {
            match topic {
                Ok(topic) => page.topics.push(topic),
                Err(name) => page.broken.push(format!("what is set for topic {name:?} is damaged")),
            }
        }
        Ok(page)
    }

    fn read_schedules(&mut self, after: &[u8]) -> SqlResult<RecordPage> {
        let (mut page, mut bytes) = (RecordPage::default(), 0);
        let last = self.db.for_each_schedule(after, |schedule| {
            match schedule {
                Ok(schedule) => {
                    bytes += schedule.content.text.len();
                    page.schedules.push(schedule);
                }
                Err(name) => page.broken.push(format!("the schedule {name:?} is damaged")),
            }
            page.schedules.len() + page.broken.len() < PAGE.0 && bytes < PAGE.1
        })?;
        self.next = last.map_or(NextPage::Remembered(Vec::new()), NextPage::Schedules);
        Ok(page)
    }

    fn read_remembered(&mut self, after: &[u8]) -> SqlResult<RecordPage> {
        let mut page = RecordPage::default();
        let last = self.db.for_each_remembered(after, |remembered| {
            match remembered {
                Ok(remembered) => page.remembered.push(remembered),
                Err(id) => page.broken.push(format!("the remembered id {id:?} is damaged")),
            }
            page.remembered.len() + page.broken.len() < PAGE.0
        })?;
        let jobs = NextPage::Jobs(Table::Live, RowKey::START);
        self.next = last.map_or(jobs, NextPage::Remembered);
        Ok(page)
    }

    fn read_jobs(&mut self, table: Table, from: RowKey) -> SqlResult<RecordPage> {
        let (mut page, mut bytes, mut unreadable) = (RecordPage::default(), 0, Vec::new());
        let last = for_each_record(&self.db, table, from, |key, record, _| {
            match record {
                Ok(record) => {
                    bytes += record.body.as_bytes().len();
                    page.jobs.push(self.whole(table, key, record, &mut page.broken));
                }
                Err(why) => unreadable.push((key, why)),
            }
            page.jobs.len() + unreadable.len() < PAGE.0 && bytes < PAGE.1
        })?;
        for (key, why) in unreadable {
            let id = stored_id(&self.db, table, key)?.unwrap_or_default();
            page.broken.push(format!("the record of job {id:?} is broken: {why}"));
        }
        self.next = match (last, table) {
            (Some(last), table) => NextPage::Jobs(table, last.next()),
            (None, Table::Live) => NextPage::Jobs(Table::Dead, RowKey::START),
            (None, Table::Dead) if self.with_set_aside => NextPage::SetAside(0),
            (None, Table::Dead) => NextPage::None,
        };
        Ok(page)
    }

    fn read_set_aside(&mut self, after: i64) -> SqlResult<RecordPage> {
        let mut page = RecordPage::default();
        self.next = NextPage::None;
        for (number, id, why) in self.db.set_aside_after(after, PAGE.0)? {
            let id = String::from_utf8_lossy(&id).into_owned();
            page.broken.push(format!("the record of job {id:?} was set aside: {why}"));
            self.next = NextPage::SetAside(number);
        }
        Ok(page)
    }

    fn whole(&self, table: Table, key: RowKey, record: Record, broken: &mut Vec<String>) -> JobRecord {
        let lease = self.leases.get(&key).filter(|_| table == Table::Live);
        if lease.is_some_and(Option::is_none) {
            broken.push(format!(
                "the reservation of job {:?} is damaged; the job is there, as if its reservation had ended",
                record.head.id.as_str()
            ));
        }
        let lease = lease.and_then(Option::as_ref);
        let now = match key.kind() {
            DueKind::Elapsed => self.now,
            DueKind::Moment => self.wall_now,
        };
        let state = match (table, lease) {
            (Table::Dead, _) => State::Dead,
            (Table::Live, Some(_)) => State::Reserved,
            (Table::Live, None) if key.slot() <= now => State::Ready,
            (Table::Live, None) => State::Delayed,
        };
        let receipt: Option<Receipt> = lease.map(|lease| lease.receipt.clone());
        let job = record.to_job(state, lease, 0);
        JobRecord::new(job, record.head.fingerprint, receipt, &record.head.other)
    }
}

fn io_at(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::Io { path: path.to_owned(), source }
}
