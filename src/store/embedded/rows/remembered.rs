//! The statements over the table `remembered`: the ids of jobs that are gone.

use rusqlite::{OptionalExtension, Row, params};

use super::{
    checksum::{column_bytes, row_checksum},
    db::{Db, SqlResult},
    schema,
    text_keys::for_each_row,
};
use crate::job::{JobId, RememberedId, Timestamp};

const COLUMNS: &str = "SELECT id, value, checksum FROM remembered";

/// A remembered id, or the id in a row that is damaged.
pub(crate) type ReadRemembered = Result<RememberedId, String>;

impl Db {
    /// Remembers an id, in place of what was remembered of it.
    pub fn remember(&mut self, remembered: &RememberedId) -> SqlResult<()> {
        self.forget(&remembered.id)?;
        let (id, value) = (remembered.id.as_str(), remembered.encode());
        let row = params![
            id,
            remembered.until.as_millis(),
            value,
            row_checksum("remembered", &[id.as_bytes(), &value])
        ];
        self.conn().prepare_cached("INSERT INTO remembered VALUES (?1, ?2, ?3, ?4)")?.execute(row)?;
        self.remembered += 1;
        self.bytes_written += value.len();
        Ok(())
    }

    /// Forgets an id.
    pub fn forget(&mut self, id: &JobId) -> SqlResult<()> {
        self.begin()?;
        let mut delete = self.conn().prepare_cached("DELETE FROM remembered WHERE id = ?1")?;
        let forgotten = delete.execute([id.as_str()])?;
        drop(delete);
        self.remembered -= forgotten as u64;
        Ok(())
    }

    /// Forgets up to `limit` ids whose window ends at `until` or earlier, those first whose windows end first. Returns how many.
    pub fn forget_until(&mut self, until: Timestamp, limit: u64) -> SqlResult<u64> {
        self.begin()?;
        let sql = "DELETE FROM remembered WHERE id IN
            (SELECT id FROM remembered WHERE until_ms <= ?1 ORDER BY until_ms LIMIT ?2)";
        let mut delete = self.conn().prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let forgotten = delete.execute(params![until.as_millis(), limit])? as u64;
        drop(delete);
        self.remembered -= forgotten;
        Ok(forgotten)
    }

    /// What is remembered of an id; `None` also if its row is damaged, which `linger verify` reports.
    pub fn remembered(&self, id: &JobId) -> SqlResult<Option<RememberedId>> {
        let mut select = self.conn().prepare_cached(&format!("{COLUMNS} WHERE id = ?1"))?;
        let read = select.query_row([id.as_str()], read).optional()?;
        Ok(read.and_then(ReadRemembered::ok))
    }

    /// When the first window of an id ends.
    pub fn first_to_forget(&self) -> SqlResult<Option<Timestamp>> {
        let mut select = self.conn().prepare_cached("SELECT min(until_ms) FROM remembered")?;
        let first = select.query_row([], |row| row.get::<_, Option<i64>>(0))?;
        Ok(first.map(Timestamp::from_millis))
    }

    /// How many ids are remembered, counted anew.
    pub fn count_remembered(&self) -> SqlResult<u64> {
        let count: i64 = self.conn().query_row("SELECT count(*) FROM remembered", [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// Calls `visit` with each id behind `after`, in order, until it returns `false`. Returns where to go on then; `None` when there
    /// are no more. A store of an earlier version remembers none.
    pub fn for_each_remembered(
        &self,
        after: &[u8],
        mut visit: impl FnMut(ReadRemembered) -> bool,
    ) -> SqlResult<Option<Vec<u8>>> {
        if !schema::has_remembered(self.conn())? {
            return Ok(None);
        }
        let select = format!("{COLUMNS} WHERE id > ?1 ORDER BY id");
        for_each_row(self.conn(), &select, after, |row| Ok(visit(read(row)?)))
    }
}

/// Reads a row. A flipped bit may have changed the type of a column, which must not fail the query.
fn read(row: &Row<'_>) -> SqlResult<ReadRemembered> {
    let (id, value) = (column_bytes(row.get_ref(0)?), column_bytes(row.get_ref(1)?));
    let sum = column_bytes(row.get_ref(2)?);
    let remembered = || {
        let (id, value) = (id?, value?);
        let is_sound = sum? == row_checksum("remembered", &[id, value]);
        let id = JobId::parse(std::str::from_utf8(id).ok()?).ok()?;
        is_sound.then(|| RememberedId::decode(id, value)).flatten()
    };
    Ok(remembered().ok_or_else(|| String::from_utf8_lossy(id.unwrap_or_default()).into_owned()))
}
