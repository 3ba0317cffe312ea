//! Checksums of small rows: reservations and the clock's high-water mark. Records and the store's head contain
//! their own. SQLite has none, so a flipped bit in a row would go unnoticed.
//!
//! Rows of earlier versions have no checksum and are accepted as they are.

use xxhash_rust::xxh3::Xxh3;

use super::{codec::Lease, key::RowKey};
use crate::job::{Receipt, Timestamp};

const RECEIPT_BYTES: usize = 16;
const TIMESTAMP_BYTES: usize = 8;

/// The checksum of `parts`, each with its length, for a row of kind `kind`.
fn sum(kind: &str, parts: &[&[u8]]) -> [u8; 8] {
    let mut hash = Xxh3::new();
    for part in [&[kind.as_bytes()], parts].concat() {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.digest().to_be_bytes()
}

fn lease_sum(key: RowKey, attempts: i64, deadline_ms: i64, receipt: &[u8]) -> [u8; 8] {
    let key = key.to_bits().to_be_bytes();
    sum("lease", &[&key, &attempts.to_be_bytes(), &deadline_ms.to_be_bytes(), receipt])
}

/// The stored form of a receipt: the receipt and the checksum of its row.
pub(crate) fn encode_lease_receipt(key: RowKey, lease: &Lease) -> [u8; RECEIPT_BYTES + 8] {
    let receipt = lease.receipt.as_bytes();
    let sum = lease_sum(key, lease.attempts.into(), lease.deadline.as_millis(), receipt);
    let mut stored = [0; RECEIPT_BYTES + 8];
    stored[..RECEIPT_BYTES].copy_from_slice(receipt);
    stored[RECEIPT_BYTES..].copy_from_slice(&sum);
    stored
}

/// Decodes the row of a reservation; `None` when it is damaged.
pub(crate) fn decode_lease(key: RowKey, attempts: i64, deadline_ms: i64, stored: &[u8]) -> Option<Lease> {
    let (receipt, sum) = stored.split_first_chunk::<RECEIPT_BYTES>()?;
    if !sum.is_empty() && *sum != lease_sum(key, attempts, deadline_ms, receipt) {
        return None;
    }
    let (receipt, deadline) = (Receipt::from_bytes(*receipt), Timestamp::from_millis(deadline_ms));
    Some(Lease { deadline, receipt, attempts: u32::try_from(attempts).ok()? })
}

/// The stored form of the clock's high-water mark.
pub(crate) fn encode_clock(mark: Timestamp) -> [u8; TIMESTAMP_BYTES + 8] {
    let ms = mark.as_millis().to_be_bytes();
    let mut stored = [0; TIMESTAMP_BYTES + 8];
    stored[..TIMESTAMP_BYTES].copy_from_slice(&ms);
    stored[TIMESTAMP_BYTES..].copy_from_slice(&sum("clock", &[&ms]));
    stored
}

/// Decodes the clock's high-water mark; `None` when it is damaged.
pub(crate) fn decode_clock(stored: &[u8]) -> Option<Timestamp> {
    let (ms, sum_bytes) = stored.split_first_chunk::<TIMESTAMP_BYTES>()?;
    (*sum_bytes == sum("clock", &[ms])).then(|| Timestamp::from_millis(i64::from_be_bytes(*ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease() -> Lease {
        Lease {
            deadline: Timestamp::from_millis(1_800_000_000_000),
            receipt: Receipt::from_bytes([7; 16]),
            attempts: 3,
        }
    }

    #[test]
    fn a_reservation_reads_back_and_no_flipped_bit_does() {
        let (key, lease) = (RowKey::from_bits(9), lease());
        let stored = encode_lease_receipt(key, &lease);
        let open =
            |key, attempts, ms, stored: &[u8]| decode_lease(RowKey::from_bits(key), attempts, ms, stored);
        let ms = lease.deadline.as_millis();
        assert_eq!(open(9, 3, ms, &stored), Some(lease.clone()));
        assert_eq!(
            open(9, 3, ms, &stored[..16]),
            Some(lease),
            "without a checksum, as an earlier version wrote it"
        );
        for bit in 0..stored.len() * 8 {
            let mut flipped = stored;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(9, 3, ms, &flipped), None, "bit {bit}");
        }
        assert_eq!(open(8, 3, ms, &stored), None);
        assert_eq!(open(9, 2, ms, &stored), None);
        assert_eq!(open(9, 3, ms ^ 1, &stored), None);
        for len in (0..16).chain(17..24) {
            assert_eq!(open(9, 3, ms, &stored[..len]), None, "{len} bytes");
        }
    }

    #[test]
    fn the_clocks_mark_reads_back_and_no_flipped_bit_does() {
        let mark = Timestamp::from_millis(1_800_000_000_000);
        let stored = encode_clock(mark);
        assert_eq!(decode_clock(&stored), Some(mark));
        for bit in 0..stored.len() * 8 {
            let mut flipped = stored;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_clock(&flipped), None, "bit {bit}");
        }
        assert_eq!(decode_clock(&stored[..8]), None);
    }
}
