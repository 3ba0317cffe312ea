//! The layout of the keys under a prefix: its format, and the number of shards that jobs are spread over. The first
//! process decides it. All others must use the same, or they would not find the jobs. Opens no connection.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, OnceLock},
};

use super::options;

/// Version of everything under a prefix.
pub const FORMAT: &str = "2";
/// How many shards a single primary is first used with: callers share calls shard by shard, so that one shard makes the
/// fewest calls. A Cluster gets enough for every server to hold some.
const SHARDS: u16 = 1;
const SHARDS_IN_CLUSTER: u16 = 16;

/// What clients do not know, so that they cannot choose a host's number. Random for each store, so it also identifies it.
pub type HostSeed = [u8; 16];

/// The mark of the store with this seed and number of shards, which each shard has in place of a fence
/// (`scripts/record.lua`): as long as the number of a fence, and no number.
pub fn mark(seed: &HostSeed, shards: u16) -> String {
    format!("x{shards:03x}{:012x}", u128::from_be_bytes(*seed) >> 80)
}

/// The number of shards of the store with this mark.
pub fn marked_shards(mark: &str) -> Option<u16> {
    u16::from_str_radix(mark.strip_prefix('x')?.get(..3)?, 16).ok()
}

/// The layout that this process uses, and whether the servers still hold the same.
#[derive(Debug, Default)]
pub struct LayoutState {
    shards: OnceLock<u16>,
    /// The stored seed of host numbers; another one once a loss of the store was accepted.
    host_seed: Mutex<HostSeed>,
    /// How the stored layout differs from the one in use, if it does.
    mismatch: Mutex<Option<String>>,
    /// The slots whose keys were emptied or are those of another store.
    lost: Mutex<BTreeSet<u16>>,
}

impl LayoutState {
    /// The number of shards, once it is known.
    pub fn shards(&self) -> Option<u16> {
        self.shards.get().copied()
    }

    /// Sets the number of shards, once.
    pub fn set_shards(&self, shards: u16) {
        self.shards.set(shards).expect("an engine is opened once");
    }

    /// The seed of host numbers.
    pub fn host_seed(&self) -> HostSeed {
        *self.lock_seed()
    }

    /// Sets the seed of host numbers to the stored one.
    pub fn set_host_seed(&self, seed: HostSeed) {
        *self.lock_seed() = seed;
    }

    /// The mark of the store that this process uses.
    pub fn mark(&self) -> String {
        mark(&self.host_seed(), self.shards().unwrap_or_default())
    }

    /// Remembers whether the keys of a slot were emptied or are those of another store.
    pub fn set_lost(&self, slot: u16, is_lost: bool) {
        let mut lost = self.lock_lost();
        if is_lost {
            lost.insert(slot);
        } else {
            lost.remove(&slot);
        }
    }

    pub fn is_lost(&self, slot: u16) -> bool {
        self.lock_lost().contains(&slot)
    }

    pub fn any_lost(&self) -> bool {
        !self.lock_lost().is_empty()
    }

    fn lock_lost(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.lost.lock().expect("no code panics while it holds the slots")
    }

    fn lock_seed(&self) -> MutexGuard<'_, HostSeed> {
        self.host_seed.lock().expect("no code panics while it holds the seed")
    }

    /// How the stored layout differs, if it does. Calls are refused meanwhile: processes that use the stored layout
    /// would not find the jobs that this one adds, nor this one theirs.
    pub fn mismatch(&self) -> Option<String> {
        self.lock().clone()
    }

    /// Remembers how the stored layout differs, or that it does not; changes are logged.
    pub fn set_mismatch(&self, mismatch: Option<String>) {
        let before = std::mem::replace(&mut *self.lock(), mismatch.clone());
        match (before, mismatch) {
            (None, Some(why)) => {
                tracing::error!(%why, "what is stored is not for this process any more: all calls are refused");
            }
            (Some(_), None) => tracing::info!("what is stored is for this process again"),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.mismatch.lock().expect("no code panics while it holds the mismatch")
    }
}

/// The number of shards for a prefix where nothing is stored.
pub fn initial_shards(configured: Option<u16>, has_single_primary: bool) -> u16 {
    configured.unwrap_or(if has_single_primary { SHARDS } else { SHARDS_IN_CLUSTER })
}

/// How a stored layout differs from the one with this number of shards, if it does.
pub fn difference(format: &str, stored: &str, shards: u16) -> Option<String> {
    ((format, stored) != (FORMAT, &shards.to_string())).then(|| {
        format!(
            "redis.shards is stored as {stored} in format {format}, and this process uses {shards} in format {FORMAT}; \
             restart it"
        )
    })
}

/// The stored number of shards.
///
/// # Errors
/// The reason, when this version or these options are for another layout.
pub fn accept(format: &str, stored: &str, configured: Option<u16>) -> Result<u16, String> {
    if format == "1" {
        return Err(format!(
            "a pre-release wrote it in format 1, and this version reads format {FORMAT} only; drain the queue with \
             the version that wrote it, or set another redis.prefix"
        ));
    }
    if format != FORMAT {
        return Err(format!("it has format {format}, this version reads {FORMAT}"));
    }
    let Some(shards) = stored.parse().ok().filter(|shards| options::SHARDS.contains(shards)) else {
        let (least, most) = options::SHARDS.into_inner();
        return Err(format!(
            "its number of shards is {stored:?}, which should be between {least} and {most}"
        ));
    };
    match configured {
        Some(configured) if configured != shards => Err(format!(
            "it was first used with redis.shards = {shards}, and {configured} is configured; the number cannot \
             change, but `linger move` copies the jobs to a store with another"
        )),
        Some(_) | None => Ok(shards),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_as_long_as_a_number_and_none() {
        let mark = mark(&[0x9f; 16], 256);
        assert_eq!(mark, "x1009f9f9f9f9f9f");
        assert_eq!(mark.len(), 16);
        assert_eq!(marked_shards(&mark), Some(256));
        assert_eq!(marked_shards("0000000000000007 m"), None, "the fence of a move");
    }

    #[test]
    fn the_stored_layout_is_used_unless_it_cannot_be() {
        assert_eq!(accept("2", "16", None), Ok(16));
        assert_eq!(accept("2", "8", Some(8)), Ok(8));
        assert_eq!(accept("2", "256", None), Ok(256));
        let why = accept("2", "16", Some(8)).expect_err("another number");
        assert!(why.contains("first used with redis.shards = 16, and 8 is configured"), "{why}");
        for invalid in ["0", "257", "-1", "", "many", "70000"] {
            let why = accept("2", invalid, None).expect_err(invalid);
            assert!(why.contains("between 1 and 256"), "{why}");
        }
        assert!(accept("3", "16", None).expect_err("a later format").contains("format 3"));
        let why = accept("1", "16", None).expect_err("an earlier format");
        assert!(why.contains("drain the queue with the version that wrote it"), "{why}");
    }
}
