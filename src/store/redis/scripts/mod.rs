//! The scripts: one Lua file per operation, put together with the preludes it needs.
//!
//! No script may fail after its first write, since a server does not undo it. So each that writes asks first whether
//! its user may run every command that is written in it as `call('COMMAND'` or `redis.pcall('COMMAND'`; the function
//! `denied` is made from its text. What a script runs by `attempt('COMMAND'` may fail.
//!
//! A server names a script by its hash; we ask for that when we connect, rather than carry a SHA-1
//! of our own. A server that has forgotten a script is sent its whole text.

use std::collections::BTreeSet;

use fred::{bytes_utils::Str, clients::Client, interfaces::LuaInterface};

macro_rules! scripts {
    ($($name:ident $file:literal [$($prelude:ident),*],)*) => {
        /// One operation's script.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Op {
            $(#[doc = concat!("`scripts/", $file, ".lua`")] $name,)*
        }

        /// Every script, in the order of [`Op`], with what stands in front of its own text.
        const SOURCES: &[(Op, &str, &[&str])] = &[
            $((Op::$name, include_str!(concat!($file, ".lua")), &[$($prelude),*]),)*
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
    Read "get" [RECORD, SCOPE],
    Topic "topic_stats" [RECORD],
    Dead "list_dead" [RECORD],
    Ready "count_ready" [RECORD],
    Waiting "list_ready_topics" [RECORD],
    Verify "verify" [RECORD],
    Mend "mend" [RECORD, SHARD],
    Lanes "expire_replay_slots" [RECORD],
    Pulse "shard_status" [RECORD, MISSING],
    Settings "put_settings" [RECORD],
    Pause "change_pause" [RECORD],
    Start "init_layout" [RECORD],
    Layout "get_layout" [],
    Counts "get_counts" [],
    Config "get_settings" [],
    Check "check_writes" [RECORD, MISSING],
    Rights "check_permissions" [RECORD, MISSING],
}

const RECORD: &str = include_str!("record.lua");
const SHARD: &str = include_str!("shard.lua");
const MOVES: &str = include_str!("transitions.lua");
const SCOPE: &str = include_str!("scope.lua");
const HOLDER: &str = include_str!("reservation.lua");
/// Stands for the function that [`missing`] makes.
const MISSING: &str = "-- missing rights";

/// A script as a server knows it.
#[derive(Debug)]
pub struct Script {
    pub hash: Str,
    pub text: Str,
}

/// All scripts, with the hashes that a server gave them.
#[derive(Debug)]
pub struct Scripts(Vec<Script>);

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
    let text = [preludes, &[own]].concat().join("\n");
    let text = text.replace(MISSING, &missing());
    let denied = if text.contains("denied()") { denied(&text) } else { String::new() };
    [flags, &denied, &text].join("\n")
}

/// Commands that every script which writes runs before its first write.
const READ_FIRST: [&str; 4] = ["TIME", "HGET", "HLEN", "ZCARD"];

/// Commands that are sent on their own.
const SENT: [&str; 9] = ["EVAL", "EVALSHA", "INFO", "PING", "SCAN", "SCRIPT", "SET", "SUBSCRIBE", "WAIT"];

/// The commands that a text of Lua runs by one of these functions.
fn commands<'a>(text: &'a str, functions: &[&str]) -> BTreeSet<&'a str> {
    let begins = functions.iter().flat_map(|function| text.split(function).skip(1));
    begins.filter_map(|rest| rest.split_once('\'')).map(|(name, _)| name).collect()
}

/// Every command that is sent, or that a script runs.
pub fn all_commands() -> BTreeSet<&'static str> {
    let texts = SOURCES.iter().map(|(_, source, _)| *source).chain([RECORD, SHARD, MOVES, SCOPE, HOLDER]);
    let scripted = texts.flat_map(|text| commands(text, &["call('", "attempt('"]));
    scripted.chain(SENT).collect()
}

/// The function that refuses a script whose user may not run all that is in it. That the user may use the
/// keys the server has checked before it started the script.
fn denied(text: &str) -> String {
    let names = commands(text, &["call('"]).into_iter().filter(|name| !READ_FIRST.contains(name));
    let names: Vec<&str> = names.collect();
    let all = names.iter().map(|name| format!("may('{name}', key)")).collect::<Vec<_>>().join(" and ");
    let names = names.join(" ");
    format!(
        "local function denied()
  local may, key = redis.acl_check_cmd, KEYS[1]
  if {all} then return nil end
  local lacking = {{}}
  for name in string.gmatch('{names}', '%S+') do
    if not may(name, key) then lacking[#lacking + 1] = string.lower(name) end
  end
  return redis.error_reply('NOPERM the user may not run ' .. table.concat(lacking, ', '))
end"
    )
}

/// The function that names all that the user may not do, of what the engine needs. The channels are the first two
/// arguments of its script.
fn missing() -> String {
    let apart = ["EVAL", "EVALSHA", "PUBLISH", "SCRIPT", "SUBSCRIBE"];
    let names: Vec<&str> = all_commands().into_iter().filter(|name| !apart.contains(name)).collect();
    let names = names.join(" ");
    format!(
        "local function missing()
  local lacking = {{}}
  local function need(said, ...)
    -- It fails for a command that the server does not have.
    local known, may = pcall(redis.acl_check_cmd, ...)
    if not known or not may then lacking[#lacking + 1] = said end
  end
  for name in string.gmatch('{names}', '%S+') do need(string.lower(name), name, KEYS[1]) end
  need('eval', 'EVAL', '', '0')
  need('evalsha', 'EVALSHA', '', '0')
  need('script load', 'SCRIPT', 'LOAD', '')
  for i = 1, 2 do
    need('publish on ' .. ARGV[i], 'PUBLISH', ARGV[i], '')
    need('subscribe to ' .. ARGV[i], 'SUBSCRIBE', ARGV[i])
  end
  return lacking
end"
    )
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

    #[test]
    fn every_script_that_may_write_asks_for_its_rights_first() {
        for (op, source, preludes) in SOURCES {
            let text = assemble(source, preludes);
            let writes = !text.starts_with("#!lua flags=no-writes") && !matches!(op, Op::Check | Op::Rights);
            assert_eq!(writes, text.contains("local function denied()"), "{op:?}");
            let asked = writes.then(|| text.matches("denied()").count());
            assert!(asked.is_none_or(|times| times == 2), "{op:?} makes the function and asks it once");
        }
        let (_, finish, preludes) = &SOURCES[Op::Finish as usize];
        let finish = assemble(finish, preludes);
        for name in ["HDEL", "HINCRBY", "HSET", "ZREM"] {
            assert!(finish.contains(&format!("may('{name}', key)")), "{name}");
        }
        assert!(!finish.contains("may('PUBLISH'"), "an announcement may be refused");
    }

    #[test]
    fn every_command_is_known() {
        let all = all_commands();
        for name in ["HSETNX", "LPOP", "PUBLISH", "TIME", "UNLINK", "WAIT"] {
            assert!(all.contains(name), "{name}");
        }
        assert!(all.iter().all(|name| name.bytes().all(|b| b.is_ascii_uppercase())), "{all:?}");
    }
}
