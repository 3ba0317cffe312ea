//! The names of all keys and channels. Every key of a shard contains the shard's hash tag, so that a
//! script uses one slot of a Cluster. Names that clients choose come after the tag and cannot change it.
//!
//! | key | type and content |
//! |---|---|
//! | `{p:k}:jobs` | HASH of id to record (`codec/record.rs`) |
//! | `{p:k}:due` | ZSET of delayed ids by due time |
//! | `{p:k}:leases` | ZSET of reserved ids by the end of their TTR |
//! | `{p:k}:counts` | HASH of `d` `v` `x` (delayed, reserved, dead) and topic, or `r` (ready) and outlet, to a count; `#` counts announcements; `!` is the mark of the store, or the fence that stops changes while a shard is moved to other servers |
//! | `{p:k}:replay` | HASH of replay slot to the sequence number and reply of its last call |
//! | `{p:k}:dead_by_time` | ZSET of dead ids by moment of death |
//! | `{p:k}:expiries` | ZSET of the delayed and ready ids that expire, by when they do |
//! | `{p:k}:broken` | HASH of broken records that were set aside |
//! | `{p:k}:timeline` | HASH of `m` or `h`, the number of a minute or hour since the epoch in four bytes, and topic, to the number of delayed jobs due in it |
//! | `{p:k}:ready:<outlet>` | LIST of generation, moment and id |
//! | `{p:k}:dead:<topic>` | ZSET of dead ids by moment of death |
//! | `{p:k}:schedules` | HASH of the names of schedules to their contents (`scripts/agenda.lua`) |
//! | `{p:k}:agenda` | ZSET of the names of schedules by next moment |
//! | `{p:k}:remembered` | HASH of the ids of jobs that are gone to what is remembered of them (`job/dedup.rs`) |
//! | `{p:k}:forget` | ZSET of these ids by when they are forgotten |
//! | `{p:k}:mark` | written before a `WAIT`, so that it covers everything before it |
//! | `{p}:meta` | HASH of format, number of shards, the seed of host numbers, and what tells this store from others (`scripts/get_layout.lua`) |
//! | `{p}:notices` | HASH of `o` (operation), `s` (request to stop one), `p` (process) or `w` (a client reads the figures of all processes) and an id, to the moment when it was written in six bytes and a text |
//! | `{p}:archive:<kind>` | HASH of ids of what was done to the moment in six bytes and a text; `calls` or `operations` |
//! | `{p}:archive:<kind>:numbers` | ZSET of these ids by their numbers |
//! | `{p}:rate_limits` | HASH of topic to the moment, in microseconds, when its next call is free |
//! | `{p}:settings` | HASH of topic to its settings and pause (`codec/settings.rs`); `#` is the version |

use std::collections::BTreeMap;

use bytes::Bytes;
use fred::{bytes_utils::Str, types::Key, util::redis_keyslot};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    job::{JobId, Outlet, ScheduleName, State, Topic},
    store::ArchiveKind,
};

/// A shard's number, from 0.
pub type Shard = u16;

/// An index of a shard: a sorted set of jobs by a moment of each in milliseconds. A state has at most one of all its jobs.
#[derive(Debug)]
pub struct Index {
    /// The last part of its key, by which faults name it, too.
    pub name: &'static str,
    /// The state whose jobs are all in it; `None` for the delayed and ready jobs that have the moment.
    pub state: Option<State>,
    /// The variable of its key in scripts.
    pub variable: &'static str,
    /// The field of a decoded record (`scripts/record.lua`) that has the moment.
    pub moment: &'static str,
}

/// All indexes, in the order in which scripts get their keys. `scripts/mod.rs` writes them into the scripts. What puts a whole
/// job, sets one aside, indexes one again, verifies, mends or compares sizes goes through all rows. A script that changes the
/// state of a job names the index that it changes.
pub const INDEXES: [Index; 4] = [
    Index { name: "due", state: Some(State::Delayed), variable: "DUE", moment: "due" },
    Index { name: "leases", state: Some(State::Reserved), variable: "LEASES", moment: "till" },
    Index { name: "dead_by_time", state: Some(State::Dead), variable: "DEAD_BY_TIME", moment: "died" },
    Index { name: "expiries", state: None, variable: "EXPIRIES", moment: "expires" },
];

