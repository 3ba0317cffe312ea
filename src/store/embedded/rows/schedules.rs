//! The statements over the table `schedule`: the schedules, whose text only `job::schedule` reads.

use rusqlite::{OptionalExtension, Row, params};

use super::{
    checksum::{column_bytes, row_checksum},
    db::{Db, SqlResult},
    schema,
    text_keys::for_each_row,
};
use crate::{
    job::{ScheduleName, Timestamp},
    store::{DUE_BYTES, ScheduleContent, StoredSchedule},
};

const COLUMNS: &str = "SELECT name, next_ms, text, checksum FROM schedule";

/// A schedule, or the name in a row that is damaged.
pub(crate) type ReadSchedule = Result<StoredSchedule, String>;

impl Db {
    /// Replaces a schedule, or deletes it.
    pub fn put_schedule(&mut self, name: &ScheduleName, content: Option<&ScheduleContent>) -> SqlResult<()> {
        self.begin()?;
        let Some(ScheduleContent { next, text }) = content else {
            let mut delete = self.conn().prepare_cached("DELETE FROM schedule WHERE name = ?1")?;
            delete.execute([name.as_str()])?;
            return Ok(());
        };
        let next = next.map(Timestamp::as_millis);
        let row = params![name.as_str(), next, &text[..], checksum(name.as_str().as_bytes(), next, text)];
        let mut put =
            self.conn().prepare_cached("INSERT OR REPLACE INTO schedule VALUES (?1, ?2, ?3, ?4)")?;
        put.execute(row)?;
        drop(put);
        self.bytes_written += text.len();
        Ok(())
    }

    /// The schedule with this name.
    pub fn schedule(&self, name: &ScheduleName) -> SqlResult<Option<ReadSchedule>> {
        let mut select = self.conn().prepare_cached(&format!("{COLUMNS} WHERE name = ?1"))?;
        select.query_row([name.as_str()], read).optional()
    }

    /// Up to `limit` schedules by name, after `after`.
    pub fn schedules(&self, after: Option<&ScheduleName>, limit: usize) -> SqlResult<Vec<ReadSchedule>> {
        let sql = format!("{COLUMNS} WHERE name > ?1 ORDER BY name LIMIT ?2");
        let mut select = self.conn().prepare_cached(&sql)?;
        let after = after.map_or("", ScheduleName::as_str);
        select.query_map(params![after, sql_limit(limit)], read)?.collect()
    }

    /// How many schedules there are.
    pub fn schedule_count(&self) -> SqlResult<usize> {
        let count: i64 = self.conn().query_row("SELECT count(*) FROM schedule", [], |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Calls `visit` with each schedule behind `after`, by name, until it returns `false`. Returns where to go on then; `None` when
    /// there are no more. A name may be damaged, so it may be any bytes. A store of an earlier version has no schedules.
    pub fn for_each_schedule(
        &self,
        after: &[u8],
        mut visit: impl FnMut(ReadSchedule) -> bool,
    ) -> SqlResult<Option<Vec<u8>>> {
        if !schema::has_schedules(self.conn())? {
            return Ok(None);
        }
        let select = format!("{COLUMNS} WHERE name > ?1 ORDER BY name");
        for_each_row(self.conn(), &select, after, |row| Ok(visit(read(row)?)))
    }

    /// Up to `limit` schedules whose next moment is this or earlier, by that moment, and fewer if they are large.
    pub fn due_schedules(&self, until: Timestamp, limit: usize) -> SqlResult<Vec<ReadSchedule>> {
        let sql = format!("{COLUMNS} WHERE next_ms <= ?1 ORDER BY next_ms LIMIT ?2");
        let mut select = self.conn().prepare_cached(&sql)?;
        let (mut due, mut bytes) = (Vec::new(), 0);
        for schedule in select.query_map(params![until.as_millis(), sql_limit(limit)], read)? {
            let schedule = schedule?;
            bytes += schedule.as_ref().map_or(0, |schedule| schedule.content.text.len());
            due.push(schedule);
            if bytes > DUE_BYTES {
                break;
            }
        }
        Ok(due)
    }

    /// The first next moment of a schedule that is later than this one.
    pub fn next_schedule_after(&self, moment: Timestamp) -> SqlResult<Option<Timestamp>> {
        let sql = "SELECT min(next_ms) FROM schedule WHERE next_ms > ?1";
        let mut select = self.conn().prepare_cached(sql)?;
        let next = select.query_row([moment.as_millis()], |row| row.get::<_, Option<i64>>(0))?;
        Ok(next.map(Timestamp::from_millis))
    }
}

fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Reads a row. A flipped bit may have changed the type of a column, which must not fail the query.
fn read(row: &Row<'_>) -> SqlResult<ReadSchedule> {
    let (name, next, text) = (row.get_ref(0)?, row.get_ref(1)?, row.get_ref(2)?);
    let (name, text, sum) = (column_bytes(name), column_bytes(text), column_bytes(row.get_ref(3)?));
    let schedule = || {
        let (name, text, next) = (name?, text?, next.as_i64_or_null().ok()?);
        if sum? != checksum(name, next, text) {
            return None;
        }
        let parsed = std::str::from_utf8(name).ok().and_then(|name| ScheduleName::parse(name).ok())?;
        let content = ScheduleContent { next: next.map(Timestamp::from_millis), text: text.to_vec().into() };
        Some(StoredSchedule { name: parsed, content })
    };
    Ok(schedule().ok_or_else(|| String::from_utf8_lossy(name.unwrap_or_default()).into_owned()))
}

fn checksum(name: &[u8], next: Option<i64>, text: &[u8]) -> [u8; 8] {
    let next = next.map(i64::to_be_bytes);
    row_checksum("schedule", &[name, next.as_ref().map_or(&[], |next| &next[..]), text])
}
