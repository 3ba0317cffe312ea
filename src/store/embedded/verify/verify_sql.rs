//! The SQL statements of a verification. They only read.

use rusqlite::{Connection, OptionalExtension};

use crate::store::embedded::rows::{
    codec::{Record, RecordError},
    db::{Db, SqlResult, Table},
    key::RowKey,
    records::decode_record,
};

/// Calls `visit` with every record from `from` on, its body included, and the column `dead_ms` of a dead letter,
/// until it returns `false`. Returns the last key then; `None` when there are no more.
pub(super) fn for_each_record(
    db: &Db,
    table: Table,
    from: RowKey,
    mut visit: impl FnMut(RowKey, Result<Record, RecordError>, Option<i64>) -> bool,
) -> SqlResult<Option<RowKey>> {
    let sql = match table {
        Table::Live => "SELECT key, id, topic, head, body, NULL FROM rec WHERE key >= ?1 ORDER BY key",
        Table::Dead => "SELECT key, id, topic, head, body, dead_ms FROM dead WHERE key >= ?1 ORDER BY key",
    };
    let mut select = db.conn().prepare_cached(sql)?;
    let mut rows = select.query([from.to_row()])?;
    while let Some(row) = rows.next()? {
        let Some(key) = RowKey::from_row(row.get(0)?) else { continue };
        if !visit(key, decode_record(key, row, 1)?, row.get(5)?) {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Number of rows with keys that are never given out, and so never read.
pub(super) fn stray_rows(db: &Db) -> SqlResult<i64> {
    let sql = "SELECT (SELECT count(*) FROM rec WHERE key < 0) + (SELECT count(*) FROM dead WHERE key < 0)
                    + (SELECT count(*) FROM lease WHERE key < 0)";
    db.conn().query_row(sql, [], |row| row.get(0))
}

/// Number of reservations on disk, readable or not.
pub(super) fn lease_count(db: &Db) -> SqlResult<usize> {
    let count: i64 = db.conn().query_row("SELECT count(*) FROM lease", [], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Number of records that were ever set aside.
pub(crate) fn set_aside_count(db: &Db) -> SqlResult<u64> {
    let count: i64 = db.conn().query_row("SELECT count(*) FROM broken", [], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// The id in a row, to name it, whatever else is wrong with it.
pub(super) fn stored_id(db: &Db, table: Table, key: RowKey) -> SqlResult<Option<String>> {
    let sql = match table {
        Table::Live => "SELECT CAST(id AS BLOB) FROM rec WHERE key = ?1",
        Table::Dead => "SELECT CAST(id AS BLOB) FROM dead WHERE key = ?1",
    };
    let id = db.conn().query_row(sql, [key.to_row()], |row| row.get::<_, Vec<u8>>(0)).optional()?;
    Ok(id.map(|id| String::from_utf8_lossy(&id).into_owned()))
}

/// Faults that SQLite finds in the structure of its file, indexes and constraints included; at most `limit`.
pub(crate) fn integrity(conn: &Connection, limit: usize) -> SqlResult<Vec<String>> {
    let mut check = conn.prepare(&format!("PRAGMA integrity_check({limit})"))?;
    let lines = check.query_map([], |row| row.get::<_, String>(0))?.collect::<SqlResult<Vec<_>>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").map(|line| format!("SQLite: {line}")).collect())
}