/// The keys of a shard that are not indexes, in the order in which scripts get them, before the indexes.
const OTHER_KEYS: [&str; 5] = ["jobs", "counts", "replay", "broken", "timeline"];

/// How many keys of a shard the scripts that change it get, before those of outlets.
pub const SHARD_KEYS: usize = OTHER_KEYS.len() + INDEXES.len();

/// The position of the first index among them, from 1.
pub const FIRST_INDEX: usize = OTHER_KEYS.len() + 1;

/// What a key that begins like ours belongs to.
#[derive(Debug, PartialEq, Eq)]
pub enum KeyOwner {
    /// A shard.
    Shard,
    /// An outlet on that shard.
    Outlet(Shard, Outlet),
    /// Nothing that this engine writes, although it has one of our hash tags.
    Unknown,
    /// Another queue, whose prefix may begin like ours.
    Foreign,
}

/// The keys of one shard that do not depend on a topic.
#[derive(Debug)]
pub struct ShardKeys {
    /// The hash tag that its keys begin with.
    pub tag: String,
    pub slot: u16,
    pub jobs: Key,
    pub counts: Key,
    pub replay_slots: Key,
    pub broken: Key,
    pub timeline: Key,
    /// In the order of [`INDEXES`].
    indexes: [Key; INDEXES.len()],
    pub schedules: Key,
    pub agenda: Key,
    pub remembered: Key,
    pub forget: Key,
    pub mark: Key,
}

impl ShardKeys {
    fn new(prefix: &str, shard: Shard) -> Self {
        let tag = format!("{{{prefix}:{shard}}}");
        let key = |name: &str| Key::from(Bytes::from(format!("{tag}:{name}")));
        let [jobs, counts, replay_slots, broken, timeline] = OTHER_KEYS.map(key);
        Self {
            slot: redis_keyslot(tag.as_bytes()),
            jobs,
            counts,
            replay_slots,
            broken,
            timeline,
            indexes: INDEXES.map(|index| key(index.name)),
            schedules: key("schedules"),
            agenda: key("agenda"),
            remembered: key("remembered"),
            forget: key("forget"),
            mark: key("mark"),
            tag,
        }
    }

    /// The first keys of every script that includes `scripts/shard_keys.lua`, in its order.
    pub fn of_scripts(&self) -> impl Iterator<Item = &Key> {
        let Self { jobs, counts, replay_slots, broken, timeline, indexes, .. } = self;
        [jobs, counts, replay_slots, broken, timeline].into_iter().chain(indexes)
    }

    /// The schedules and the agenda, in the order in which scripts get them.
    pub fn of_schedules(&self) -> [&Key; 2] {
        [&self.schedules, &self.agenda]
    }

    /// The remembered ids, and when they are forgotten, in the order in which scripts get them.
    pub fn of_remembered(&self) -> [&Key; 2] {
        [&self.remembered, &self.forget]
    }

    /// The index of the jobs in a state. Ready jobs have lists in its place.
    pub fn index(&self, state: State) -> &Key {
        let mut all = INDEXES.iter().zip(&self.indexes);
        all.find(|(index, _)| index.state == Some(state)).expect("only ready jobs have no index").1
    }

    /// The list of an outlet's ready jobs.
    pub fn ready(&self, outlet: &Outlet) -> Key {
        Key::from(Bytes::from(format!("{}:ready:{outlet}", self.tag)))
    }

    /// The set of a topic's dead letters.
    pub fn dead(&self, topic: &Topic) -> Key {
        Key::from(Bytes::from(format!("{}:dead:{topic}", self.tag)))
    }
}

/// The key of the layout under a prefix, and its slot. It does not depend on the number of shards.
pub fn meta(prefix: &str) -> (Key, u16) {
    (format!("{{{prefix}}}:meta").into(), redis_keyslot(prefix.as_bytes()))
}

