//! What holds for all scripts.

use std::collections::BTreeMap;

use super::{constants::constants_in, *};

#[test]
fn every_script_declares_its_flags_first() {
    for (at, (script, source, preludes)) in SOURCES.iter().enumerate() {
        assert_eq!(*script as usize, at, "the table is in the order of the enum");
        assert!(
            assemble(source, preludes).starts_with("#!lua"),
            "{script:?} could be stopped in the middle when memory is full"
        );
    }
}

#[test]
fn every_script_that_needs_the_indexes_has_them_written() {
    for (script, source, preludes) in SOURCES {
        let text = assemble(source, preludes);
        assert!(!text.contains("-- written:"), "{script:?}");
        if *script == Script::Promote {
            for written in [
                "\nlocal DUE, LEASES, DEAD_BY_TIME, EXPIRIES = KEYS[6], KEYS[7], KEYS[8], KEYS[9]\n",
                " EXPIRIES = KEYS[at + 6], KEYS[at + 7], KEYS[at + 8], KEYS[at + 9]\n",
                "\nif state == RESERVED then return LEASES end\n",
                "{ name = 'due', key = KEYS[at + 6], state = DELAYED, moment = 'due' },\n",
            ] {
                assert!(text.contains(written), "{written}");
            }
        }
    }
}

#[test]
fn only_scripts_that_need_memory_are_refused_when_it_is_full() {
    let refused: Vec<Script> = SOURCES
        .iter()
        .filter(|(_, source, _)| source.lines().next() == Some("#!lua"))
        .map(|(script, ..)| *script)
        .collect();
    assert_eq!(
        refused,
        [
            Script::Add,
            Script::AddRare,
            Script::Patch,
            Script::Put,
            Script::PutRemembered,
            Script::RunSchedules,
            Script::UpdateTopic,
            Script::InitLayout,
            Script::PutArchived
        ]
    );
}

/// Call rates, notices and the archive are those of the servers that run, and move nowhere.
#[test]
fn every_script_that_changes_jobs_or_settings_checks_the_fence() {
    let unchecked = SOURCES.iter().filter(|(_, source, preludes)| {
        let text = assemble(source, preludes);
        !text.starts_with("#!lua flags=no-writes") && text.matches("refuse_fenced(").count() < 2
    });
    assert_eq!(
        unchecked.map(|(script, ..)| *script).collect::<Vec<_>>(),
        [
            Script::ExpireReplaySlots,
            Script::InitLayout,
            Script::MarkShard,
            Script::AcceptLayout,
            Script::CompleteLayout,
            Script::MissStore,
            Script::SetFence,
            Script::SetMoveMark,
            Script::Allow,
            Script::GiveBackCalls,
            Script::PutNotice,
            Script::DeleteNotice,
            Script::PutArchived,
            Script::CheckPermissions,
        ]
    );
}

#[test]
fn every_writing_script_checks_its_permissions_first() {
    for (script, source, preludes) in SOURCES {
        let text = assemble(source, preludes);
        let writes = !text.starts_with("#!lua flags=no-writes")
            && !matches!(script, Script::CheckWrites | Script::CheckPermissions);
        assert_eq!(writes, text.contains("local function denied()"), "{script:?}");
        let mentions = writes.then(|| text.matches("denied()").count());
        assert!(mentions.is_none_or(|times| times == 2), "{script:?} defines the function and calls it once");
    }
    let (_, finish, preludes) = &SOURCES[Script::Finish as usize];
    let finish = assemble(finish, preludes);
    for name in ["HDEL", "HINCRBY", "HSET", "ZREM"] {
        assert!(finish.contains(&format!("may('{name}', key)")), "{name}");
    }
    assert!(!finish.contains("may('PUBLISH'"), "an announcement may be refused");
}

#[test]
fn every_constant_has_one_value() {
    for (script, source, preludes) in SOURCES {
        let text = assemble(source, preludes);
        let mut values = BTreeMap::new();
        for (name, value) in text.lines().filter_map(constants_in).flatten() {
            assert_eq!(*values.entry(name).or_insert(value), value, "{name} of {script:?}");
        }
        let others = text.lines().filter(|line| constants_in(line).is_none());
        for declared in others.filter_map(|line| line.trim_start().strip_prefix("local ")?.split_once('=')) {
            let is_constant = declared.0.split(',').any(|name| values.contains_key(name.trim()));
            assert!(!is_constant, "{} of {script:?} declares a constant again", declared.0);
        }
        let whole = whole_text(source, preludes);
        assert_eq!(whole.lines().count(), text.lines().count(), "the lines of {script:?} keep their numbers");
    }
}

#[test]
fn every_command_is_known() {
    let all = all_commands();
    for name in ["HSETNX", "LPOP", "PUBLISH", "TIME", "UNLINK", "WAIT"] {
        assert!(all.contains(name), "{name}");
    }
    assert!(all.iter().all(|name| name.bytes().all(|b| b.is_ascii_uppercase())), "{all:?}");
}
