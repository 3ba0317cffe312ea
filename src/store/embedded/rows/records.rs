//! The statements over the tables of records: `rec`, `dead` and `broken`.

use rusqlite::{Connection, Row, params};

use super::{
    checksum::column_bytes,
    codec::{Record, RecordColumns, RecordError, RecordHead},
    db::{Db, SqlResult, Table},
    key::RowKey,
};
use crate::job::{DueKind, Timestamp, Topic};

impl Db {
    /// A free key of a kind at `moment`, behind all keys of that kind and moment, so that jobs with equal times keep their
    /// order. When the moment is full, the key belongs to a later one.
    pub fn free_key(&mut self, table: Table, moment: Timestamp, kind: DueKind) -> SqlResult<RowKey> {
        let is_at = |key: RowKey, slot: Timestamp| key.slot() == slot && key.kind() == kind;
        let key = match self.last_keys[table as usize] {
            // No other key was given out since, so the next one is free.
            Some((slot, last)) if slot == moment && is_at(last, slot) && is_at(last.next(), slot) => {
                last.next()
            }
            Some(_) | None => {
                let mut slot = moment;
                loop {
                    let key = self.search_free_key(table, slot, kind)?;
                    if is_at(key, slot) || slot == Timestamp::MAX {
                        break key;
                    }
                    slot = RowKey::first_after(slot).slot();
                }
            }
        };
        self.last_keys[table as usize] = Some((moment, key));
        Ok(key)
    }

    /// The key behind the last used one of a kind at `moment`, which is of the other kind or a later moment when it is full.
    fn search_free_key(&self, table: Table, moment: Timestamp, kind: DueKind) -> SqlResult<RowKey> {
        let sql = match table {
            Table::Live => "SELECT max(key) FROM rec WHERE key < ?1",
            Table::Dead => "SELECT max(key) FROM dead WHERE key < ?1",
        };
        // The very last moment has no next one, but unlimited keys.
        let below = match kind {
            DueKind::Elapsed | DueKind::Moment if moment == Timestamp::MAX => i64::MAX,
            DueKind::Elapsed => RowKey::first_of_kind(moment, DueKind::Moment).to_row(),
            DueKind::Moment => RowKey::first_after(moment).to_row(),
        };
        let taken: Option<i64> = self.conn().prepare_cached(sql)?.query_row([below], |row| row.get(0))?;
        let first = RowKey::first_of_kind(moment, kind);
        Ok(taken.and_then(RowKey::from_row).filter(|taken| *taken >= first).map_or(first, RowKey::next))
    }

    /// Inserts a record under a free key.
    pub fn insert(&mut self, table: Table, key: RowKey, record: &Record) -> SqlResult<()> {
        self.begin()?;
        let (head, bytes) = (&record.head, record.encode_head(key));
        let (id, topic, body) = (head.id.as_str(), head.topic.as_str(), record.body.as_bytes().as_ref());
        match table {
            Table::Live => {
                let sql = "INSERT INTO rec (key, id, topic, head, body) VALUES (?1, ?2, ?3, ?4, ?5)";
                self.conn().prepare_cached(sql)?.execute(params![key.to_row(), id, topic, bytes, body])?;
            }
            Table::Dead => {
                let dead_ms = head.dead_at.map_or(0, Timestamp::as_millis);
                let sql =
                    "INSERT INTO dead (key, id, topic, dead_ms, head, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                let row = params![key.to_row(), id, topic, dead_ms, bytes, body];
                self.conn().prepare_cached(sql)?.execute(row)?;
            }
        }
        self.tell_follower(&head.id);
        self.bytes_written += bytes.len() + body.len();
        self.jobs = self.jobs.map(|jobs| jobs + 1);
        Ok(())
    }

    /// Deletes the record at `key`.
    pub fn delete(&mut self, table: Table, key: RowKey) -> SqlResult<()> {
        self.begin()?;
        let sql = match table {
            Table::Live => "DELETE FROM rec WHERE key = ?1",
            Table::Dead => "DELETE FROM dead WHERE key = ?1",
        };
        let deleted = self.conn().prepare_cached(sql)?.execute([key.to_row()])?;
        self.jobs = self.jobs.map(|jobs| jobs.saturating_sub(deleted as u64));
        Ok(())
    }

