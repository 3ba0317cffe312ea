//! Attributes that no version writes yet, in rows of the embedded engine. This code follows the description of a record
//! in `rows/codec.rs` and does not use the codec, so that a change of the format is noticed.

use std::path::Path;

use rusqlite::{Connection, params};
use xxhash_rust::xxh3::Xxh3;

/// Jobs of the content, and their attributes: a tag of the private range, and one of a later version.
const TAGGED: [(&str, &[u8]); 2] = [("patient", b"\xfa\0\x07private"), ("strict", b"\x64\0\x05later")];
/// After the attributes: the checksums of the body and of the head.
const CHECKSUM_BYTES: usize = 8 + 8;

fn rows(directory: &Path) -> Connection {
    Connection::open(directory.join("linger.db")).expect("opens")
}

/// Adds the attributes to the jobs, which have none, in a store that is open.
pub fn add_to(directory: &Path) {
    let conn = rows(directory);
    for (id, attributes) in TAGGED {
        let sql = "SELECT key, topic, head FROM rec WHERE id = ?1";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (key, topic, old): (i64, String, Vec<u8>) = conn.query_row(sql, [id], row).expect("is there");
        let (fields, sums) = old.split_at(old.len() - CHECKSUM_BYTES);
        let fields = fields.strip_suffix(&[0, 0]).expect("the job has no attributes");
        let len = u16::try_from(attributes.len()).expect("is short").to_le_bytes();
        let mut head = [fields, &len, attributes, &sums[..8]].concat();
        let mut sum = Xxh3::new();
        sum.update(&key.to_le_bytes());
        for part in [id.as_bytes(), topic.as_bytes(), &head] {
            sum.update(&(part.len() as u64).to_le_bytes());
            sum.update(part);
        }
        head.extend_from_slice(&sum.digest().to_le_bytes());
        conn.execute("UPDATE rec SET head = ?1 WHERE key = ?2", params![head, key]).expect("updates");
    }
}

/// Asserts that the jobs have their attributes.
pub fn assert_present(directory: &Path) {
    let conn = rows(directory);
    for (id, attributes) in TAGGED {
        let sql = "SELECT head FROM rec WHERE id = ?1";
        let head: Vec<u8> = conn.query_row(sql, [id], |row| row.get(0)).expect("is there");
        assert!(head[..head.len() - CHECKSUM_BYTES].ends_with(attributes), "{id}");
    }
}
