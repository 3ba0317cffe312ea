//! The scripts: one Lua file per operation, put together with the preludes it needs.
//!
//! A server names a script by its hash; we ask for that when we connect, rather than carry a SHA-1
//! of our own. A server that has forgotten a script is sent its whole text.

use fred::{bytes_utils::Str, clients::Client, interfaces::LuaInterface};

/// What stands in front of a script's own text.
#[derive(Debug, Clone, Copy)]
enum Prelude {
    None,
    Record,
    Shard,
    Moves,
    Holder,
}

macro_rules! scripts {
    ($($name:ident $file:literal $prelude:ident,)*) => {
        /// One operation's script.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Op {
            $(#[doc = concat!("`lua/", $file, ".lua`")] $name,)*
        }

        /// Every script, in the order of [`Op`].
        const SOURCES: &[(Op, &str, Prelude)] = &[
            $((Op::$name, include_str!(concat!("lua/", $file, ".lua")), Prelude::$prelude),)*
        ];
    };
}

scripts! {
    Add "add" Shard,
    Reserve "reserve" Shard,
    Cancel "cancel" Moves,
    Finish "finish" Shard,
    Release "release" Holder,
    Touch "touch" Holder,
    Bury "bury" Holder,
    Patch "patch" Holder,
    Requeue "requeue" Moves,
    Delete "delete" Moves,
    Promote "promote" Moves,
    Purge "purge" Moves,
    Compact "compact" Shard,
    Read "read" None,
    Topic "topic" Record,
    Dead "dead" Record,
    Ready "ready" Record,
    Waiting "waiting" Record,
    Verify "verify" Record,
    Lanes "lanes" Record,
    Pulse "pulse" Record,
    Settings "settings" Record,
    Start "start" Record,
    Layout "layout" None,
    Counts "counts" None,
    Config "config" None,
    Check "check" None,
}

const RECORD: &str = include_str!("lua/record.lua");
const SHARD: &str = include_str!("lua/shard.lua");
const MOVES: &str = include_str!("lua/moves.lua");
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
        for (_, source, prelude) in SOURCES {
            let text = Str::from(assemble(source, *prelude));
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
fn assemble(source: &str, prelude: Prelude) -> String {
    let (flags, own) = source.split_once('\n').expect("a script has more than one line");
    match prelude {
        Prelude::None => source.to_owned(),
        Prelude::Record => [flags, RECORD, own].join("\n"),
        Prelude::Shard => [flags, RECORD, SHARD, own].join("\n"),
        Prelude::Moves => [flags, RECORD, SHARD, MOVES, own].join("\n"),
        Prelude::Holder => [flags, RECORD, SHARD, MOVES, HOLDER, own].join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_declares_its_flags_first() {
        for (at, (op, source, prelude)) in SOURCES.iter().enumerate() {
            assert_eq!(*op as usize, at, "the table is in the order of the enum");
            assert!(
                assemble(source, *prelude).starts_with("#!lua"),
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
