//! The names of all keys and channels. Every key of a shard carries the shard's hash tag, so that a
//! script touches one slot of a Cluster, and nothing a client names stands outside of the tag's tail.
//!
//! | key | holds |
//! |---|---|
//! | `{p:k}:pool` | HASH id to record (`codec/record.rs`) |
//! | `{p:k}:bucket` | ZSET of ids by deadline: delayed by due time, reserved by the end of their TTR |
//! | `{p:k}:counts` | HASH of `d` `r` `v` `x` (delayed, ready, reserved, dead) and topic to a count; `#` counts announcements |
//! | `{p:k}:lanes` | HASH of a process's lane to the sequence and answer of its last call |
//! | `{p:k}:graves` | ZSET of dead ids by moment of death |
//! | `{p:k}:broken` | HASH of what was set aside |
//! | `{p:k}:ready:<topic>` | LIST of generation, moment and id |
//! | `{p:k}:dead:<topic>` | ZSET of dead ids by moment of death |
//! | `{p:k}:mark` | written before a `WAIT`, so that it covers everything before it |
//! | `{p}:meta` | HASH of format and number of shards |
//! | `{p}:settings` | HASH of `s` or `p` and topic to settings or pause; `#` is the version |

use bytes::Bytes;
use fred::{bytes_utils::Str, types::Key, util::redis_keyslot};
use xxhash_rust::xxh3::xxh3_64;

use crate::job::{JobId, Topic};

/// A shard's number, from 0.
pub(super) type Shard = u16;

/// What a key is that begins like ours.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// One of a shard's, or of the whole prefix.
    Shard,
    /// A topic's, on that shard.
    Topic(Shard, Topic),
    /// Under one of our hash tags, but nothing that we write.
    Unknown,
    /// Under another prefix, which may begin like ours.
    Foreign,
}

/// The keys of one shard that do not depend on a topic.
#[derive(Debug)]
pub(super) struct ShardKeys {
    /// What its keys begin with.
    pub tag: String,
    pub slot: u16,
    pub pool: Key,
    pub bucket: Key,
    pub counts: Key,
    pub lanes: Key,
    pub graves: Key,
    pub broken: Key,
    pub mark: Key,
}

impl ShardKeys {
    fn new(prefix: &str, shard: Shard) -> Self {
        let tag = format!("{{{prefix}:{shard}}}");
        let key = |name: &str| Key::from(Bytes::from(format!("{tag}:{name}")));
        Self {
            slot: redis_keyslot(tag.as_bytes()),
            pool: key("pool"),
            bucket: key("bucket"),
            counts: key("counts"),
            lanes: key("lanes"),
            graves: key("graves"),
            broken: key("broken"),
            mark: key("mark"),
            tag,
        }
    }

    /// The list of a topic's ready jobs.
    pub fn ready(&self, topic: &Topic) -> Key {
        Key::from(Bytes::from(format!("{}:ready:{topic}", self.tag)))
    }

    /// The set of a topic's dead letters.
    pub fn dead(&self, topic: &Topic) -> Key {
        Key::from(Bytes::from(format!("{}:dead:{topic}", self.tag)))
    }
}

/// Where the layout under a prefix is kept, and its slot: known before the number of shards is.
pub(super) fn meta(prefix: &str) -> (Key, u16) {
    (format!("{{{prefix}}}:meta").into(), redis_keyslot(prefix.as_bytes()))
}

/// The channels of announcements and of settings.
pub(super) fn channels(prefix: &str) -> [Str; 2] {
    [format!("{{{prefix}}}:ready").into(), format!("{{{prefix}}}:settings").into()]
}

/// All names under one prefix.
#[derive(Debug)]
pub(super) struct Keys {
    prefix: String,
    shards: Vec<ShardKeys>,
    pub settings: Key,
    /// The slot of the settings.
    pub slot: u16,
    /// As [`ShardKeys::mark`], for the slot of the settings.
    pub mark: Key,
    pub ready_channel: Str,
    pub settings_channel: Str,
}

impl Keys {
    pub fn new(prefix: &str, shards: u16) -> Self {
        let [ready_channel, settings_channel] = channels(prefix);
        Self {
            prefix: prefix.to_owned(),
            shards: (0..shards).map(|shard| ShardKeys::new(prefix, shard)).collect(),
            settings: format!("{{{prefix}}}:settings").into(),
            slot: redis_keyslot(prefix.as_bytes()),
            mark: format!("{{{prefix}}}:mark").into(),
            ready_channel,
            settings_channel,
        }
    }

