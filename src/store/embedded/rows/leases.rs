//! The statements over the table `lease`: one row beside a record exactly while it is reserved.

use rusqlite::params;

use super::{
    checksum::{decode_lease, encode_lease_receipt},
    codec::Lease,
    db::{Db, SqlResult, column_bytes},
    key::RowKey,
};

impl Db {
    /// Inserts or changes a reservation.
    pub fn set_lease(&mut self, key: RowKey, lease: &Lease) -> SqlResult<()> {
        self.begin()?;
        let sql =
            "INSERT OR REPLACE INTO lease (key, attempts, deadline_ms, receipt) VALUES (?1, ?2, ?3, ?4)";
        let receipt = encode_lease_receipt(key, lease);
        let row = params![key.to_row(), lease.attempts, lease.deadline.as_millis(), receipt];
        self.conn().prepare_cached(sql)?.execute(row)?;
        Ok(())
    }

    /// Deletes a reservation.
    pub fn delete_lease(&mut self, key: RowKey) -> SqlResult<()> {
        self.begin()?;
        self.conn().prepare_cached("DELETE FROM lease WHERE key = ?1")?.execute([key.to_row()])?;
        Ok(())
    }

    /// Every reservation; `None` for a damaged one.
    pub fn leases(&self) -> SqlResult<Vec<(RowKey, Option<Lease>)>> {
        let mut select = self.conn().prepare("SELECT key, attempts, deadline_ms, receipt FROM lease")?;
        let leases = select.query_map([], |row| {
            let Some(key) = RowKey::from_row(row.get(0)?) else { return Ok(None) };
            // A flipped bit may have changed the type of a column, which must not fail the query.
            let number = |column| row.get_ref(column).map(|value| value.as_i64().ok());
            let (attempts, deadline_ms, receipt) = (number(1)?, number(2)?, column_bytes(row.get_ref(3)?));
            let columns = attempts.zip(deadline_ms).zip(receipt);
            let lease =
                columns.and_then(|((attempts, ms), receipt)| decode_lease(key, attempts, ms, receipt));
            Ok(Some((key, lease)))
        })?;
        leases.filter_map(Result::transpose).collect()
    }
}
