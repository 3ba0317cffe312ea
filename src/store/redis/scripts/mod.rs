//! The Lua scripts: one file per operation, each assembled with the preludes that it needs.
//!
//! # No partial effects
//!
//! No script may fail after its first write, because a server does not roll it back. So each script that writes
//! first checks that its user may run every command that it contains as `call('COMMAND'` or
//! `redis.pcall('COMMAND'`; the function `denied` is generated from the script's text and uses
//! `redis.acl_check_cmd`. A command run by `attempt('COMMAND'` may fail. A script also reads each key that it will
//! write before its first write, so that a key of a wrong type fails before anything has changed. Announcements use
//! `pcall`. A count that is no number restarts at 0. The sweep finds what is wrong nevertheless
//! (`coordination/mend.rs`).
//!
//! # Second runs and late runs
//!
//! A caller resends a call with the very same arguments until there is a reply. Each script recognises its own
//! second run: by the record, or, if that does not show it (a finish deletes it), by the sequence number of a
//! replay slot, which has the first reply. Every script that changes something has a deadline by the server's
//! clock: after it, the script changes nothing and replies `LATE`, unless its replay slot has the reply of a run
//! before the deadline.
//!
//! # Fences
//!
//! The field `!` of each shard's counts and of the settings is the mark of the store, or the fence of a move. Every
//! script that changes jobs or settings checks it (`refuse_fenced` in `record.lua`); a test in this file holds the
//! list of these scripts. A shard with neither mark nor jobs was emptied, and the script refuses the change.
//!
//! # Records
//!
//! A record (`codec/record.rs`) is a head at fixed offsets, the name of its outlet (`topic`, or `topic>3f` with a
//! host number), tagged attributes in ascending order, and the body. A reservation is the first attribute. So the
//! script for reserving inserts it directly behind that name, and that for finishing compares the receipt there,
//! without decoding the rest. Every other script that rewrites a record decodes it, and copies the attributes and
//! flags that it does not know: a later version adds a field as a new tag, while processes of this version run
//! beside it. What is set for a topic has the same form; only the caller reads it.
//!
//! A caller's topics are compared with the topic in the record's head (`scope.lua`). A call reads each job once.
//!
//! # Loading
//!
//! A server gets a script with the values of its constants in place of their names (`constants.rs`).
//! A server that loads a script returns the SHA-1 by which it knows it. One that does not know a script is sent its text.

use std::{collections::BTreeSet, sync::LazyLock};

use fred::{bytes_utils::Str, clients::Client, interfaces::LuaInterface};

use self::constants::inline_constants;
use super::keys;

macro_rules! scripts {
    ($($name:ident $file:literal [$($prelude:ident),*],)*) => {
        /// The script of one operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Script {
            $(#[doc = concat!("`scripts/", $file, ".lua`")] $name,)*
        }

        /// Every script, in the order of [`Script`], with its own text and its preludes.
        const SOURCES: &[(Script, &str, &[&str])] = &[
            $((Script::$name, include_str!(concat!($file, ".lua")), &[$($prelude),*]),)*
        ];
    };
}