    /// The record at `key`, with all checksums verified.
    pub fn read(&self, table: Table, key: RowKey) -> SqlResult<Result<Record, RecordError>> {
        let sql = match table {
            Table::Live => "SELECT id, topic, head, body FROM rec WHERE key = ?1",
            Table::Dead => "SELECT id, topic, head, body FROM dead WHERE key = ?1",
        };
        let mut select = self.conn().prepare_cached(sql)?;
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
        let mut select = self.conn().prepare_cached(sql)?;
        let mut rows = select.query([key.to_row()])?;
        let Some(row) = rows.next()? else { return Ok(Err(RecordError::Missing)) };
        Ok(columns(key, row, 0)?.and_then(|columns| columns.decode_head()))
    }

    /// The record at `key` without its body, and the length of its body.
    pub fn read_listed(
        &self,
        table: Table,
        key: RowKey,
    ) -> SqlResult<Result<(RecordHead, u64), RecordError>> {
        // SQLite knows the length of a body without reading it.
        let sql = match table {
            Table::Live => "SELECT id, topic, head, length(body) FROM rec WHERE key = ?1",
            Table::Dead => "SELECT id, topic, head, length(body) FROM dead WHERE key = ?1",
        };
        let mut select = self.conn().prepare_cached(sql)?;
        let mut rows = select.query([key.to_row()])?;
        let Some(row) = rows.next()? else { return Ok(Err(RecordError::Missing)) };
        let body_bytes: i64 = row.get(3)?;
        let head = columns(key, row, 0)?.and_then(|columns| columns.decode_head());
        Ok(head.map(|head| (head, body_bytes.unsigned_abs())))
    }

    /// Up to `limit` keys of dead letters of all topics within `from..to`, in ascending or descending order.
    pub fn dead_keys(
        &self,
        (from, to): (RowKey, RowKey),
        is_ascending: bool,
        limit: usize,
    ) -> SqlResult<Vec<RowKey>> {
        let sql = match is_ascending {
            true => "SELECT key FROM dead WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3",
            false => "SELECT key FROM dead WHERE key >= ?1 AND key < ?2 ORDER BY key DESC LIMIT ?3",
        };
        let mut select = self.conn().prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let keys =
            select.query_map(params![from.to_row(), to.to_row(), limit], |row| row.get::<_, i64>(0))?;
        keys.filter_map(|key| key.map(RowKey::from_row).transpose()).collect()
    }

