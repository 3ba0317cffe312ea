//! The statements over the table `lease`: one row beside a record exactly while it is reserved.

use rusqlite::{Row, params};

use super::{
    checksum::{column_bytes, row_checksum},
    codec::Lease,
    db::{Db, SqlResult},
    key::RowKey,
};
use crate::job::{Receipt, Timestamp};

impl Lease {
    /// Whether the job replaced the version that was reserved.
    pub fn is_of_older(&self) -> bool {
        self.attempts == 0
    }
}

impl Db {
    /// Inserts or changes a reservation.
    pub fn set_lease(&mut self, key: RowKey, lease: &Lease) -> SqlResult<()> {
        self.begin()?;
        let Lease { deadline, receipt, attempts, since, by } = lease;
        let row = params![
            key.to_row(),
            attempts,
            since.as_millis(),
            deadline.as_millis(),
            by,
            receipt.as_bytes(),
            checksum(key, lease),
        ];
        let sql = "INSERT OR REPLACE INTO lease VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
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
        let mut select = self
            .conn()
            .prepare("SELECT key, attempts, since_ms, deadline_ms, by, receipt, checksum FROM lease")?;
        let leases = select.query_map([], |row| {
            let Some(key) = RowKey::from_row(row.get(0)?) else { return Ok(None) };
            Ok(Some((key, decode(key, row)?)))
        })?;
        leases.filter_map(Result::transpose).collect()
    }
}

/// The reservation in a row. A flipped bit may have changed the type of a column, which must not fail the query.
fn decode(key: RowKey, row: &Row<'_>) -> SqlResult<Option<Lease>> {
    let number = |column| row.get_ref(column).map(|value| value.as_i64().ok());
    let bytes = |column| row.get_ref(column).map(column_bytes);
    let (attempts, since, deadline) = (number(1)?, number(2)?, number(3)?);
    let (by, receipt, stored) = (bytes(4)?, bytes(5)?, bytes(6)?);
    let lease = || {
        let lease = Lease {
            deadline: Timestamp::from_millis(deadline?),
            receipt: Receipt::from_bytes(receipt?.try_into().ok()?),
            attempts: attempts?.try_into().ok()?,
            since: Timestamp::from_millis(since?),
            by: std::str::from_utf8(by?).ok()?.into(),
        };
        (stored? == checksum(key, &lease)).then_some(lease)
    };
    Ok(lease())
}

fn checksum(key: RowKey, lease: &Lease) -> [u8; 8] {
    let Lease { deadline, receipt, attempts, since, by } = lease;
    row_checksum(
        "lease",
        &[
            &key.to_bits().to_be_bytes(),
            &attempts.to_be_bytes(),
            &since.as_millis().to_be_bytes(),
            &deadline.as_millis().to_be_bytes(),
            by.as_bytes(),
            receipt.as_bytes(),
        ],
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::types::Value;

    use super::*;
    use crate::store::embedded::rows::schema;

    const COLUMNS: [&str; 6] = ["attempts", "since_ms", "deadline_ms", "by", "receipt", "checksum"];

    fn lease() -> Lease {
        Lease {
            deadline: Timestamp::from_millis(1_800_000_060_000),
            receipt: Receipt::from_bytes([7; 16]),
            attempts: 3,
            since: Timestamp::from_millis(1_800_000_000_000),
            by: "worker-1".into(),
        }
    }

    /// Every value that differs from `value` in one bit, or that is one byte shorter or longer.
    fn damaged(value: &Value) -> Vec<Value> {
        let flipped = |bytes: &[u8]| -> Vec<Vec<u8>> {
            let lengths = [bytes[1..].to_vec(), bytes[..bytes.len() - 1].to_vec(), [bytes, b"\0"].concat()];
            (0..bytes.len() * 8).map(|bit| flip(bytes, bit)).chain(lengths).collect()
        };
        match value {
            Value::Integer(number) => (0..64).map(|bit| Value::Integer(number ^ (1 << bit))).collect(),
            Value::Blob(bytes) => flipped(bytes).into_iter().map(Value::Blob).collect(),
            // STRICT allows no blob here, but text of any bytes.
            Value::Text(text) => flipped(text.as_bytes())
                .into_iter()
                .filter_map(|bytes| String::from_utf8(bytes).ok())
                .map(Value::Text)
                .collect(),
            Value::Null | Value::Real(_) => panic!("{value:?}"),
        }
    }

    fn flip(bytes: &[u8], bit: usize) -> Vec<u8> {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    }

    #[test]
    fn a_reservation_reads_back_and_no_flipped_bit_does() {
        let (mut db, key) = (Db::new(schema::in_memory()), RowKey::from_bits(9));
        db.set_lease(key, &lease()).expect("reserves");
        assert_eq!(db.leases().expect("reads"), [(key, Some(lease()))]);
        for column in COLUMNS {
            let read = format!("SELECT {column} FROM lease");
            let sound: Value = db.conn().query_row(&read, [], |row| row.get(0)).expect("reads");
            let set = |value: &Value| {
                let sql = format!("UPDATE lease SET {column} = ?1");
                db.conn().execute(&sql, [value]).expect("updates");
            };
            for value in damaged(&sound) {
                set(&value);
                assert_eq!(db.leases().expect("reads"), [(key, None)], "{column} = {value:?}");
            }
            set(&sound);
            assert_eq!(db.leases().expect("reads"), [(key, Some(lease()))], "{column} is sound again");
        }
        db.conn().execute("UPDATE lease SET key = 8", []).expect("updates");
        assert_eq!(db.leases().expect("reads"), [(RowKey::from_bits(8), None)]);
        db.conn().execute("UPDATE lease SET by = CAST(x'ff' AS TEXT)", []).expect("updates");
        assert_eq!(db.leases().expect("reads"), [(RowKey::from_bits(8), None)]);
    }
}
