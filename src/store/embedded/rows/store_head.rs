//! The head of a store: which store it is, and how many commits and jobs it has. Each commit writes it into one
//! row of `meta`, so that files which do not belong together are recognised at the next start.

const STORE_HEAD_BYTES: usize = 32;
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