/// The channels of announcements and of settings.
pub fn channels(prefix: &str) -> [Str; 2] {
    [format!("{{{prefix}}}:ready").into(), format!("{{{prefix}}}:settings").into()]
}

/// All names under one prefix.
#[derive(Debug)]
pub struct Keys {
    prefix: String,
    shards: Vec<ShardKeys>,
    pub meta: Key,
    pub settings: Key,
    pub rate_limits: Key,
    pub notices: Key,
    archive: [[Key; 2]; 2],
    /// The slot of the layout and the settings.
    pub slot: u16,
    /// Like [`ShardKeys::mark`], in the slot of the settings.
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
            meta: meta(prefix).0,
            settings: format!("{{{prefix}}}:settings").into(),
            rate_limits: format!("{{{prefix}}}:rate_limits").into(),
            notices: format!("{{{prefix}}}:notices").into(),
            archive: ["calls", "operations"]
                .map(|kind| ["", ":numbers"].map(|end| format!("{{{prefix}}}:archive:{kind}{end}").into())),
            slot: redis_keyslot(prefix.as_bytes()),
            mark: format!("{{{prefix}}}:mark").into(),
            ready_channel,
            settings_channel,
        }
    }

    /// A pattern that matches every key of a shard, and some keys of other prefixes that begin alike.
    pub fn pattern(&self) -> String {
        // No character of a prefix has a special meaning in a pattern.
        format!("{{{}:*}}:*", self.prefix)
    }

    /// What a key that matches [`pattern`](Self::pattern) belongs to.
    pub fn owner(&self, key: &[u8]) -> KeyOwner {
        let split = || {
            let (tag, name) = std::str::from_utf8(key).ok()?.strip_prefix('{')?.split_once("}:")?;
            let shard = tag.strip_prefix(&self.prefix)?.strip_prefix(':')?;
            Some((shard.parse::<Shard>().ok()?, name))
        };
        let Some((shard, name)) = split() else { return KeyOwner::Foreign };
        if matches!(name, "meta" | "settings" | "rate_limits" | "notices") || name.starts_with("archive:") {
            // The keys of another queue, whose prefix is this one and a number.
            return KeyOwner::Foreign;
        }
        if usize::from(shard) >= self.shards.len() {
            return KeyOwner::Unknown;
        }
        let dead = |name| Topic::parse(name).ok().map(Outlet::plain);
        let outlet = name.strip_prefix("ready:").map(Outlet::parse).or(name.strip_prefix("dead:").map(dead));
        match (outlet, name) {
            (Some(Some(outlet)), _) => KeyOwner::Outlet(shard, outlet),
            (None, "mark" | "schedules" | "agenda" | "remembered" | "forget") => KeyOwner::Shard,
            (None, _) if OTHER_KEYS.contains(&name) => KeyOwner::Shard,
            (None, _) if INDEXES.iter().any(|index| index.name == name) => KeyOwner::Shard,
            (Some(None) | None, _) => KeyOwner::Unknown,
        }
    }

    /// The records of the archive and their numbers, in the order in which scripts get them.
    pub fn archive(&self, kind: ArchiveKind) -> [&Key; 2] {
        let [calls, operations] = &self.archive;
        match kind {
            ArchiveKind::Call => calls.each_ref(),
            ArchiveKind::Operation => operations.each_ref(),
        }
    }

    pub fn shard(&self, shard: Shard) -> &ShardKeys {
        &self.shards[usize::from(shard)]
    }

    /// How many shards there are.
    pub fn count(&self) -> Shard {
        Shard::try_from(self.shards.len()).expect("there are at most 256 shards")
    }

    /// All shards.
    pub fn all(&self) -> impl Iterator<Item = Shard> + use<> {
        0..self.count()
    }

    /// The shard of a job. Part of the layout: with another hash no job would be found.
    pub fn shard_of(&self, id: &JobId) -> Shard {
        self.shard_of_text(id.as_str())
    }

    /// The shard of a schedule.
    pub fn shard_of_schedule(&self, name: &ScheduleName) -> Shard {
        self.shard_of_text(name.as_str())
    }

    fn shard_of_text(&self, text: &str) -> Shard {
        let shard = xxh3_64(text.as_bytes()) % self.shards.len() as u64;
        Shard::try_from(shard).expect("there are at most 256 shards")
    }

    /// Groups items by the shard of their id.
    pub fn by_shard<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        id: impl Fn(&T) -> &JobId,
    ) -> BTreeMap<Shard, Vec<T>> {
        let mut shards: BTreeMap<Shard, Vec<T>> = BTreeMap::new();
        for item in items {
            shards.entry(self.shard_of(id(&item))).or_default().push(item);
        }
        shards
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::HostNumber;

    #[test]
    fn every_key_of_a_shard_is_in_its_slot() {
        let keys = Keys::new("linger", 16);
        let topic = Topic::parse("a:b").expect("valid");
        for shard in keys.all() {
            let shard = keys.shard(shard);
            for key in shard.of_scripts().chain(shard.of_schedules()).chain(shard.of_remembered()).chain([
                &shard.mark,
                &shard.ready(&Outlet::plain(topic.clone())),
                &shard.dead(&topic),
            ]) {
                assert_eq!(redis_keyslot(key.as_bytes()), shard.slot, "{key:?}");
            }
        }
        let names = OTHER_KEYS.into_iter().chain(INDEXES.iter().map(|index| index.name));
        let mut named = keys.shard(3).of_scripts().zip(names);
        assert!(named.all(|(key, name)| key.as_bytes() == format!("{{linger:3}}:{name}").as_bytes()));
        assert_eq!(keys.shard(3).index(State::Dead).as_bytes(), b"{linger:3}:dead_by_time");
        let archive = ArchiveKind::ALL.into_iter().flat_map(|kind| keys.archive(kind));
        for key in archive.chain([&keys.settings]) {
            assert_eq!(redis_keyslot(key.as_bytes()), keys.slot, "{key:?}");
        }
        let (meta, slot) = meta("linger");
        assert_eq!(redis_keyslot(meta.as_bytes()), slot);
    }

    #[test]
    fn keys_of_other_queues_are_recognised() {
        let keys = Keys::new("a", 16);
        let owner = |key: &str| keys.owner(key.as_bytes());
        let topic = Topic::parse("t:1").expect("valid");
        for own in ["{a:3}:jobs", "{a:3}:dead_by_time", "{a:3}:mark"] {
            assert_eq!(owner(own), KeyOwner::Shard, "{own}");
        }
        assert_eq!(owner("{a:3}:ready:t:1"), KeyOwner::Outlet(3, Outlet::plain(topic.clone())));
        let of_host = Outlet { topic: topic.clone(), host: Some(HostNumber(0x3f)) };
        assert_eq!(owner("{a:3}:ready:t:1>3f"), KeyOwner::Outlet(3, of_host));
        assert_eq!(owner("{a:15}:dead:t:1"), KeyOwner::Outlet(15, Outlet::plain(topic)));
        for unknown in
            ["{a:16}:jobs", "{a:3}:pond", "{a:3}:ready:", "{a:3}:ready:no topic", "{a:3}:dead:t>3f"]
        {
            assert_eq!(owner(unknown), KeyOwner::Unknown, "{unknown}");
        }
        for foreign in [
            "{a:b:3}:jobs",
            "{a:x}:jobs",
            "a:3:jobs",
            "{a:3}:meta",
            "{a:99}:settings",
            "{a:3}:notices",
            "{a:3}:archive:calls:numbers",
            "{a:3:1}:jobs",
        ] {
            assert_eq!(owner(foreign), KeyOwner::Foreign, "{foreign}");
        }
    }

    #[test]
    fn the_shard_of_a_job_never_changes() {
        let keys = Keys::new("linger", 16);
        let shard = |id: &str| keys.shard_of(&JobId::parse(id).expect("valid"));
        assert_eq!(["a", "b", "orders:1001:close"].map(shard), [15, 15, 10]);
    }
}
