//! The checksum of a small row: a reservation, what is set for a topic, or an entry of `meta`. Records contain their
//! own. SQLite has none, so a flipped bit in a row would go unnoticed.

use rusqlite::types::ValueRef;
use xxhash_rust::xxh3::Xxh3;

/// The checksum of a row of `table`: over the table's name and all other columns, each with its length, so that no
/// byte can move between them.
pub(super) fn row_checksum(table: &str, columns: &[&[u8]]) -> [u8; 8] {
    let mut hash = Xxh3::new();
    for part in std::iter::once(&table.as_bytes()).chain(columns) {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.digest().to_be_bytes()
}

/// The bytes of a text or blob column. Both are accepted, because a checksum decides whether they are sound.
pub(super) fn column_bytes(value: ValueRef<'_>) -> Option<&[u8]> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_can_move_between_columns_or_tables() {
        let sums = [
            row_checksum("meta", &[b"ab", b""]),
            row_checksum("meta", &[b"a", b"b"]),
            row_checksum("meta", &[b"ab"]),
            row_checksum("metaab", &[]),
            row_checksum("topic", &[b"a", b"b"]),
        ];
        for (at, sum) in sums.iter().enumerate() {
            assert!(!sums[..at].contains(sum), "{at}");
        }
    }
}