    /// Matches every key of a shard, and some of other prefixes that begin alike.
    pub fn pattern(&self) -> String {
        // A prefix holds nothing that a pattern would take for more than itself.
        format!("{{{}:*}}:*", self.prefix)
    }

    /// What a key is that [`pattern`](Self::pattern) matches.
    pub fn place(&self, key: &[u8]) -> Place {
        let split = || {
            let (tag, name) = std::str::from_utf8(key).ok()?.strip_prefix('{')?.split_once("}:")?;
            let shard = tag.strip_prefix(&self.prefix)?.strip_prefix(':')?;
            Some((shard.parse::<Shard>().ok()?, name))
        };
        let Some((shard, name)) = split() else { return Place::Foreign };
        if matches!(name, "meta" | "settings") {
            // Those of another queue, whose prefix is this one and a number.
            return Place::Foreign;
        }
        if usize::from(shard) >= self.shards.len() {
            return Place::Unknown;
        }
        let topic = name.strip_prefix("ready:").or_else(|| name.strip_prefix("dead:"));
        match (topic.map(Topic::parse), name) {
            (Some(Ok(topic)), _) => Place::Topic(shard, topic),
            (None, "pool" | "bucket" | "counts" | "lanes" | "graves" | "broken" | "mark") => Place::Shard,
            (Some(Err(_)) | None, _) => Place::Unknown,
        }
    }

    pub fn shard(&self, shard: Shard) -> &ShardKeys {
        &self.shards[usize::from(shard)]
    }

    /// How many shards there are.
    pub fn count(&self) -> Shard {
        Shard::try_from(self.shards.len()).expect("there are at most 256 shards")
    }

    pub fn shards(&self) -> impl Iterator<Item = Shard> + use<> {
        0..self.count()
    }

    /// Where a job lives. Part of the layout: another hash would lose every job.
    pub fn shard_of(&self, id: &JobId) -> Shard {
        let shard = xxh3_64(id.as_str().as_bytes()) % self.shards.len() as u64;
        Shard::try_from(shard).expect("there are at most 256 shards")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_shard_is_in_its_slot() {
        let keys = Keys::new("linger", 16);
        let topic = Topic::parse("a:b").expect("valid");
        for shard in keys.shards() {
            let shard = keys.shard(shard);
            let all = [&shard.pool, &shard.bucket, &shard.counts, &shard.lanes, &shard.graves, &shard.broken];
            for key in all.into_iter().chain([&shard.mark, &shard.ready(&topic), &shard.dead(&topic)]) {
                assert_eq!(redis_keyslot(key.as_bytes()), shard.slot, "{key:?}");
            }
        }
        assert_eq!(redis_keyslot(keys.settings.as_bytes()), keys.slot);
        let (meta, slot) = meta("linger");
        assert_eq!(redis_keyslot(meta.as_bytes()), slot);
    }

    #[test]
    fn keys_are_told_from_those_of_others() {
        let keys = Keys::new("a", 16);
        let place = |key: &str| keys.place(key.as_bytes());
        let topic = Topic::parse("t:1").expect("valid");
        assert_eq!(place("{a:3}:pool"), Place::Shard);
        assert_eq!(place("{a:3}:ready:t:1"), Place::Topic(3, topic.clone()));
        assert_eq!(place("{a:15}:dead:t:1"), Place::Topic(15, topic));
        for unknown in ["{a:16}:pool", "{a:3}:pond", "{a:3}:ready:", "{a:3}:ready:no topic"] {
            assert_eq!(place(unknown), Place::Unknown, "{unknown}");
        }
        for foreign in
            ["{a:b:3}:pool", "{a:x}:pool", "a:3:pool", "{a:3}:meta", "{a:99}:settings", "{a:3:1}:pool"]
        {
            assert_eq!(place(foreign), Place::Foreign, "{foreign}");
        }
    }

    #[test]
    fn the_place_of_a_job_never_changes() {
        let keys = Keys::new("linger", 16);
        let place = |id: &str| keys.shard_of(&JobId::parse(id).expect("valid"));
        assert_eq!(["a", "b", "orders:1001:close"].map(place), [15, 15, 10]);
    }
}
