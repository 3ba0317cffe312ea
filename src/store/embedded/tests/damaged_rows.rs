//! Damage in the rows that a start trusts, besides records: `topic` and `meta`.

use rusqlite::params;

use super::fixture::*;
use crate::{
    job::{Pause, PausedOperations, RetrySchedule, Timestamp, TopicSettings, Ttr},
    store::{
        Store, TopicConfig, TopicUpdates,
        embedded::{
            OpenError, inspect,
            rows::{
                db::Db,
                meta::{RunState, StoreHead, StoreId},
                schema,
            },
        },
    },
};

const NAME: &str = "the-only-topic";
const DELIVERY: PausedOperations = PausedOperations { delivery: true, intake: false };

fn config() -> TopicConfig {
    let settings = TopicSettings {
        ttr: Some(Ttr::new(seconds(5)).expect("valid")),
        max_attempts: Some(3),
        retry: Some(RetrySchedule::new(vec![seconds(1), seconds(9)]).expect("valid")),
        require_receipt: true,
        ..TopicSettings::default()
    };
    TopicConfig { settings, pause: DELIVERY.into(), ..TopicConfig::default() }
}

/// A store that was stopped, with one row in the table `topic`.
async fn stopped() -> Fixture {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    store.put_settings(&topic(NAME), config().settings).await.expect("sets");
    store.pause(&topic(NAME), DELIVERY, Pause::ENDLESS).await.expect("pauses");
    store.close().await.expect("closes");
    fixture
}

/// Flips each bit of the row, its record header and the length before that included, in the file itself.
#[tokio::test]
async fn every_flipped_bit_in_a_topics_row_is_noticed() {
    let fixture = stopped().await;
    let path = fixture.dir.path().join("linger.db");
    let mut bytes = std::fs::read(&path).expect("reads");
    let conn = schema::open_immutable(&path).expect("opens");
    let sql = "SELECT length(name) + length(value) + length(checksum) FROM topic";
    let row_bytes: u16 = conn.query_row(sql, [], |row| row.get(0)).expect("reads");
    let row_bytes = usize::from(row_bytes);
    let starts: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(NAME.as_bytes())).collect();
    let [start] = starts[..] else { panic!("the name is stored once: {starts:?}") };
    // The length of the row and its record header: four lengths of one or two bytes.
    let header_bytes = 5;
    let (mut noticed, mut harmless) = (0, 0);
    for bit in (start - header_bytes) * 8..(start + row_bytes) * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bytes).expect("writes");
        let read = Db::new(schema::open_immutable(&path).expect("opens")).topic_configs();
        match read.as_deref() {
            Err(_) | Ok([Err(_)]) => noticed += 1,
            // A longer row, or text that became a blob of the same bytes.
            Ok([Ok(row)]) if bit / 8 < start && *row == (topic(NAME), config()) => harmless += 1,
            Ok(rows) => panic!("bit {} of byte {}: {rows:?}", bit % 8, bit / 8 - (start - header_bytes)),
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(noticed + harmless, (header_bytes + row_bytes) * 8);
    assert!(noticed >= row_bytes * 8, "{noticed} noticed, {harmless} harmless");
}

#[tokio::test]
async fn a_damaged_topic_is_listed_and_can_be_set_again() {
    let fixture = stopped().await;
    let path = fixture.dir.path().join("linger.db");
    let edit = rusqlite::Connection::open(&path).expect("opens");
    edit.execute_batch("UPDATE topic SET value = substr(value, 2)").expect("runs");
    drop(edit);
    let expected = "the settings of topic \"the-only-topic\" are damaged";
    let inspected = inspect(&fixture.options, &*fixture.clock).expect("reads");
    assert_eq!(inspected.verified.faults, [expected]);
    let store = fixture.open().await;
    assert_eq!(store.topic_config(&topic(NAME)), TopicConfig::default().into());
    assert_eq!(store.verify().await.expect("reads").faults, [expected]);
    store.put_settings(&topic(NAME), config().settings).await.expect("sets");
    assert_eq!(store.verify().await.expect("reads").faults, [""; 0]);
}

