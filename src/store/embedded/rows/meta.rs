//! The rows of the table `meta`, each with a checksum: the clock's high-water mark, how the last run ended, the
//! store's head, and the mark of a move. Each commit writes the head, so that files which do not belong together are
//! recognised at the next start. Knows the connection only, because `db.rs` uses it.

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::checksum::{column_bytes, row_checksum};
use crate::{job::Timestamp, store::MoveMark};

const CLOCK: &str = "clock";
const RUN: &str = "run";
const HEAD: &str = "head";
const MOVE: &str = "move";

const STORE_HEAD_BYTES: usize = 32;
const UNCOUNTED: u64 = u64::MAX;

/// How the last run ended. See `recovery/wal.rs` for what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunState {
    Clean,
    Opening,
    Open,
}

impl RunState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Opening => "opening",
            Self::Open => "open",
        }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        [Self::Clean, Self::Opening, Self::Open].into_iter().find(|run| run.as_str().as_bytes() == text)
    }

    /// A statement that stores this state, for users.
    pub fn statement(self) -> String {
        let checksum = u64::from_be_bytes(checksum(RUN, self.as_str().as_bytes()));
        format!("INSERT OR REPLACE INTO meta VALUES ('{RUN}', '{}', x'{checksum:016x}')", self.as_str())
    }
}

/// Identifies a store: random, chosen when the store is made, the same in every copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreId(pub [u8; 16]);

impl StoreId {
    /// The id as texts show it.
    pub fn to_text(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The mark of a move is there and cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the mark of a move is damaged, so it is not known whether its jobs were moved away; `linger export` still reads it"
)]
pub(crate) struct DamagedMark;

/// The progress of a store as its database records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreHead {
    pub store: StoreId,
    pub commits: u64,
    /// Number of jobs, dead letters included; `None` when they have not been counted.
    pub jobs: Option<u64>,
}

impl StoreHead {
    /// The head of a new store.
    pub fn new() -> Self {
        Self { store: StoreId(rand::random()), commits: 0, jobs: None }
    }

    pub fn encode(&self) -> [u8; STORE_HEAD_BYTES] {
        let mut bytes = [0; STORE_HEAD_BYTES];
        bytes[..16].copy_from_slice(&self.store.0);
        bytes[16..24].copy_from_slice(&self.commits.to_be_bytes());
        bytes[24..].copy_from_slice(&self.jobs.unwrap_or(UNCOUNTED).to_be_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; STORE_HEAD_BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let store = StoreId(bytes[..16].try_into().expect("sixteen bytes"));
        let jobs = Some(number(24)).filter(|jobs| *jobs != UNCOUNTED);
        Some(Self { store, commits: number(16), jobs })
    }
}

/// The clock's high-water mark; `None` when it is damaged or missing.
pub(super) fn clock_mark(conn: &Connection) -> Result<Option<Timestamp>> {
    let mark = read(conn, CLOCK)?.and_then(|bytes| bytes.try_into().ok());
    Ok(mark.map(|bytes| Timestamp::from_millis(i64::from_be_bytes(bytes))))
}

/// How the last run ended; `None` when that is damaged or missing.
pub(super) fn run_state(conn: &Connection) -> Result<Option<RunState>> {
    Ok(read(conn, RUN)?.and_then(|text| RunState::parse(&text)))
}

/// The head of the store; `None` when it is damaged or missing.
pub(super) fn store_head(conn: &Connection) -> Result<Option<StoreHead>> {
    Ok(read(conn, HEAD)?.and_then(|bytes| StoreHead::decode(&bytes)))
}

/// Inserts the rows of a new store.
pub(super) fn create(conn: &Connection) -> Result<()> {
    put_progress(conn, Timestamp::from_millis(0), StoreHead::new())?;
    put_run_state(conn, RunState::Clean)
}

/// Stores the clock's high-water mark and the head of the store.
pub(super) fn put_progress(conn: &Connection, clock: Timestamp, head: StoreHead) -> Result<()> {
    put(conn, CLOCK, &clock.as_millis().to_be_bytes())?;
    put(conn, HEAD, &head.encode())
}

/// Stores how the last run ended.
pub(crate) fn put_run_state(conn: &Connection, run: RunState) -> Result<()> {
    put(conn, RUN, run.as_str().as_bytes())
}

/// The mark of a move; an error in place of one that is damaged.
pub(super) fn move_mark(conn: &Connection) -> Result<Option<std::result::Result<MoveMark, DamagedMark>>> {
    let is_there =
        conn.query_row("SELECT count(*) FROM meta WHERE name = ?1", [MOVE], |row| row.get::<_, i64>(0))? > 0;
    let mark = read(conn, MOVE)?.and_then(|bytes| MoveMark::decode(&bytes));
    Ok(is_there.then(|| mark.ok_or(DamagedMark)))
}

/// Stores the mark of a move, or removes it.
pub(super) fn put_move_mark(conn: &Connection, mark: Option<&MoveMark>) -> Result<()> {
    match mark {
        Some(mark) => put(conn, MOVE, mark.encode().as_bytes()),
        None => conn.execute("DELETE FROM meta WHERE name = ?1", [MOVE]).map(drop),
    }
}

fn put(conn: &Connection, name: &str, value: &[u8]) -> Result<()> {
    let mut insert = conn.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2, ?3)")?;
    insert.execute(params![name, value, checksum(name, value)]).map(drop)
}

/// The value of a row; `None` when the row is damaged or missing.
fn read(conn: &Connection, name: &str) -> Result<Option<Vec<u8>>> {
    let sql = "SELECT value, checksum FROM meta WHERE name = ?1";
    let value = conn.query_row(sql, [name], |row| {
        let (value, stored) = (column_bytes(row.get_ref(0)?), column_bytes(row.get_ref(1)?));
        let sound = value.filter(|value| stored == Some(&checksum(name, value)));
        Ok(sound.map(<[u8]>::to_vec))
    });
    Ok(value.optional()?.flatten())
}

fn checksum(name: &str, value: &[u8]) -> [u8; 8] {
    row_checksum("meta", &[name.as_bytes(), value])
}
