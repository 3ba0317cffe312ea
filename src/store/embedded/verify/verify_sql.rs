//! The statements of a verification: every record with its body, and what SQLite says of its own file.
//! Changes nothing.

use rusqlite::{Connection, OptionalExtension};

use crate::store::embedded::rows::{
    codec::{Record, RecordError},
    key::RowKey,
    records::{Db, SqlResult, Table, decode_record},
};

impl Db {
    /// Shows `visit` every record from `from` on with its body, and the column `dead_ms` of a dead one, until
    /// it has had enough (`false`). The last key shown then; `None` when there are no more.
    pub fn records(
        &self,
        table: Table,
        from: RowKey,
        mut visit: impl FnMut(RowKey, Result<Record, RecordError>, Option<i64>) -> bool,
    ) -> SqlResult<Option<RowKey>> {
        let sql = match table {
            Table::Live => "SELECT key, id, topic, head, body, NULL FROM rec WHERE key >= ?1 ORDER BY key",
            Table::Dead => {
                "SELECT key, id, topic, head, body, dead_ms FROM dead WHERE key >= ?1 ORDER BY key"
            }
        };
        let mut select = self.conn().prepare_cached(sql)?;
        let mut rows = select.query([from.to_row()])?;
        while let Some(row) = rows.next()? {
            let Some(key) = RowKey::from_row(row.get(0)?) else { continue };
            if !visit(key, decode_record(key, row, 1)?, row.get(5)?) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Rows with keys that nothing here ever gives out, and that nothing here would ever look at.
    pub fn stray_rows(&self) -> SqlResult<i64> {
        let sql =
            "SELECT (SELECT count(*) FROM rec WHERE key < 0) + (SELECT count(*) FROM dead WHERE key < 0)
                        + (SELECT count(*) FROM lease WHERE key < 0)";
        self.conn().query_row(sql, [], |row| row.get(0))
    }

    /// Reservations on disk, readable or not.
    pub fn lease_count(&self) -> SqlResult<usize> {
        let count: i64 = self.conn().query_row("SELECT count(*) FROM lease", [], |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Records that were ever set aside.
    pub fn set_aside_count(&self) -> SqlResult<u64> {
        let count: i64 = self.conn().query_row("SELECT count(*) FROM broken", [], |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }

    /// The id that stands in a row, for naming it, whatever else is wrong with it.
    pub fn id_in(&self, table: Table, key: RowKey) -> SqlResult<Option<String>> {
        let sql = match table {
            Table::Live => "SELECT CAST(id AS BLOB) FROM rec WHERE key = ?1",
            Table::Dead => "SELECT CAST(id AS BLOB) FROM dead WHERE key = ?1",
        };
        let id = self.conn().query_row(sql, [key.to_row()], |row| row.get::<_, Vec<u8>>(0)).optional()?;
        Ok(id.map(|id| String::from_utf8_lossy(&id).into_owned()))
    }
}

/// What SQLite finds wrong with the structure of its file, indexes and constraints included; at most `limit`.
pub(crate) fn integrity(conn: &Connection, limit: usize) -> SqlResult<Vec<String>> {
    let mut check = conn.prepare(&format!("PRAGMA integrity_check({limit})"))?;
    let lines = check.query_map([], |row| row.get::<_, String>(0))?.collect::<SqlResult<Vec<_>>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").map(|line| format!("SQLite: {line}")).collect())
}
