//! The sums of small rows: reservations and the clock's mark. Records and the link have sums of their own. SQLite
//! has none, so a flipped bit in a row would pass for what was written.
//!
//! What a version before wrote has no sum and is taken as it is.

use xxhash_rust::xxh3::Xxh3;

use super::{codec::Lease, key::RowKey};
use crate::job::{Receipt, Timestamp};

const RECEIPT_BYTES: usize = 16;
const MOMENT_BYTES: usize = 8;

/// A sum over `parts`, each with its length, for a row of the kind `kind`.
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

/// The receipt of a reservation with the sum of its row, as it is stored.
pub(crate) fn encode_lease_receipt(key: RowKey, lease: &Lease) -> [u8; RECEIPT_BYTES + 8] {
    let receipt = lease.receipt.as_bytes();
    let sum = lease_sum(key, lease.attempts.into(), lease.deadline.as_millis(), receipt);
    let mut sealed = [0; RECEIPT_BYTES + 8];
    sealed[..RECEIPT_BYTES].copy_from_slice(receipt);
    sealed[RECEIPT_BYTES..].copy_from_slice(&sum);
    sealed
}

/// The reservation of a row; `None` when the row is damaged.
pub(crate) fn decode_lease(key: RowKey, attempts: i64, deadline_ms: i64, sealed: &[u8]) -> Option<Lease> {
    let (receipt, sum) = sealed.split_first_chunk::<RECEIPT_BYTES>()?;
    if !sum.is_empty() && *sum != lease_sum(key, attempts, deadline_ms, receipt) {
        return None;
    }
    let (receipt, deadline) = (Receipt::from_bytes(*receipt), Timestamp::from_millis(deadline_ms));
    Some(Lease { deadline, receipt, attempts: u32::try_from(attempts).ok()? })
}

/// The clock's mark, as it is stored.
pub(crate) fn encode_clock(mark: Timestamp) -> [u8; MOMENT_BYTES + 8] {
    let ms = mark.as_millis().to_be_bytes();
    let mut sealed = [0; MOMENT_BYTES + 8];
    sealed[..MOMENT_BYTES].copy_from_slice(&ms);
    sealed[MOMENT_BYTES..].copy_from_slice(&sum("clock", &[&ms]));
    sealed
}

/// The mark in a row; `None` when the row is damaged.
pub(crate) fn decode_clock(sealed: &[u8]) -> Option<Timestamp> {
    let (ms, stored) = sealed.split_first_chunk::<MOMENT_BYTES>()?;
    (*stored == sum("clock", &[ms])).then(|| Timestamp::from_millis(i64::from_be_bytes(*ms)))
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
        let sealed = encode_lease_receipt(key, &lease);
        let open =
            |key, attempts, ms, sealed: &[u8]| decode_lease(RowKey::from_bits(key), attempts, ms, sealed);
        let ms = lease.deadline.as_millis();
        assert_eq!(open(9, 3, ms, &sealed), Some(lease.clone()));
        assert_eq!(open(9, 3, ms, &sealed[..16]), Some(lease), "as a version before wrote it");
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(9, 3, ms, &flipped), None, "bit {bit}");
        }
        assert_eq!(open(8, 3, ms, &sealed), None);
        assert_eq!(open(9, 2, ms, &sealed), None);
        assert_eq!(open(9, 3, ms ^ 1, &sealed), None);
        for len in (0..16).chain(17..24) {
            assert_eq!(open(9, 3, ms, &sealed[..len]), None, "{len} bytes");
        }
    }

    #[test]
    fn the_clocks_mark_reads_back_and_no_flipped_bit_does() {
        let mark = Timestamp::from_millis(1_800_000_000_000);
        let sealed = encode_clock(mark);
        assert_eq!(decode_clock(&sealed), Some(mark));
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_clock(&flipped), None, "bit {bit}");
        }
        assert_eq!(decode_clock(&sealed[..8]), None);
    }
}