/// A removed row of `meta` counts as damaged: each is written when the store is made.
#[tokio::test]
async fn damaged_and_missing_rows_of_meta_are_listed_and_mended() {
    for (name, expected) in [
        ("clock", "the clock's high-water mark cannot be read"),
        ("run", "how the last run ended cannot be read"),
        ("head", "the stored number of commits is damaged"),
    ] {
        for damage in [
            "DELETE FROM meta",
            "UPDATE meta SET value = zeroblob(length(value))",
            "UPDATE meta SET checksum = x'00'",
        ] {
            let fixture = Fixture::new();
            let store = fixture.open().await;
            add(&store, [job("a")]).await;
            sql(&store, &format!("{damage} WHERE name = '{name}'")).await;
            assert_eq!(store.verify().await.expect("reads").faults, [expected], "{damage}");
            let crashed = fixture.crashed();
            let inspected = inspect(&crashed.options, &*crashed.clock).expect("reads");
            assert_eq!(inspected.verified.faults, [expected], "{damage}");
            let store = crashed.open().await;
            assert_eq!(store.verify().await.expect("reads").faults, [""; 0], "{damage}");
            assert_eq!(names(&reserve(&store, 2).await), ["a"]);
        }
    }
}

#[tokio::test]
async fn the_statement_in_a_refusal_accepts_the_loss() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [job("a")]).await;
    let crashed = fixture.crashed();
    std::fs::remove_file(crashed.dir.path().join("linger.db-wal")).expect("removes");
    let refused = crashed.try_open().await.expect_err("is refused");
    assert!(matches!(refused, OpenError::Incomplete { .. }), "{refused}");
    let text = refused.to_string();
    let (_, statement) = text.split_once("linger.db \"").expect("it has a statement");
    let statement = statement.strip_suffix('"').expect("it ends with it");
    let edit = rusqlite::Connection::open(crashed.dir.path().join("linger.db")).expect("opens");
    edit.execute_batch(statement).expect("runs");
    drop(edit);
    crashed.open().await.close().await.expect("closes");
}

fn stored() -> Db {
    let mut db = Db::new(schema::in_memory());
    db.set_store_head(StoreHead { store: StoreId([7; 16]), commits: 299, jobs: Some(12) });
    db.set_run_state(RunState::Opening).expect("writes");
    db.commit(Timestamp::from_millis(1_800_000_000_000)).expect("commits");
    db
}

fn all(db: &Db) -> [bool; 3] {
    [
        db.clock_mark().expect("reads").is_some(),
        db.run_state().expect("reads").is_some(),
        db.read_store_head().expect("reads").is_some(),
    ]
}

#[test]
fn every_row_reads_back() {
    let db = stored();
    let head = StoreHead { store: StoreId([7; 16]), commits: 300, jobs: Some(12) };
    assert_eq!(db.clock_mark(), Ok(Some(Timestamp::from_millis(1_800_000_000_000))));
    assert_eq!(db.run_state(), Ok(Some(RunState::Opening)));
    assert_eq!((db.read_store_head(), db.store_head()), (Ok(Some(head)), head));
    for run in [RunState::Clean, RunState::Opening, RunState::Open] {
        db.conn().execute_batch(&run.statement()).expect("runs");
        assert_eq!(db.run_state(), Ok(Some(run)));
    }
}

#[test]
fn no_row_with_a_flipped_bit_reads_back() {
    for (at, name) in ["clock", "run", "head"].into_iter().enumerate() {
        for column in ["value", "checksum"] {
            let db = stored();
            let read = format!("SELECT {column} FROM meta WHERE name = ?1");
            let sound: Vec<u8> = db.conn().query_row(&read, [name], |row| row.get(0)).expect("reads");
            for bit in 0..sound.len() * 8 {
                let mut flipped = sound.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let sql = format!("UPDATE meta SET {column} = ?1 WHERE name = ?2");
                db.conn().execute(&sql, params![flipped, name]).expect("updates");
                assert!(!all(&db)[at], "bit {bit} of {column} of {name}");
            }
        }
    }
}

#[test]
fn rows_of_a_wrong_type_exchanged_and_missing_rows_do_not_read_back() {
    for sql in ["UPDATE meta SET value = 5", "DELETE FROM meta", "UPDATE meta SET checksum = x''"] {
        let db = stored();
        assert_eq!(all(&db), [true; 3]);
        db.conn().execute_batch(sql).expect("runs");
        assert_eq!(all(&db), [false; 3], "{sql}");
    }
    let db = stored();
    db.conn().execute_batch("DELETE FROM meta WHERE name = 'run'").expect("runs");
    db.conn().execute_batch("UPDATE meta SET name = 'run' WHERE name = 'clock'").expect("runs");
    assert_eq!(all(&db), [false, false, true]);
}
