//! Fuzz target of records in the embedded engine's database.

use xxhash_rust::xxh3::xxh3_64;

use super::rows::{codec::RecordColumns, key::RowKey};

/// Three lengths, the columns, and what is left as the body: as they are, which the checksums refuse, and with
/// sums that fit, as a later version or a clever vandal could write them.
pub fn fuzz_record(data: &[u8]) {
    let Some(([id, topic, head], rest)) = data.split_first_chunk::<3>() else { return };
    let (id, rest) = rest.split_at(rest.len().min(usize::from(*id)));
    let (topic, rest) = rest.split_at(rest.len().min(usize::from(*topic)));
    let (head, body) = rest.split_at(rest.len().min(usize::from(*head)));
    let key = RowKey::from_bits(7);
    let _ = RecordColumns { key, id, topic, head }.decode_record(body);
    let mut whole = head.to_vec();
    whole.extend_from_slice(&xxh3_64(body).to_le_bytes());
    let sum = RecordColumns { key, id, topic, head: &whole }.sum();
    whole.extend_from_slice(&sum.to_le_bytes());
    let Ok(record) = (RecordColumns { key, id, topic, head: &whole }).decode_record(body) else { return };
    assert!(!format!("{record:?} {}", record.head.due_at).is_empty());
    let again = record.encode_head(key);
    let columns = RecordColumns { key, id, topic, head: &again };
    assert_eq!(columns.decode_record(body).as_ref(), Ok(&record), "what is written reads back");
    assert!(
        RecordColumns { key: RowKey::from_bits(8), ..columns }.verify_and_read_parts().is_err(),
        "a record is of its key alone"
    );
}
