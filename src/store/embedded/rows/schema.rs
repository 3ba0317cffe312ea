//! The database file: its identity, its tables, and how a connection to it is set up. Knows no job.

use std::{collections::BTreeMap, path::Path};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

use super::{db::LOCK_TIMEOUT, meta};
use crate::store::embedded::options::{Durability, OpenError};

/// `LNGR`, in SQLite's header (`PRAGMA application_id`).
const APPLICATION_ID: i64 = 0x4c4e_4752;
/// In SQLite's header (`PRAGMA user_version`) and nowhere else, so that no copy can differ.
const FORMAT: i64 = 2;
/// SQLite's default. Larger pages write more of the log for each small change.
pub(crate) const PAGE_BYTES: u64 = 4_096;

const TABLES: &str = "
    -- Every job that is not dead. key = milliseconds since 1970 << 15 | place.
    CREATE TABLE rec (
        key INTEGER PRIMARY KEY, id TEXT NOT NULL, topic TEXT NOT NULL, head BLOB NOT NULL, body BLOB NOT NULL
    ) STRICT;
    -- One row beside a record exactly while it is reserved. by: who reserved it. checksum: of the row, see `checksum.rs`.
    CREATE TABLE lease (
        key INTEGER PRIMARY KEY, attempts INTEGER NOT NULL, since_ms INTEGER NOT NULL, deadline_ms INTEGER NOT NULL,
        by TEXT NOT NULL, receipt BLOB NOT NULL, checksum BLOB NOT NULL
    ) STRICT;
    -- Dead letters. key as above, by the time of death.
    CREATE TABLE dead (
        key INTEGER PRIMARY KEY, id TEXT NOT NULL, topic TEXT NOT NULL, dead_ms INTEGER NOT NULL,
        head BLOB NOT NULL, body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX dead_by_topic ON dead (topic, dead_ms, id);
    -- Settings and pauses that differ from the defaults. value: see `job::topic_values`.
    CREATE TABLE topic (name TEXT PRIMARY KEY, value BLOB NOT NULL, checksum BLOB NOT NULL) STRICT, WITHOUT ROWID;
    -- clock: no moment later than this was ever acted on. run: see `meta.rs`. head: the store's head.
    CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL, checksum BLOB NOT NULL) STRICT, WITHOUT ROWID;
    -- Records that could not be read, as they were found.
    CREATE TABLE broken (
        n INTEGER PRIMARY KEY, found_ms INTEGER, why TEXT, source TEXT, key, id, topic, head, body
    );
";