scripts! {
    Add "add" [RECORD, SHARD, EXPIRY, ADDING],
    AddRare "add_rare" [RECORD, SHARD, MOVES, HISTORY, ADDING, REMEMBERING],
    Reserve "reserve" [RECORD, SHARD, EXPIRY],
    Cancel "cancel" [RECORD, SHARD, MOVES],
    Finish "finish" [RECORD, SHARD, SCOPE],
    FinishRare "finish_rare" [RECORD, SHARD, MOVES, SCOPE, REMEMBERING],
    Release "release" [RECORD, SHARD, MOVES, HISTORY, SCOPE, HOLDER],
    Touch "touch" [RECORD, SHARD, MOVES, SCOPE, HOLDER],
    Bury "bury" [RECORD, SHARD, MOVES, HISTORY, SCOPE, HOLDER],
    Patch "patch" [RECORD, SHARD, MOVES, HISTORY, SCOPE, HOLDER],
    Requeue "requeue" [RECORD, SHARD, MOVES, HISTORY, SCOPE, HOLDER],
    Delete "delete" [RECORD, SHARD, MOVES, SCOPE, REMEMBERING],
    Change "change" [RECORD, SHARD, MOVES, HISTORY],
    Promote "promote" [RECORD, SHARD, MOVES, HISTORY, INDEXES],
    Purge "purge" [RECORD, SHARD, MOVES, SCAN],
    Put "put" [RECORD, SHARD, MOVES, INDEXES, REMEMBERING],
    PutRemembered "put_remembered" [RECORD, SHARD, REMEMBERING],
    RunSchedules "run_schedules" [RECORD, SHARD, MOVES, ADDING, AGENDA, SCHEDULES],
    UpdateSchedules "update_schedules" [RECORD, SHARD, MOVES, ADDING, AGENDA, SCHEDULES],
    DueSchedules "due_schedules" [RECORD],
    ListSchedules "list_schedules" [RECORD],
    CountSchedules "count_schedules" [RECORD],
    ScanIds "scan_ids" [SCAN],
    Records "records" [],
    Compact "compact" [RECORD, SHARD],
    Get "get" [RECORD, SCOPE],
    TopicStats "topic_stats" [RECORD],
    List "list" [RECORD, LISTING],
    ListReady "list_ready" [RECORD, LISTING],
    CountReady "count_ready" [RECORD],
    CountDue "count_due" [RECORD],
    Timeline "timeline" [RECORD],
    Totals "totals" [RECORD],
    ListReadyOutlets "list_ready_outlets" [RECORD],
    Verify "verify" [RECORD, SHARD_KEYS, INDEXES, SCAN, COMPARISON],
    Mend "mend" [RECORD, SHARD, INDEXES, SCAN, COMPARISON],
    VerifySchedules "verify_schedules" [RECORD, AGENDA],
    MendAgenda "mend_agenda" [RECORD, SHARD, AGENDA],
    ExpireReplaySlots "expire_replay_slots" [RECORD],
    ShardStatus "shard_status" [RECORD, MISSING, SHARD_KEYS, INDEXES, AGENDA],
    UpdateTopic "update_topic" [RECORD, SETTINGS],
    ReduceTopic "reduce_topic" [RECORD, SETTINGS],
    InitLayout "init_layout" [RECORD],
    MarkShard "mark_shard" [RECORD],
    AcceptLayout "accept_layout" [RECORD],
    CompleteLayout "complete_layout" [RECORD],
    MissStore "miss_store" [RECORD],
    SetFence "set_fence" [RECORD],
    SetMoveMark "set_move_mark" [RECORD],
    Allow "allow" [RECORD],
    GiveBackCalls "give_back_calls" [RECORD],
    PutNotice "put_notice" [RECORD],
    DeleteNotice "delete_notice" [RECORD],
    ListNotices "list_notices" [RECORD],
    PutArchived "put_archived" [RECORD],
    ListArchived "list_archived" [RECORD],
    GetLayout "get_layout" [],
    GetFences "get_fences" [],
    GetCounts "get_counts" [],
    GetSettings "get_settings" [RECORD],
    CheckWrites "check_writes" [RECORD, MISSING],
    CheckPermissions "check_permissions" [RECORD, MISSING],
}

impl Script {
    /// Whether the script finds out which store is there, or makes one: it runs while that is not the one of this process.
    pub fn examines_store(self) -> bool {
        matches!(
            self,
            Self::GetLayout
                | Self::InitLayout
                | Self::GetFences
                | Self::MarkShard
                | Self::AcceptLayout
                | Self::CompleteLayout
                | Self::MissStore
                | Self::ShardStatus
        )
    }
}

const RECORD: &str = include_str!("record.lua");
const SHARD_KEYS: &str = include_str!("shard_keys.lua");
const SHARD: &str = concat!(include_str!("shard_keys.lua"), include_str!("shard.lua"));
const INDEXES: &str = include_str!("indexes.lua");
const COMPARISON: &str = include_str!("comparison.lua");
const EXPIRY: &str = include_str!("expiry.lua");
const MOVES: &str = concat!(include_str!("expiry.lua"), include_str!("transitions.lua"));
const ADDING: &str = include_str!("adding.lua");
const REMEMBERING: &str = include_str!("remembering.lua");
const AGENDA: &str = include_str!("agenda.lua");
const SCHEDULES: &str = include_str!("schedules.lua");
const HISTORY: &str = include_str!("history.lua");
const SCOPE: &str = include_str!("scope.lua");
const HOLDER: &str = include_str!("reservation.lua");
const SETTINGS: &str = include_str!("settings.lua");
const LISTING: &str = include_str!("listing.lua");
const SCAN: &str = include_str!("scan.lua");
/// Placeholder for the function that [`missing_function`] generates.
const MISSING: &str = "-- missing permissions";

/// A script and its hash.
#[derive(Debug)]
pub struct LoadedScript {
    pub hash: Str,
    pub text: Str,
}

/// All scripts, with their hashes.
#[derive(Debug)]
pub struct Scripts(Vec<LoadedScript>);

impl Scripts {
    /// Loads every script at a server.
    pub async fn load(client: &Client) -> Result<Self, fred::error::Error> {
        let mut scripts = Vec::with_capacity(TEXTS.len());
        for text in &*TEXTS {
            let hash: String = client.script_load(text.clone()).await?;
            scripts.push(LoadedScript { hash: hash.into(), text: text.clone() });
        }
        Ok(Self(scripts))
    }

    pub fn get(&self, script: Script) -> &LoadedScript {
        &self.0[script as usize]
    }
}

/// The text of every script, assembled once: it is the same for every server.
static TEXTS: LazyLock<Vec<Str>> = LazyLock::new(|| {
    SOURCES.iter().map(|(_, source, preludes)| whole_text(source, preludes).into()).collect()
});

