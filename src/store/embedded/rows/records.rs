//! Every SQL statement over jobs, and the transaction of the present group. Knows rows and keys; what a
//! change means for memory is not its business. Rows that are not jobs are in `meta.rs`.

use rusqlite::{Connection, Row, params, types::ValueRef};

use super::{
    checksum::{decode_lease, encode_clock, encode_lease_receipt},
    codec::{Lease, Record, RecordColumns, RecordError, RecordHead},
    key::RowKey,
};
use crate::{
    job::{Timestamp, Topic},
    store::embedded::recovery::identity::StoreHead,
};

pub(crate) type SqlResult<T> = rusqlite::Result<T>;

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// Delayed, ready and reserved jobs, by due time.
    Live,
    /// Dead letters, by time of death.
    Dead,
}

impl Table {
    /// The table of a job that is or is not dead.
    pub fn of(dead: bool) -> Self {
        if dead { Self::Dead } else { Self::Live }
    }
}

/// A record that was set aside.
#[derive(Debug)]
pub(crate) struct SetAside {
    /// Its id as it stands in the row, when there is a row.
    pub id: Option<Vec<u8>>,
}

/// Result of looking into the log and perhaps moving it into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckpointProgress {
    /// Pages in the log.
    pub logged: u64,
    /// Pages of it that the file has.
    pub filled: u64,
}

/// The writer's connection. A transaction begins by itself with the first change and lasts until
/// [`commit`](Db::commit) or [`rollback`](Db::rollback).
#[derive(Debug)]
pub(crate) struct Db {
    conn: Connection,
    changing: bool,
    /// As of the last commit.
    link: StoreHead,
    /// Jobs, with the changes of the present transaction.
    jobs: Option<u64>,
    /// Bytes of records inserted by the present transaction.
    written: usize,
    /// The last key given out in each table, for runs of jobs that are due in the same millisecond.
    last: [Option<(Timestamp, RowKey)>; 2],
}

impl Db {
    pub fn new(conn: Connection) -> Self {
        Self { conn, changing: false, link: StoreHead::new(), jobs: None, written: 0, last: [None; 2] }
    }

    /// How far the store has come.
    pub fn link(&self) -> StoreHead {
        self.link
    }

    /// Counts on from here.
    pub fn set_store_head(&mut self, link: StoreHead) {
        (self.link, self.jobs) = (link, link.jobs);
    }

    /// How many jobs there should be, where they were counted.
    pub fn jobs(&self) -> Option<u64> {
        self.jobs
    }

    /// There are so many.
    pub fn set_jobs(&mut self, jobs: u64) {
        self.jobs = Some(jobs);
    }

    /// For statements that concern the file as a whole.
    pub fn conn(&self) -> &Connection {
        &self.conn
    }

    /// Begins the transaction unless it has begun.
    pub fn begin(&mut self) -> SqlResult<()> {
        if !self.changing {
            self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            self.changing = true;
        }
        Ok(())
    }

    /// Bytes of records that the present transaction has inserted.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Whether there is anything to commit.
    pub fn in_transaction(&self) -> bool {
        self.changing
    }

    /// Makes the changes permanent, counts them, and that the clock has reached `now`.
    pub fn commit(&mut self, now: Timestamp) -> SqlResult<()> {
        let mut mark = self.conn.prepare_cached("INSERT OR REPLACE INTO meta VALUES ('clock_ms', ?1)")?;
        mark.execute([encode_clock(now)])?;
        let link = StoreHead { changes: self.link.changes + 1, jobs: self.jobs, ..self.link };
        let put = "INSERT OR REPLACE INTO meta VALUES ('link', ?1)";
        self.conn.prepare_cached(put)?.execute([link.encode()])?;
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        (self.changing, self.written, self.link) = (false, 0, link);
        Ok(())
    }

