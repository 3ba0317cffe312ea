//! The statements over the table `meta`: the clock's high-water mark, how the last run ended, the store's head.

use rusqlite::{
    OptionalExtension,
    types::{Value, ValueRef},
};

use super::{
    checksum::decode_clock,
    db::{Db, SqlResult},
    store_head::{HeadState, StoreHead},
};
use crate::job::Timestamp;

/// How the last run ended. See `recovery/wal.rs` for what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunState {
    Clean,
    Opening,
    Open,
}

impl RunState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Opening => "opening",
            Self::Open => "open",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Clean, Self::Opening, Self::Open].into_iter().find(|run| run.as_str() == text)
    }
}

impl Db {
    /// The clock's high-water mark: no later moment was ever acted on. `None` when it is damaged.
    pub fn clock_mark(&self) -> SqlResult<Option<Timestamp>> {
        let sql = "SELECT value FROM meta WHERE name = 'clock_ms'";
        let mark = self.conn().query_row(sql, [], |row| {
            Ok(match row.get_ref(0)? {
                // Versions before checksums wrote a plain number.
                ValueRef::Integer(ms) => Some(Timestamp::from_millis(ms)),
                ValueRef::Blob(bytes) => decode_clock(bytes),
                ValueRef::Null | ValueRef::Real(_) | ValueRef::Text(_) => None,
            })
        });
        Ok(mark.optional()?.flatten())
    }

    /// How the last run ended; an unknown value counts as [`RunState::Open`].
    pub fn run_state(&self) -> SqlResult<RunState> {
        let sql = "SELECT value FROM meta WHERE name = 'run'";
        let text: String = self.conn().query_row(sql, [], |row| row.get(0))?;
        Ok(RunState::parse(&text).unwrap_or(RunState::Open))
    }

    /// The stored head of the store.
    pub fn read_store_head(&self) -> SqlResult<HeadState> {
        let sql = "SELECT value FROM meta WHERE name = 'link'";
        let value = self.conn().query_row(sql, [], |row| row.get::<_, Value>(0)).optional()?;
        Ok(match value {
            None => HeadState::Missing,
            Some(Value::Blob(bytes)) => {
                StoreHead::decode(&bytes).map_or(HeadState::Damaged, HeadState::Known)
            }
            Some(Value::Null | Value::Integer(_) | Value::Real(_) | Value::Text(_)) => HeadState::Damaged,
        })
    }

    pub fn set_run_state(&mut self, run: RunState) -> SqlResult<()> {
        self.begin()?;
        self.conn().execute("UPDATE meta SET value = ?1 WHERE name = 'run'", [run.as_str()])?;
        Ok(())
    }
}
