//! The statements over the table `topic`: what is set for a topic and differs from the defaults, as tagged values
//! (`job::topic_values`). Values whose tag is unknown, written by a later version, are kept.

use rusqlite::{OptionalExtension, Row, params};

use super::{
    checksum::{column_bytes, row_checksum},
    db::{Db, SqlResult},
};
use crate::{
    job::{Attributes, Topic},
    store::{TopicConfig, TopicRecord, TopicValues},
};

impl Db {
    /// Replaces all values of a topic.
    pub fn put_topic_values(&mut self, name: &str, values: &[u8]) -> SqlResult<()> {
        self.begin()?;
        if values.is_empty() {
            self.conn().execute("DELETE FROM topic WHERE name = ?1", [name])?;
            return Ok(());
        }
        let row = params![name, values, checksum(name.as_bytes(), values)];
        self.conn().execute("INSERT OR REPLACE INTO topic VALUES (?1, ?2, ?3)", row)?;
        Ok(())
    }

    /// The configuration in each row; `Err` has the name in a row that is damaged.
    pub fn topic_configs(&self) -> SqlResult<Vec<Result<(Topic, TopicConfig), String>>> {
        let mut select = self.conn().prepare("SELECT name, value, checksum FROM topic")?;
        let configs = select.query_map([], |row| {
            let config = decode_row(row)?
                .and_then(|(name, values)| Some((Topic::parse(name).ok()?, TopicConfig::decode(&values)?)));
            let name = column_bytes(row.get_ref(0)?).unwrap_or_default();
            Ok(config.ok_or_else(|| String::from_utf8_lossy(name).into_owned()))
        })?;
        configs.collect()
    }

    /// What is stored for each topic; `Err` has the name in a row that is damaged.
    pub fn topic_records(&self) -> SqlResult<Vec<Result<TopicRecord, String>>> {
        let mut select = self.conn().prepare("SELECT name, value, checksum FROM topic ORDER BY name")?;
        let records = select.query_map([], |row| {
            let record = decode_row(row)?
                .and_then(|(name, values)| TopicRecord::decode(Topic::parse(name).ok()?, &stored(&values)));
            let name = column_bytes(row.get_ref(0)?).unwrap_or_default();
            Ok(record.ok_or_else(|| String::from_utf8_lossy(name).into_owned()))
        })?;
        records.collect()
    }

    /// All values of a topic; none when its row is missing or damaged.
    pub fn topic_values(&self, name: &str) -> SqlResult<TopicValues> {
        let sql = "SELECT name, value, checksum FROM topic WHERE name = ?1";
        let values = self.conn().query_row(sql, [name], |row| {
            let values = decode_row(row)?.map(|(_, values)| stored(&values));
            Ok(values.filter(|values| values.config().is_some()).unwrap_or_default())
        });
        Ok(values.optional()?.unwrap_or_default())
    }
}

fn stored(values: &Attributes) -> TopicValues {
    TopicValues::new(values.as_bytes().to_vec())
}

/// The name and the values in a row; `None` when it is damaged. A flipped bit may have changed the type of a column,
/// which must not fail the query.
fn decode_row<'a>(row: &'a Row<'_>) -> SqlResult<Option<(&'a str, Attributes)>> {
    let bytes = |column| row.get_ref(column).map(column_bytes);
    let (name, value, stored) = (bytes(0)?, bytes(1)?, bytes(2)?);
    let row = || {
        let sound = stored? == checksum(name?, value?);
        Some((std::str::from_utf8(name?).ok()?, Attributes::decode(value?)?)).filter(|_| sound)
    };
    Ok(row())
}

fn checksum(name: &[u8], value: &[u8]) -> [u8; 8] {
    row_checksum("topic", &[name, value])
}