    /// Takes the changes back. After some errors SQLite has done so itself.
    pub fn rollback(&mut self) -> SqlResult<()> {
        (self.changing, self.written, self.jobs) = (false, 0, self.link.jobs);
        if self.conn.is_autocommit() {
            return Ok(());
        }
        self.conn.execute_batch("ROLLBACK")
    }

    /// A free key at `moment`, behind all keys at that moment, so that equal times keep their order. When
    /// the moment is full the key lies a little later.
    pub fn free_key(&mut self, table: Table, moment: Timestamp) -> SqlResult<RowKey> {
        let key = match self.last[table as usize] {
            // Nothing was put anywhere else in between, so what follows the last key is free.
            Some((slot, last)) if slot == moment && last.next().slot() == moment => last.next(),
            Some(_) | None => {
                let mut slot = moment;
                loop {
                    let key = self.search_free_key(table, slot)?;
                    if key.slot() == slot {
                        break key;
                    }
                    slot = key.slot();
                }
            }
        };
        self.last[table as usize] = Some((moment, key));
        Ok(key)
    }

    /// The key behind the last one taken at `moment`; the first of the next moment when it is full.
    fn search_free_key(&self, table: Table, moment: Timestamp) -> SqlResult<RowKey> {
        let sql = match table {
            Table::Live => "SELECT max(key) FROM rec WHERE key < ?1",
            Table::Dead => "SELECT max(key) FROM dead WHERE key < ?1",
        };
        // The very last moment has no next one to run over into, but room without end.
        let below = if moment == Timestamp::MAX { i64::MAX } else { RowKey::first_after(moment).to_row() };
        let taken: Option<i64> = self.conn.prepare_cached(sql)?.query_row([below], |row| row.get(0))?;
        let first = RowKey::first_at(moment);
        Ok(taken.and_then(RowKey::from_row).filter(|taken| *taken >= first).map_or(first, RowKey::next))
    }

    pub fn insert(&mut self, table: Table, key: RowKey, record: &Record) -> SqlResult<()> {
        self.begin()?;
        let (head, bytes) = (&record.head, record.encode_head(key));
        let (id, topic, body) = (head.id.as_str(), head.topic.as_str(), record.body.as_bytes().as_ref());
        match table {
            Table::Live => {
                let sql = "INSERT INTO rec (key, id, topic, head, body) VALUES (?1, ?2, ?3, ?4, ?5)";
                self.conn.prepare_cached(sql)?.execute(params![key.to_row(), id, topic, bytes, body])?;
            }
            Table::Dead => {
                let dead_ms = head.dead_at.map_or(0, Timestamp::as_millis);
                let sql =
                    "INSERT INTO dead (key, id, topic, dead_ms, head, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                let row = params![key.to_row(), id, topic, dead_ms, bytes, body];
                self.conn.prepare_cached(sql)?.execute(row)?;
            }
        }
        self.written += bytes.len() + body.len();
        self.jobs = self.jobs.map(|jobs| jobs + 1);
        Ok(())
    }

    pub fn delete(&mut self, table: Table, key: RowKey) -> SqlResult<()> {
        self.begin()?;
        let sql = match table {
            Table::Live => "DELETE FROM rec WHERE key = ?1",
            Table::Dead => "DELETE FROM dead WHERE key = ?1",
        };
        let deleted = self.conn.prepare_cached(sql)?.execute([key.to_row()])?;
        self.jobs = self.jobs.map(|jobs| jobs.saturating_sub(deleted as u64));
        Ok(())
    }

    /// The record at `key`, everything checked.
    pub fn read(&self, table: Table, key: RowKey) -> SqlResult<Result<Record, RecordError>> {
        let sql = match table {
            Table::Live => "SELECT id, topic, head, body FROM rec WHERE key = ?1",
            Table::Dead => "SELECT id, topic, head, body FROM dead WHERE key = ?1",
        };
        let mut select = self.conn.prepare_cached(sql)?;
        let mut rows = select.query([key.to_row()])?;
        let Some(row) = rows.next()? else { return Ok(Err(RecordError::Missing)) };
        decode_record(key, row, 0)
    }

