//! An index of all jobs by the hash of their id: 21 bytes a job at full load, in many small tables so that no
//! single growth stalls the writer. Knows neither ids nor states. Two ids may share a hash, so callers compare
//! the id in the record.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::topics::OutletNumber;
use crate::store::embedded::rows::key::RowKey;

/// At 10 million jobs a table holds 2,400 entries: growing one moves 70 KB.
const SHARDS: usize = 4_096;
/// Set in the stored outlet number of a dead letter.
const DEAD: u32 = 1 << 31;

/// The hash of an id, seeded at every start so that clients cannot choose ids that collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IdHash(u64);

/// The row of a job, and its outlet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobRef {
    pub key: RowKey,
    pub outlet: OutletNumber,
    /// Whether `key` belongs to the table of dead letters.
    pub dead: bool,
}

/// Packed to 20 bytes with the alignment of a `u32`.
#[derive(Debug, Clone, Copy)]
struct IndexEntry {
    hash: [u32; 2],
    key: [u32; 2],
    outlet: u32,
}

/// How ids are hashed in one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdHasher {
    seed: u64,
    /// All ones. Tests narrow the mask to force collisions.
    mask: u64,
}

impl IdHasher {
    pub fn hash(self, id: &[u8]) -> IdHash {
        IdHash(xxh3_64_with_seed(id, self.seed) & self.mask)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct JobIndex {
    shards: Box<[HashTable<IndexEntry>]>,
    hasher: IdHasher,
}

impl JobIndex {
    pub fn new() -> Self {
        Self::masked(u64::MAX)
    }

    fn masked(mask: u64) -> Self {
        let hasher = IdHasher { seed: rand::random(), mask };
        Self { shards: vec![HashTable::new(); SHARDS].into(), hasher }
    }

    /// An index whose hashes collide all the time.
    #[cfg(test)]
    pub fn colliding() -> Self {
        Self::masked(0b11)
    }

    pub fn hash(&self, id: &[u8]) -> IdHash {
        self.hasher.hash(id)
    }

    pub fn hasher(&self) -> IdHasher {
        self.hasher
    }

    /// The jobs whose id has this hash: nearly always none or one.
    pub fn candidates(&self, hash: IdHash) -> Vec<JobRef> {
        let shard = &self.shards[shard_of(hash)];
        shard.iter_hash(hash.0).filter(|entry| entry.hash() == hash).map(IndexEntry::job_ref).collect()
    }

    pub fn insert(&mut self, hash: IdHash, job_ref: JobRef) {
        let entry = IndexEntry::new(hash, job_ref);
        self.shards[shard_of(hash)].insert_unique(hash.0, entry, |entry| entry.hash().0);
    }

    /// Removes the job at `key`; `None` when it is not there.
    pub fn remove(&mut self, hash: IdHash, key: RowKey, dead: bool) -> Option<JobRef> {
        let shard = &mut self.shards[shard_of(hash)];
        let found = shard.find_entry(hash.0, |entry| entry.hash() == hash && entry.is_at(key, dead)).ok()?;
        let (entry, _) = found.remove();
        // Free the memory of a past backlog, seldom enough to cost nothing.
        if shard.num_buckets() > 64 && shard.len() < shard.num_buckets() / 8 {
            let keep = shard.len() * 2;
            shard.shrink_to(keep, |entry| entry.hash().0);
        }
        Some(entry.job_ref())
    }

    /// The job at `key`, found by a search of the whole index: only for records whose id is unreadable.
    pub fn find_by_key(&self, key: RowKey, dead: bool) -> Option<(IdHash, JobRef)> {
        let mut entries = self.shards.iter().flat_map(HashTable::iter);
        entries.find(|entry| entry.is_at(key, dead)).map(|entry| (entry.hash(), entry.job_ref()))
    }

    /// The jobs in table `shard`, in no order; `None` past the last table. A job never changes its table.
    pub fn in_shard(&self, shard: usize) -> Option<impl Iterator<Item = (IdHash, JobRef)> + '_> {
        let entries = self.shards.get(shard)?;
        Some(entries.iter().map(|entry| (entry.hash(), entry.job_ref())))
    }

    pub fn len(&self) -> usize {
        self.shards.iter().map(HashTable::len).sum()
    }
}

fn shard_of(hash: IdHash) -> usize {
    // Bits that the tables do not use: they choose the bucket by the lowest bits and the tag by the highest.
    (hash.0 >> 40) as usize % SHARDS
}

impl IndexEntry {
    fn new(IdHash(hash): IdHash, job_ref: JobRef) -> Self {
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        let outlet = job_ref.outlet.to_bits() | if job_ref.dead { DEAD } else { 0 };
        Self { hash: halves(hash), key: halves(job_ref.key.to_bits()), outlet }
    }

