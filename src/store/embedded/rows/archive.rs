//! The statements over the table `archive`: records of what was done, whose text only `queue` reads.

use rusqlite::{OptionalExtension, Row, params};

use super::{
    checksum::{column_bytes, row_checksum},
    db::{Db, SqlResult},
    schema,
    text_keys::for_each_row,
};
use crate::{
    job::Timestamp,
    store::{ArchiveContent, ArchiveKind, ArchivedRecord, TOO_OLD_AT_ONCE},
};

const COLUMNS: &str = "SELECT key, kind, number, at_ms, content, checksum FROM archive";

/// A record of the archive, or the key of a row that is damaged.
pub(crate) type ReadArchived = Result<ArchivedRecord, String>;

impl Db {
    /// Writes a record. A new one has the moment `now`, and removes expired ones.
    pub fn put_archived(
        &mut self,
        kind: ArchiveKind,
        id: &str,
        content: &ArchiveContent,
        now: Timestamp,
    ) -> SqlResult<()> {
        self.begin()?;
        let known = self.archived(kind, id)?.and_then(ReadArchived::ok);
        let (number, at) = match &known {
            Some(known) => (known.number, known.at),
            None => (self.last_archived(kind)? + 1, now),
        };
        let (kind_letter, text) = (letter(kind), content.as_bytes());
        let (key, number, at_ms) = (key(kind, id), sql_number(number), at.as_millis());
        let sum = checksum(key.as_bytes(), kind_letter.as_bytes(), number, at_ms, text);
        let mut put =
            self.conn().prepare_cached("INSERT OR REPLACE INTO archive VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
        put.execute(params![key, kind_letter, number, at_ms, text, sum])?;
        drop(put);
        self.bytes_written += text.len();
        if known.is_some() {
            return Ok(());
        }
        let mut delete =
            self.conn().prepare_cached("DELETE FROM archive WHERE kind = ?1 AND number <= ?2")?;
        delete.execute(params![kind_letter, number - sql_number(kind.most())])?;
        let old = "DELETE FROM archive WHERE at_ms < ?2 AND key IN
            (SELECT key FROM archive WHERE kind = ?1 ORDER BY number LIMIT ?3)";
        let oldest = now.as_millis() - sql_number(kind.kept_for().as_secs() * 1_000);
        self.conn().prepare_cached(old)?.execute(params![
            kind_letter,
            oldest,
            sql_number(TOO_OLD_AT_ONCE)
        ])?;
        Ok(())
    }

    /// The record with this id.
    pub fn archived(&self, kind: ArchiveKind, id: &str) -> SqlResult<Option<ReadArchived>> {
        let mut select = self.conn().prepare_cached(&format!("{COLUMNS} WHERE key = ?1"))?;
        select.query_row([key(kind, id)], read).optional()
    }

    /// Up to `limit` records with lower numbers than `before`, the newest first.
    pub fn archived_page(
        &self,
        kind: ArchiveKind,
        before: Option<u64>,
        limit: usize,
    ) -> SqlResult<Vec<ReadArchived>> {
        let sql = format!("{COLUMNS} WHERE kind = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3");
        let before = before.map_or(i64::MAX, sql_number);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.conn().prepare_cached(&sql)?.query_map(params![letter(kind), before, limit], read)?.collect()
    }

    /// The number of the latest record that is sound; 0 without one.
    fn last_archived(&self, kind: ArchiveKind) -> SqlResult<u64> {
        let sql = format!("{COLUMNS} WHERE kind = ?1 ORDER BY number DESC");
        let mut select = self.conn().prepare_cached(&sql)?;
        for record in select.query_map([letter(kind)], read)? {
            if let Ok(record) = record? {
                return Ok(record.number);
            }
        }
        Ok(0)
    }

    /// Calls `visit` with each record behind the key `after`, until it returns `false`. Returns where to go on then; `None` when
    /// there are no more. A store of an earlier version has none.
    pub fn for_each_archived(
        &self,
        after: &[u8],
        mut visit: impl FnMut(ReadArchived) -> bool,
    ) -> SqlResult<Option<Vec<u8>>> {
        if !schema::has_archive(self.conn())? {
            return Ok(None);
        }
        let select = format!("{COLUMNS} WHERE key > ?1 ORDER BY key");
        for_each_row(self.conn(), &select, after, |row| Ok(visit(read(row)?)))
    }
}

/// What the keys of a kind begin with.
const fn letter(kind: ArchiveKind) -> &'static str {
    match kind {
        ArchiveKind::Call => "c",
        ArchiveKind::Operation => "o",
    }
}

fn key(kind: ArchiveKind, id: &str) -> String {
    [letter(kind), id].concat()
}

fn sql_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a row. A flipped bit may have changed the type of a column, which must not fail the query.
fn read(row: &Row<'_>) -> SqlResult<ReadArchived> {
    let (key, kind, content) = (row.get_ref(0)?, row.get_ref(1)?, row.get_ref(4)?);
    let [key, kind, content, sum] = [key, kind, content, row.get_ref(5)?].map(column_bytes);
    let (number, at) = (row.get_ref(2)?.as_i64().ok(), row.get_ref(3)?.as_i64().ok());
    let record = || {
        let (key, kind, content, number, at) = (key?, kind?, content?, number?, at?);
        if sum? != checksum(key, kind, number, at, content) {
            return None;
        }
        Some(ArchivedRecord {
            number: u64::try_from(number).ok()?,
            id: std::str::from_utf8(key.strip_prefix(kind)?).ok()?.to_owned(),
            at: Timestamp::from_millis(at),
            content: content.to_vec().into(),
        })
    };
    Ok(record().ok_or_else(|| String::from_utf8_lossy(key.unwrap_or_default()).into_owned()))
}

fn checksum(key: &[u8], kind: &[u8], number: i64, at_ms: i64, content: &[u8]) -> [u8; 8] {
    row_checksum("archive", &[key, kind, &number.to_be_bytes(), &at_ms.to_be_bytes(), content])
}