    /// The record at `key` without its body, so that a large one is not read.
    pub fn read_head(&self, table: Table, key: RowKey) -> SqlResult<Result<RecordHead, RecordError>> {
        let sql = match table {
            Table::Live => "SELECT id, topic, head FROM rec WHERE key = ?1",
            Table::Dead => "SELECT id, topic, head FROM dead WHERE key = ?1",
        };
        let mut select = self.conn.prepare_cached(sql)?;
        let mut rows = select.query([key.to_row()])?;
        let Some(row) = rows.next()? else { return Ok(Err(RecordError::Missing)) };
        Ok(columns(key, row, 0)?.and_then(|columns| columns.decode_head()))
    }

    /// Shows `visit` the columns of up to `limit` records from `from` to before `to`, in order of key; how
    /// many there were.
    pub fn scan(
        &self,
        table: Table,
        (from, to): (RowKey, RowKey),
        limit: usize,
        mut visit: impl FnMut(RowKey, Result<RecordColumns<'_>, RecordError>),
    ) -> SqlResult<usize> {
        let sql = match table {
            Table::Live => {
                "SELECT key, id, topic, head FROM rec WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3"
            }
            Table::Dead => {
                "SELECT key, id, topic, head FROM dead WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3"
            }
        };
        let mut select = self.conn.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = select.query([from.to_row(), to.to_row(), limit])?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            seen += 1;
            if let Some(key) = RowKey::from_row(row.get(0)?) {
                visit(key, columns(key, row, 1)?);
            }
        }
        Ok(seen)
    }

    /// Keys of the first `limit` dead letters of a topic, oldest first.
    pub fn oldest_dead(&self, topic: &Topic, limit: usize) -> SqlResult<Vec<RowKey>> {
        let sql = "SELECT key FROM dead WHERE topic = ?1 ORDER BY dead_ms, id LIMIT ?2";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut select = self.conn.prepare_cached(sql)?;
        let keys = select.query_map(params![topic.as_str(), limit], |row| row.get::<_, i64>(0))?;
        keys.filter_map(|key| key.map(RowKey::from_row).transpose()).collect()
    }

    /// The first key in the table of the dead.
    pub fn first_dead(&self) -> SqlResult<Option<RowKey>> {
        let first: Option<i64> =
            self.conn.prepare_cached("SELECT min(key) FROM dead")?.query_row([], |row| row.get(0))?;
        Ok(first.and_then(RowKey::from_row))
    }

    /// Begins or changes a reservation.
    pub fn set_lease(&mut self, key: RowKey, lease: &Lease) -> SqlResult<()> {
        self.begin()?;
        let sql =
            "INSERT OR REPLACE INTO lease (key, attempts, deadline_ms, receipt) VALUES (?1, ?2, ?3, ?4)";
        let row = params![
            key.to_row(),
            lease.attempts,
            lease.deadline.as_millis(),
            encode_lease_receipt(key, lease)
        ];
        self.conn.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }

    /// Ends a reservation.
    pub fn delete_lease(&mut self, key: RowKey) -> SqlResult<()> {
        self.begin()?;
        self.conn.prepare_cached("DELETE FROM lease WHERE key = ?1")?.execute([key.to_row()])?;
        Ok(())
    }

    /// Every reservation; `None` where it is damaged.
    pub fn leases(&self) -> SqlResult<Vec<(RowKey, Option<Lease>)>> {
        let mut select = self.conn.prepare("SELECT key, attempts, deadline_ms, receipt FROM lease")?;
        let leases = select.query_map([], |row| {
            let Some(key) = RowKey::from_row(row.get(0)?) else { return Ok(None) };
            // Whatever type a flipped bit has made of a column.
            let number = |column| row.get_ref(column).map(|value| value.as_i64().ok());
            let (attempts, deadline_ms, sealed) = (number(1)?, number(2)?, bytes(row.get_ref(3)?));
            let lease = attempts.zip(deadline_ms).zip(sealed);
            Ok(Some((key, lease.and_then(|((tries, ms), sealed)| decode_lease(key, tries, ms, sealed)))))
        })?;
        leases.filter_map(Result::transpose).collect()
    }

