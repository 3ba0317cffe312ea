//! The head of a store: which store it is, and how many commits and jobs it has. Each commit writes it into one
//! row of `meta`, so that files which do not belong together are recognised at the next start.

use xxhash_rust::xxh3::xxh3_64;

const STORE_HEAD_BYTES: usize = 40;
const UNCOUNTED: u64 = u64::MAX;

/// Identifies a store: random, chosen when the store is made, the same in every copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreId(pub [u8; 16]);

/// The progress of a store as its database records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreHead {
    pub store: StoreId,
    pub commits: u64,
    /// Number of jobs, dead letters included; `None` when they have not been counted.
    pub jobs: Option<u64>,
}

/// The stored head as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadState {
    Known(StoreHead),
    /// The store was made by a version that did not write it.
    Missing,
    Damaged,
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
        bytes[24..32].copy_from_slice(&self.jobs.unwrap_or(UNCOUNTED).to_be_bytes());
        let sum = xxh3_64(&bytes[..32]);
        bytes[32..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; STORE_HEAD_BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let store = StoreId(bytes[..16].try_into().expect("sixteen bytes"));
        let jobs = Some(number(24)).filter(|jobs| *jobs != UNCOUNTED);
        (number(32) == xxh3_64(&bytes[..32])).then(|| Self { store, commits: number(16), jobs })
    }

    /// The highest commit of `store` among raw pages, which may also contain older heads.
    pub fn latest_in(pages: &[u8], store: StoreId) -> Option<u64> {
        let heads = pages.windows(STORE_HEAD_BYTES).filter(|bytes| bytes[..16] == store.0);
        heads.filter_map(Self::decode).map(|head| head.commits).max()
    }

    /// Whether raw pages contain the head of any store.
    pub fn is_in(pages: &[u8]) -> bool {
        pages.windows(STORE_HEAD_BYTES).any(|bytes| Self::decode(bytes).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([7; 16]);

    #[test]
    fn a_head_is_read_back_and_a_damaged_one_is_not() {
        let head = StoreHead { store: STORE, commits: 300, jobs: Some(12) };
        let mut bytes = head.encode();
        assert_eq!(StoreHead::decode(&bytes), Some(head));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(StoreHead::decode(&bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(StoreHead::decode(&bytes[1..]), None);
    }

    #[test]
    fn the_latest_head_is_found_at_any_offset() {
        let mut pages = vec![1; 5_000];
        for (at, commits) in [(10, 4), (3_000, 9), (4_096, 8)] {
            pages[at..at + STORE_HEAD_BYTES]
                .copy_from_slice(&StoreHead { store: STORE, commits, jobs: None }.encode());
        }
        assert_eq!(StoreHead::latest_in(&pages, STORE), Some(9));
        pages[3_020] ^= 1;
        assert_eq!(StoreHead::latest_in(&pages, STORE), Some(8));
        assert_eq!(StoreHead::latest_in(&pages, StoreId([6; 16])), None);
        assert!(StoreHead::is_in(&pages) && !StoreHead::is_in(&pages[..40]));
    }
}