/// Stores of earlier versions get it when they are opened for writing.
const SCHEDULES: &str = "
    -- Schedules. next_ms: when something is to be done next. checksum: of the row, see `checksum.rs`.
    CREATE TABLE schedule (
        name TEXT PRIMARY KEY, next_ms INTEGER, text BLOB NOT NULL, checksum BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX schedule_by_next ON schedule (next_ms) WHERE next_ms IS NOT NULL;
";

/// Stores of earlier versions get it, too.
const REMEMBERED: &str = "
    -- The ids of jobs that are gone. until_ms: when the id is forgotten. value: see `job::dedup`.
    CREATE TABLE remembered (
        id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL, value BLOB NOT NULL, checksum BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX remembered_by_end ON remembered (until_ms);
";

/// Stores of earlier versions get it, too.
const ARCHIVE: &str = "
    -- Records of what was done. key: the kind and the id. number: the place among those of the kind.
    CREATE TABLE archive (
        key TEXT PRIMARY KEY, kind TEXT NOT NULL, number INTEGER NOT NULL, at_ms INTEGER NOT NULL, content BLOB NOT NULL,
        checksum BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX archive_by_number ON archive (kind, number);
";

/// Opens `path` for writing or checkpointing, creating the file when it is missing or empty. Refuses files of other
/// programs and formats that this build does not know.
pub(crate) fn open_writer(path: &Path, durability: Durability) -> Result<Connection, OpenError> {
    let sqlite = |source: rusqlite::Error| not_ours(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let conn = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    set_up(&conn).map_err(sqlite)?;
    if is_blank(&conn).map_err(sqlite)? {
        create(&conn).map_err(sqlite)?;
    }
    identify(&conn, path)?;
    check_schema(&conn, path)?;
    if use_write_ahead_log(&conn).map_err(sqlite)? != "wal" {
        return Err(OpenError::Io {
            path: path.to_owned(),
            source: std::io::Error::other("this file system cannot hold a write-ahead log"),
        });
    }
    let synchronous = match durability {
        Durability::Always => "FULL",
        // NORMAL still syncs around checkpoints, which keeps the file sound; OFF would not.
        Durability::Interval(_) | Durability::Os => "NORMAL",
    };
    conn.pragma_update(None, "synchronous", synchronous).map_err(sqlite)?;
    Ok(conn)
}

/// Switches the file to a write-ahead log and returns the mode that it is in. SQLite returns the new mode before it
/// commits the switch, so the statement must run to its end to report that the commit failed.
fn use_write_ahead_log(conn: &Connection) -> rusqlite::Result<String> {
    let mut statement = conn.prepare("PRAGMA journal_mode = WAL")?;
    let mut rows = statement.query([])?;
    let mode = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?.get(0)?;
    rows.next()?;
    Ok(mode)
}

/// Opens `path` for reading only.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    let sqlite = |source| not_ours(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let conn = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    set_up(&conn).map_err(sqlite)?;
    conn.pragma_update(None, "query_only", true).map_err(sqlite)?;
    conn.pragma_update(None, "cache_size", -1_024).map_err(sqlite)?;
    Ok(conn)
}

/// Opens the store in `path`, which must exist, for reading only.
pub(crate) fn open_existing(path: &Path) -> Result<Connection, OpenError> {
    let conn = open_reader(path)?;
    identify(&conn, path)?;
    Ok(conn)
}

/// Opens a file that does not change, such as a backup: without locks, and without creating files beside it.
pub(crate) fn open_immutable(path: &Path) -> Result<Connection, OpenError> {
    let sqlite = |source| OpenError::Sqlite { path: path.to_owned(), source };
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let conn = Connection::open_with_flags(immutable_uri(path), flags).map_err(sqlite)?;
    set_up(&conn).map_err(|error| not_ours(path, error))?;
    identify(&conn, path)?;
    Ok(conn)
}

/// `path` as a URI, with every special character escaped.
fn immutable_uri(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/.-_".contains(&byte);
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match plain(byte) {
            true => uri.push(char::from(byte)),
            false => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri + "?immutable=1"
}

/// An empty store in memory.
#[cfg(test)]
pub(crate) fn in_memory() -> Connection {
    let conn = Connection::open_in_memory().expect("opens");
    set_up(&conn).expect("is set up");
    create(&conn).expect("is created");
    conn
}

fn set_up(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(LOCK_TIMEOUT)?;
    // A manipulated file must not run code of its own. `differences` finds such code, and these settings disable it
    // until then.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    // Closing must never remove the log: a missing log is how a lost one is recognised.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    conn.set_prepared_statement_cache_capacity(64);
    // No query plan here depends on the values, so plans need not be made again when they are bound.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // No memory map: an I/O error must be an error, not a signal. 32 MiB of cache: enough for the working
    // set of a busy queue, and a bound. Checkpoints are ours to choose.
    conn.execute_batch(
        "PRAGMA mmap_size = 0;
         PRAGMA cache_size = -32768;
         PRAGMA temp_store = MEMORY;
         PRAGMA cell_size_check = ON;
         PRAGMA wal_autocheckpoint = 0;",
    )?;
    // A backup or one large change may make the log much longer than usual; then it shrinks to this.
    conn.pragma_update(None, "journal_size_limit", 32 << 20)
}

/// Whether the file is new, also after a first start that was interrupted.
fn is_blank(conn: &Connection) -> rusqlite::Result<bool> {
    conn.query_row(
        "SELECT (SELECT count(*) FROM sqlite_schema) = 0
            AND (SELECT application_id FROM pragma_application_id) = 0
            AND (SELECT user_version FROM pragma_user_version) = 0",
        [],
        |row| row.get(0),
    )
}

fn create(conn: &Connection) -> rusqlite::Result<()> {
    // Auto-vacuum is fixed by the first page; asking for it later would write to the file.
    conn.execute_batch(&format!(
        "PRAGMA auto_vacuum = INCREMENTAL;
         BEGIN IMMEDIATE;
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {FORMAT};
         {TABLES}{SCHEDULES}{REMEMBERED}{ARCHIVE}"
    ))?;
    meta::create(conn)?;
    conn.execute_batch("COMMIT")
}

/// Adds the tables that a store of an earlier version has not.
pub(crate) fn add_missing_tables(conn: &Connection) -> rusqlite::Result<()> {
    for (is_there, tables) in [
        (has_schedules(conn)?, SCHEDULES),
        (has_remembered(conn)?, REMEMBERED),
        (has_archive(conn)?, ARCHIVE),
    ] {
        if !is_there {
            conn.execute_batch(&format!("BEGIN IMMEDIATE; {tables} COMMIT"))?;
        }
    }
    Ok(())
}

/// Whether the store has the table of the schedules, which one of an earlier version that was never opened since has not.
pub(crate) fn has_schedules(conn: &Connection) -> rusqlite::Result<bool> {
    has_any(conn, ["schedule", "schedule_by_next"])
}

/// The same of the table of remembered ids.
pub(crate) fn has_remembered(conn: &Connection) -> rusqlite::Result<bool> {
    has_any(conn, ["remembered", "remembered_by_end"])
}

/// The same of the archive.
pub(crate) fn has_archive(conn: &Connection) -> rusqlite::Result<bool> {
    has_any(conn, ["archive", "archive_by_number"])
}

fn has_any(conn: &Connection, names: [&str; 2]) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name IN (?1, ?2)";
    Ok(conn.query_row(sql, names, |row| row.get::<_, i64>(0))? > 0)
}

/// Refuses a file with another schema.
fn check_schema(conn: &Connection, path: &Path) -> Result<(), OpenError> {
    let differences = differences(conn).map_err(|source| not_ours(path, source))?;
    if differences.is_empty() {
        return Ok(());
    }
    Err(OpenError::Schema { path: path.to_owned(), what: differences.join(", ") })
}

/// How the tables, indexes, views and triggers differ from those of a new store, in words.
pub(crate) fn differences(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let new = Connection::open_in_memory()?;
    new.execute_batch(TABLES)?;
    if has_schedules(conn)? {
        new.execute_batch(SCHEDULES)?;
    }
    if has_remembered(conn)? {
        new.execute_batch(REMEMBERED)?;
    }
    if has_archive(conn)? {
        new.execute_batch(ARCHIVE)?;
    }
    let (ours, mut found) = (objects(&new)?, objects(conn)?);
    let mut differences = Vec::new();
    for (name, sql) in ours {
        match found.remove(&name) {
            None => differences.push(format!("{name} is missing")),
            Some(other) if other != sql => differences.push(format!("{name} is another one")),
            Some(_) => {}
        }
    }
    differences.extend(found.into_keys().map(|name| format!("{name} is not one of ours")));
    Ok(differences)
}

/// Each object by kind and name, with the statement that made it. Blanks do not count.
fn objects(conn: &Connection) -> rusqlite::Result<BTreeMap<String, Option<String>>> {
    // As blobs, because a damaged file may hold anything in them.
    let sql = "SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(sql AS BLOB) FROM sqlite_schema";
    let mut select = conn.prepare(sql)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let objects = select.query_map([], |row| {
        let name = format!("{} {:?}", text(row.get(0)?), text(row.get(1)?));
        let sql: Option<Vec<u8>> = row.get(2)?;
        Ok((name, sql.map(|sql| text(sql).split_ascii_whitespace().collect::<Vec<_>>().join(" "))))
    })?;
    objects.collect()
}

fn not_ours(path: &Path, source: rusqlite::Error) -> OpenError {
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotOurs { path: path.to_owned() },
        Some(_) | None => OpenError::Sqlite { path: path.to_owned(), source },
    }
}

fn identify(conn: &Connection, path: &Path) -> Result<(), OpenError> {
    let pragma = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let sqlite = |source| not_ours(path, source);
    if pragma("application_id").map_err(sqlite)? != APPLICATION_ID {
        return Err(OpenError::NotOurs { path: path.to_owned() });
    }
    let found = pragma("user_version").map_err(sqlite)?;
    if found != FORMAT {
        return Err(OpenError::UnknownFormat { path: path.to_owned(), found, known: FORMAT });
    }
    Ok(())
}
