//! Reads the rows of a table with a text as its key, in the order of the keys, although any column of a row may be damaged.

use rusqlite::{
    Connection, Row,
    types::{ToSqlOutput, ValueRef},
};

use super::{checksum::column_bytes, db::SqlResult};

/// Calls `visit` with each row of `select`, whose first column is its key and whose only parameter is the key before the first
/// row, until it returns `false`. Returns the key after which to go on then; `None` when there are no more rows.
pub(super) fn for_each_row(
    conn: &Connection,
    select: &str,
    after: &[u8],
    mut visit: impl FnMut(&Row<'_>) -> SqlResult<bool>,
) -> SqlResult<Option<Vec<u8>>> {
    let mut select = conn.prepare_cached(select)?;
    let mut rows = select.query([ToSqlOutput::Borrowed(ValueRef::Text(after))])?;
    let mut last = after.to_vec();
    while let Some(row) = rows.next()? {
        // Damaged keys may be out of order. The position always rises, so that the reading ends.
        last = last.max(column_bytes(row.get_ref(0)?).unwrap_or_default().to_vec());
        if !visit(row)? {
            return Ok((last.as_slice() > after).then_some(last));
        }
    }
    Ok(None)
}
