//! The scripts: one Lua file per operation, put together with the preludes it needs.
//!
//! A server names a script by its hash; we ask for that when we connect, rather than carry a SHA-1
//! of our own. A server that has forgotten a script is sent its whole text.

use fred::{bytes_utils::Str, clients::Client, interfaces::LuaInterface};

macro_rules! scripts {
    ($($name:ident $file:literal [$($prelude:ident),*],)*) => {
        /// One operation's script.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Op {
            $(#[doc = concat!("`lua/", $file, ".lua`")] $name,)*
        }

        /// Every script, in the order of [`Op`], with what stands in front of its own text.
        const SOURCES: &[(Op, &str, &[&str])] = &[
            $((Op::$name, include_str!(concat!("lua/", $file, ".lua")), &[$($prelude),*]),)*
        ];
    };
}

scripts! {
    Add "add" [RECORD, SHARD],
    Reserve "reserve" [RECORD, SHARD],
    Cancel "cancel" [RECORD, SHARD, MOVES],
    Finish "finish" [RECORD, SHARD, SCOPE],
    Release "release" [RECORD, SHARD, MOVES, SCOPE, HOLDER],
    Touch "touch" [RECORD, SHARD, MOVES, SCOPE, HOLDER],
    Bury "bury" [RECORD, SHARD, MOVES, SCOPE, HOLDER],
    Patch "patch" [RECORD, SHARD, MOVES, SCOPE, HOLDER],
    Requeue "requeue" [RECORD, SHARD, MOVES, SCOPE],
    Delete "delete" [RECORD, SHARD, MOVES, SCOPE],
    Promote "promote" [RECORD, SHARD, MOVES],
    Purge "purge" [RECORD, SHARD, MOVES],
    Compact "compact" [RECORD, SHARD],
    Read "read" [RECORD, SCOPE],
    Topic "topic" [RECORD],
    Dead "dead" [RECORD],
    Ready "ready" [RECORD],
    Waiting "waiting" [RECORD],
    Verify "verify" [RECORD],
    Lanes "lanes" [RECORD],
    Pulse "pulse" [RECORD],
    Settings "settings" [RECORD],
    Pause "pause" [RECORD],
    Start "start" [RECORD],
    Layout "layout" [],
    Counts "counts" [],
    Config "config" [],
    Check "check" [],
}

const RECORD: &str = include_str!("lua/record.lua");
const SHARD: &str = include_str!("lua/shard.lua");
const MOVES: &str = include_str!("lua/moves.lua");
const SCOPE: &str = include_str!("lua/scope.lua");
const HOLDER: &str = include_str!("lua/holder.lua");

/// A script as a server knows it.
#[derive(Debug)]
pub(super) struct Script {
    pub hash: Str,
    pub text: Str,
}

/// All scripts, with the hashes that a server gave them.
#[derive(Debug)]
pub(super) struct Scripts(Vec<Script>);

impl Scripts {
    /// Has a server load every script.
    pub async fn load(client: &Client) -> Result<Self, fred::error::Error> {
        let mut scripts = Vec::with_capacity(SOURCES.len());
        for (_, source, preludes) in SOURCES {
            let text = Str::from(assemble(source, preludes));
            let hash: String = client.script_load(text.clone()).await?;
            scripts.push(Script { hash: hash.into(), text });
        }
        Ok(Self(scripts))
    }

    pub fn get(&self, op: Op) -> &Script {
        &self.0[op as usize]
    }
}

/// The whole text: the flags, which must come first, the preludes, then the script's own.
fn assemble(source: &str, preludes: &[&str]) -> String {
    let (flags, own) = source.split_once('\n').expect("a script has more than one line");
    [&[flags], preludes, &[own]].concat().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_declares_its_flags_first() {
        for (at, (op, source, preludes)) in SOURCES.iter().enumerate() {
            assert_eq!(*op as usize, at, "the table is in the order of the enum");
            assert!(
                assemble(source, preludes).starts_with("#!lua"),
                "{op:?} would be cut in the middle when memory is full"
            );
        }
    }

    #[test]
    fn only_what_needs_room_is_refused_when_memory_is_full() {
        let refused: Vec<Op> = SOURCES
            .iter()
            .filter(|(_, source, _)| source.lines().next() == Some("#!lua"))
            .map(|(op, ..)| *op)
            .collect();
        assert_eq!(refused, [Op::Add, Op::Patch, Op::Settings, Op::Start, Op::Check]);
    }
}