    /// Up to `limit` dead letters of a topic after the position `after`, up to the moment `end`: those that died before it, or
    /// in descending order not before it. Each comes with the position `(dead_ms, id)` by which they are ordered.
    pub fn dead_of_topic(
        &self,
        topic: &Topic,
        after: (i64, &str),
        end_ms: i64,
        is_ascending: bool,
        limit: usize,
    ) -> SqlResult<Vec<((i64, String), RowKey)>> {
        // SQLite uses one bound of each side of the index. With a second lower bound it might read all rows before `after`.
        let sql = match is_ascending {
            true => {
                "SELECT key, dead_ms, id FROM dead WHERE topic = ?1 AND (dead_ms, id) > (?2, ?3) AND dead_ms < ?4
                 ORDER BY dead_ms, id LIMIT ?5"
            }
            false => {
                "SELECT key, dead_ms, id FROM dead WHERE topic = ?1 AND (dead_ms, id) < (?2, ?3) AND dead_ms >= ?4
                 ORDER BY dead_ms DESC, id DESC LIMIT ?5"
            }
        };
        let mut select = self.conn().prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = select.query(params![topic.as_str(), after.0, after.1, end_ms, limit])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let id = column_bytes(row.get_ref(2)?).unwrap_or_default();
            let position = (row.get(1)?, String::from_utf8_lossy(id).into_owned());
            found.extend(RowKey::from_row(row.get(0)?).map(|key| (position, key)));
        }
        Ok(found)
    }

    /// Calls `visit` with the columns of up to `limit` records from `from` to before `to`, in order of key.
    /// Returns the number of rows.
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
        let mut select = self.conn().prepare_cached(sql)?;
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

    /// The first key of the dead letters.
    pub fn first_dead(&self) -> SqlResult<Option<RowKey>> {
        let first: Option<i64> =
            self.conn().prepare_cached("SELECT min(key) FROM dead")?.query_row([], |row| row.get(0))?;
        Ok(first.and_then(RowKey::from_row))
    }

    /// Moves the record at `key` unchanged to the table `broken`, which no operation reads. Returns the id in
    /// the row, when there is a row.
    pub fn set_aside(
        &mut self,
        table: Table,
        key: RowKey,
        why: RecordError,
        now: Timestamp,
    ) -> SqlResult<Option<Vec<u8>>> {
        self.begin()?;
        let (source, name) = match table {
            Table::Live => ("rec", "rec"),
            Table::Dead => ("dead", "dead"),
        };
        let id = {
            let mut select = self.conn().prepare(&format!("SELECT id FROM {source} WHERE key = ?1"))?;
            let mut rows = select.query([key.to_row()])?;
            rows.next()?
                .map(|row| row.get_ref(0).map(|id| column_bytes(id).unwrap_or_default().to_vec()))
                .transpose()?
        };
        let copy = format!(
            "INSERT INTO broken (found_ms, why, source, key, id, topic, head, body)
             SELECT ?1, ?2, ?3, key, id, topic, head, body FROM {source} WHERE key = ?4"
        );
        self.conn().execute(&copy, params![now.as_millis(), why.to_string(), name, key.to_row()])?;
        self.delete(table, key)?;
        if table == Table::Live {
            self.delete_lease(key)?;
        }
        Ok(id)
    }

    /// Up to `limit` records that were set aside after the one with this number: their numbers, ids and faults.
    pub fn set_aside_after(&self, number: i64, limit: usize) -> SqlResult<Vec<(i64, Vec<u8>, String)>> {
        let sql = "SELECT n, id, why FROM broken WHERE n > ?1 ORDER BY n LIMIT ?2";
        let mut select = self.conn().prepare_cached(sql)?;
        let rows = select.query_map(params![number, i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
            let id = column_bytes(row.get_ref(1)?).unwrap_or_default().to_vec();
            Ok((row.get(0)?, id, row.get::<_, Option<String>>(2)?.unwrap_or_default()))
        })?;
        rows.collect()
    }
}

/// Calls `visit` with the id of every job, in no particular order, until it returns `false`.
pub(crate) fn for_each_id(conn: &Connection, mut visit: impl FnMut(&str) -> bool) -> SqlResult<()> {
    // One statement sees one moment.
    let mut select = conn.prepare("SELECT id FROM rec UNION ALL SELECT id FROM dead")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let id = column_bytes(row.get_ref(0)?).and_then(|id| std::str::from_utf8(id).ok());
        if id.is_some_and(|id| !visit(id)) {
            break;
        }
    }
    Ok(())
}

/// Decodes a row whose columns from `from` on are id, topic, head and body.
pub(crate) fn decode_record(
    key: RowKey,
    row: &Row<'_>,
    from: usize,
) -> SqlResult<Result<Record, RecordError>> {
    let body = column_bytes(row.get_ref(from + 3)?);
    Ok(columns(key, row, from)?.and_then(|columns| columns.decode_record(body.ok_or(RecordError::Column)?)))
}

fn columns<'a>(
    key: RowKey,
    row: &'a Row<'_>,
    from: usize,
) -> SqlResult<Result<RecordColumns<'a>, RecordError>> {
    let (id, topic, head) = (row.get_ref(from)?, row.get_ref(from + 1)?, row.get_ref(from + 2)?);
    let columns = column_bytes(id).zip(column_bytes(topic)).zip(column_bytes(head));
    Ok(columns.map(|((id, topic), head)| RecordColumns { key, id, topic, head }).ok_or(RecordError::Column))
}