    fn hash(&self) -> IdHash {
        IdHash(word(self.hash))
    }

    fn is_at(&self, key: RowKey, dead: bool) -> bool {
        word(self.key) == key.to_bits() && (self.outlet & DEAD != 0) == dead
    }

    fn job_ref(&self) -> JobRef {
        JobRef {
            key: RowKey::from_bits(word(self.key)),
            outlet: OutletNumber::from_bits(self.outlet & !DEAD),
            dead: self.outlet & DEAD != 0,
        }
    }
}

fn word([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Timestamp;

    fn job_ref_at(ms: i64, dead: bool) -> JobRef {
        let key = RowKey::first_at(Timestamp::from_millis(ms));
        JobRef { key, outlet: OutletNumber::from_bits(ms as u32), dead }
    }

    #[test]
    fn an_entry_is_as_small_as_promised() {
        assert_eq!(size_of::<IndexEntry>(), 20);
    }

    #[test]
    fn jobs_with_equal_hashes_are_kept_apart() {
        let mut ids = JobIndex::colliding();
        let hash = ids.hash(b"a");
        for job_ref in [job_ref_at(1, false), job_ref_at(2, false), job_ref_at(1, true)] {
            ids.insert(hash, job_ref);
        }
        assert_eq!(ids.remove(hash, job_ref_at(2, false).key, true), None);
        assert_eq!(ids.remove(hash, job_ref_at(1, true).key, true), Some(job_ref_at(1, true)));
        let mut left = ids.candidates(hash);
        left.sort();
        assert_eq!(left, [job_ref_at(1, false), job_ref_at(2, false)]);
    }

    #[test]
    fn jobs_are_found_by_hash_by_key_and_by_shard() {
        let mut ids = JobIndex::new();
        let names: Vec<String> = (0..10_000).map(|n| format!("job-{n}")).collect();
        for (n, name) in names.iter().enumerate() {
            ids.insert(ids.hash(name.as_bytes()), job_ref_at(n as i64, false));
        }
        assert_eq!(ids.len(), 10_000);
        for (n, name) in names.iter().enumerate() {
            assert_eq!(ids.candidates(ids.hash(name.as_bytes())), [job_ref_at(n as i64, false)]);
        }
        let hash = ids.hash(b"job-77");
        assert_eq!(ids.find_by_key(job_ref_at(77, false).key, false), Some((hash, job_ref_at(77, false))));
        assert_eq!(ids.find_by_key(job_ref_at(77, false).key, true), None);
        let walked: usize = (0..).map_while(|shard| ids.in_shard(shard).map(Iterator::count)).sum();
        assert_eq!(walked, 10_000);
        for (n, name) in names.iter().enumerate() {
            let hash = ids.hash(name.as_bytes());
            assert_eq!(
                ids.remove(hash, job_ref_at(n as i64, false).key, false),
                Some(job_ref_at(n as i64, false))
            );
            assert!(ids.candidates(hash).is_empty());
        }
        assert_eq!(ids.len(), 0);
    }

    #[test]
    fn memory_of_a_past_backlog_is_freed() {
        let mut ids = JobIndex::masked((1 << 40) - 1);
        let hashes: Vec<IdHash> = (0..5_000u32).map(|n| ids.hash(&n.to_le_bytes())).collect();
        for (n, hash) in hashes.iter().enumerate() {
            ids.insert(*hash, job_ref_at(n as i64, false));
        }
        let crowded = ids.shards[0].num_buckets();
        for (n, hash) in hashes.iter().enumerate().skip(10) {
            ids.remove(*hash, job_ref_at(n as i64, false).key, false);
        }
        assert!(ids.shards[0].num_buckets() < crowded / 8);
        assert!(hashes[..10].iter().all(|hash| ids.candidates(*hash).len() == 1));
    }
}