    /// Moves the record at `key` to where nothing looks at it, as it is.
    pub fn set_aside(
        &mut self,
        table: Table,
        key: RowKey,
        why: RecordError,
        now: Timestamp,
    ) -> SqlResult<SetAside> {
        self.begin()?;
        let (source, name) = match table {
            Table::Live => ("rec", "rec"),
            Table::Dead => ("dead", "dead"),
        };
        let id = {
            let mut select = self.conn.prepare(&format!("SELECT id FROM {source} WHERE key = ?1"))?;
            let mut rows = select.query([key.to_row()])?;
            rows.next()?
                .map(|row| row.get_ref(0).map(|id| bytes(id).unwrap_or_default().to_vec()))
                .transpose()?
        };
        let copy = format!(
            "INSERT INTO broken (found_ms, why, source, key, id, topic, head, body)
             SELECT ?1, ?2, ?3, key, id, topic, head, body FROM {source} WHERE key = ?4"
        );
        self.conn.execute(&copy, params![now.as_millis(), why.to_string(), name, key.to_row()])?;
        self.delete(table, key)?;
        if table == Table::Live {
            self.delete_lease(key)?;
        }
        Ok(SetAside { id })
    }

    /// The first `limit` dead letters of a topic by `(dead_ms, id)` behind `after`. For the reader's connection.
    pub fn dead_page(
        conn: &Connection,
        topic: &Topic,
        after: (i64, &str),
        limit: usize,
    ) -> SqlResult<Vec<(RowKey, Result<Record, RecordError>)>> {
        let sql = "SELECT key, id, topic, head, body FROM dead
                   WHERE topic = ?1 AND (dead_ms, id) > (?2, ?3) ORDER BY dead_ms, id LIMIT ?4";
        let mut select = conn.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = select.query(params![topic.as_str(), after.0, after.1, limit])?;
        let mut page = Vec::new();
        while let Some(row) = rows.next()? {
            if let Some(key) = RowKey::from_row(row.get(0)?) {
                page.push((key, decode_record(key, row, 1)?));
            }
        }
        Ok(page)
    }
}

/// Moves the log into the file with `mode`, or only looks with `NOOP`.
pub(crate) fn wal_checkpoint(conn: &Connection, mode: &str) -> SqlResult<CheckpointProgress> {
    conn.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?.query_row([], |row| {
        let pages = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(CheckpointProgress { logged: pages(row.get(1)?), filled: pages(row.get(2)?) })
    })
}

/// The record in a row whose columns from `from` on are id, topic, head and body.
pub(crate) fn decode_record(
    key: RowKey,
    row: &Row<'_>,
    from: usize,
) -> SqlResult<Result<Record, RecordError>> {
    let body = bytes(row.get_ref(from + 3)?);
    Ok(columns(key, row, from)?.and_then(|columns| columns.decode_record(body.ok_or(RecordError::Column)?)))
}

fn columns<'a>(
    key: RowKey,
    row: &'a Row<'_>,
    from: usize,
) -> SqlResult<Result<RecordColumns<'a>, RecordError>> {
    let (id, topic, head) = (row.get_ref(from)?, row.get_ref(from + 1)?, row.get_ref(from + 2)?);
    let columns = bytes(id).zip(bytes(topic)).zip(bytes(head));
    Ok(columns.map(|((id, topic), head)| RecordColumns { key, id, topic, head }).ok_or(RecordError::Column))
}

/// Text and blobs alike: whether they are what they should be is for their checksum to say.
fn bytes(value: ValueRef<'_>) -> Option<&[u8]> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => None,
    }
}