/// The text that servers get.
fn whole_text(source: &str, preludes: &[&str]) -> String {
    inline_constants(&assemble(source, preludes))
}

/// The flags, which must come first, then the preludes, then the script's own text.
fn assemble(source: &str, preludes: &[&str]) -> String {
    let (flags, own) = source.split_once('\n').expect("a script has more than one line");
    let text = [preludes, &[own]].concat().join("\n");
    let text = if text.contains(MISSING) { text.replace(MISSING, &missing_function()) } else { text };
    let text = write_indexes(text);
    let denied = if text.contains("denied()") { denied_function(&text) } else { String::new() };
    [flags, &denied, &text].join("\n")
}

/// Writes what [`keys::INDEXES`] says where a script has a line for it.
fn write_indexes(text: String) -> String {
    let numbered = || keys::INDEXES.iter().zip(keys::FIRST_INDEX..);
    let each = |row: &dyn Fn(&keys::Index, usize) -> String, separator: &str| {
        numbered().map(|(index, number)| row(index, number)).collect::<Vec<_>>().join(separator)
    };
    let state = |index: &keys::Index| index.state.map_or("nil".into(), |it| it.as_str().to_ascii_uppercase());
    let variables = each(&|index, _| index.variable.to_owned(), ", ");
    let own = each(&|_, number| format!("KEYS[{number}]"), ", ");
    let behind = each(&|_, number| format!("KEYS[at + {number}]"), ", ");
    let (last, first) = (keys::SHARD_KEYS, keys::FIRST_INDEX);
    let parts = [
        (
            "-- written: the keys of the indexes\n",
            format!("local SHARD_KEYS, FIRST_INDEX = {last}, {first}\nlocal {variables} = {own}\n"),
        ),
        ("-- written: the keys of the indexes behind `at`\n", format!("{variables} = {behind}\n")),
        (
            "-- written: the index of a state\n",
            each(
                &|index, _| format!("if state == {} then return {} end\n", state(index), index.variable),
                "",
            ),
        ),
        (
            "-- written: the rows of the indexes\n",
            each(
                &|index, number| {
                    let (name, state, moment) = (index.name, state(index), index.moment);
                    format!(
                        "{{ name = '{name}', key = KEYS[at + {number}], state = {state}, moment = '{moment}' }},\n"
                    )
                },
                "",
            ),
        ),
    ];
    parts.iter().fold(text, |text, (line, written)| text.replace(line, written))
}

/// Commands that every writing script runs before its first write, so that they need no check.
const RUN_BEFORE_WRITES: [&str; 4] = ["TIME", "HGET", "HLEN", "ZCARD"];

/// Commands that the engine sends outside of scripts.
const SENT: [&str; 9] = ["EVAL", "EVALSHA", "INFO", "PING", "SCAN", "SCRIPT", "SET", "SUBSCRIBE", "WAIT"];

/// The commands that a Lua text runs by one of these functions.
fn commands<'a>(text: &'a str, functions: &[&str]) -> BTreeSet<&'a str> {
    let calls = functions.iter().flat_map(|function| text.split(function).skip(1));
    calls.filter_map(|rest| rest.split_once('\'')).map(|(name, _)| name).collect()
}

/// Every command that the engine sends or that a script runs.
pub fn all_commands() -> BTreeSet<&'static str> {
    let preludes = [
        RECORD,
        SHARD,
        MOVES,
        ADDING,
        AGENDA,
        SCHEDULES,
        HISTORY,
        SCOPE,
        HOLDER,
        SETTINGS,
        LISTING,
        SCAN,
        COMPARISON,
        REMEMBERING,
    ];
    let texts = SOURCES.iter().map(|(_, source, _)| *source).chain(preludes);
    let scripted = texts.flat_map(|text| commands(text, &["call('", "attempt('"]));
    scripted.chain(SENT).collect()
}

/// The function that refuses to run a script if the user may not run all of its commands. The server has checked
/// the permissions for keys before it starts a script.
fn denied_function(text: &str) -> String {
    let names = commands(text, &["call('"]).into_iter().filter(|name| !RUN_BEFORE_WRITES.contains(name));
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

/// The function that lists all permissions that the engine needs and the user lacks. The channels are the first two
/// arguments of its script.
fn missing_function() -> String {
    let checked_apart = ["EVAL", "EVALSHA", "PUBLISH", "SCRIPT", "SUBSCRIBE"];
    let names: Vec<&str> = all_commands().into_iter().filter(|name| !checked_apart.contains(name)).collect();
    let names = names.join(" ");
    format!(
        "local function missing()
  local lacking = {{}}
  local function need(label, ...)
    -- The check fails for a command that the server does not have.
    local known, may = pcall(redis.acl_check_cmd, ...)
    if not known or not may then lacking[#lacking + 1] = label end
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

mod constants;
#[cfg(test)]
mod tests;
