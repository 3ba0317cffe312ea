//! Schedules. Each is on the shard of its name, and so are the jobs of its runs, so that one script changes both.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use fred::types::Key;
use futures_util::future::{join_all, try_join_all};

use crate::{
    job::{Due, HostNumber, JobId, Outlet, ScheduleName, State, Timestamp, TopicFilter},
    store::{
        AddJob, DUE_BYTES, PreviousRun, Refusal, Result, ScheduleChange, ScheduleChanged, ScheduleContent,
        ScheduleOutcome, SchedulePage, ScheduleRefusal, ScheduleRun, StoredSchedule,
        redis::{
            codec::record,
            connection::call::ScriptCall,
            coordination::{
                notifier::Notifier,
                shards::{OUTLET_CHANGES_LIMIT, Shards, outlet_keeps_changing},
            },
            indexed::{Indexed, all_calls, in_order},
            keys::{Shard, ShardKeys},
            ops::read,
            reply::{Reply, unexpected},
            scripts::Script,
        },
    },
};

/// Most schedules that one run of the script changes, so that none blocks Redis for long.
const SLICE: usize = 50;
const NEXT_BYTES: usize = 6;
/// How many schedules one run of a script reads that go through all of a shard.
const PAGE: usize = 100;

/// A schedule, or the name of one that cannot be read.
pub type ReadSchedule = std::result::Result<StoredSchedule, Bytes>;

/// See [`crate::store::ScheduleStore::schedule`].
pub async fn get(shards: &Shards, name: &ScheduleName) -> Result<SchedulePage> {
    let shard = shards.keys.shard_of_schedule(name);
    read_named(shards, shard, std::slice::from_ref(name)).await
}

/// See [`crate::store::ScheduleStore::schedules`]. The names of all shards are merged before the contents are read.
pub async fn list(shards: &Shards, after: Option<&ScheduleName>, limit: usize) -> Result<SchedulePage> {
    let after = Bytes::copy_from_slice(after.map_or("", ScheduleName::as_str).as_bytes());
    let groups = shards.groups();
    let parts =
        try_join_all(groups.iter().map(|group| names_in(shards, group, after.clone(), limit))).await?;
    let now = parts.iter().map(|(now, _)| *now).min().unwrap_or(Timestamp::from_millis(0));
    let mut names: Vec<ScheduleName> = parts.into_iter().flat_map(|(_, names)| names).collect();
    names.sort_unstable();
    names.truncate(limit);
    let is_last = names.len() < limit;
    let mut by_shard: BTreeMap<Shard, Vec<ScheduleName>> = BTreeMap::new();
    for name in names {
        by_shard.entry(shards.keys.shard_of_schedule(&name)).or_default().push(name);
    }
    let parts = by_shard.iter().map(|(shard, names)| read_named(shards, *shard, names));
    let mut page = join(try_join_all(parts).await?);
    page.schedules.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(SchedulePage { now, is_last, ..page })
}

/// The names of the next schedules of each shard of a group, and the clock of the server.
async fn names_in(
    shards: &Shards,
    group: &[Shard],
    after: Bytes,
    limit: usize,
) -> Result<(Timestamp, Vec<ScheduleName>)> {
    let call = list_call(shards, group).arg("names").bytes_arg(after).arg(count_arg(limit));
    let mut reply = Reply::new(shards.call(call).await?)?;
    let now = Timestamp::from_millis(reply.int()?);
    // `linger verify` names those that are no names.
    let names = reply.texts()?.into_iter().filter_map(|name| ScheduleName::parse(&name).ok());
    Ok((now, names.collect()))
}

/// Schedules of a shard.
async fn read_named(shards: &Shards, shard: Shard, names: &[ScheduleName]) -> Result<SchedulePage> {
    let call = list_call(shards, &[shard]).arg("these");
    let call = names.iter().fold(call, |call, name| call.arg(name.as_str()));
    let mut reply = Reply::new(shards.call(call).await?)?;
    let now = Timestamp::from_millis(reply.int()?);
    Ok(readable((now, decode_schedules(reply)?)))
}

/// The next schedules of a shard by name, behind `after`; none at its end.
pub async fn read_behind(shards: &Shards, shard: Shard, after: Bytes) -> Result<Vec<ReadSchedule>> {
    let call = list_call(shards, &[shard]).arg("all").bytes_arg(after).arg(count_arg(PAGE));
    let mut reply = Reply::new(shards.call(call).await?)?;
    reply.int()?;
    decode_schedules(reply)
}

fn list_call(shards: &Shards, group: &[Shard]) -> ScriptCall {
    let keys = keys(shards, group, |keys| [&keys.schedules]);
    shards.read(Script::ListSchedules, group, keys).arg(shards.now_arg())
}

/// See [`crate::store::ScheduleStore::schedule_count`].
pub async fn count(shards: &Shards) -> Result<usize> {
    let groups = shards.groups();
    let counts = groups.iter().map(|group| count_in(shards, group));
    Ok(try_join_all(counts).await?.into_iter().sum())
}

async fn count_in(shards: &Shards, group: &[Shard]) -> Result<usize> {
    let call = shards.read(Script::CountSchedules, group, keys(shards, group, |keys| [&keys.schedules]));
    let count = Reply::new(shards.call(call).await?)?.count()?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// See [`crate::store::ScheduleStore::due_schedules`].
pub async fn due(shards: &Shards, within: Duration, limit: usize) -> Result<SchedulePage> {
    let groups = shards.groups();
    let shard_count = usize::from(shards.keys.count());
    let share = DueShare { schedules: limit.div_ceil(shard_count), bytes: DUE_BYTES / shard_count };
    let parts = groups.iter().map(|group| shards.observe(group[0], due_in(shards, group, within, share)));
    let (read, failed): (Vec<_>, Vec<_>) = join_all(parts).await.into_iter().partition(Result::is_ok);
    match failed.into_iter().next() {
        Some(Err(error)) if read.is_empty() => Err(error),
        _ => Ok(join(read.into_iter().flatten().collect())),
    }
}

/// How many schedules a shard returns, and after how many bytes no more.
#[derive(Clone, Copy)]
struct DueShare {
    schedules: usize,
    bytes: usize,
}

async fn due_in(shards: &Shards, group: &[Shard], within: Duration, share: DueShare) -> Result<SchedulePage> {
    let keys = keys(shards, group, |keys| [&keys.agenda, &keys.schedules]);
    let within = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
    let call =
        shards.read(Script::DueSchedules, group, keys).arg(shards.now_arg()).arg(count_arg(share.schedules));
    let call = call.arg(within).arg(count_arg(share.bytes));
    let mut reply = Reply::new(shards.call(shards.short_retry_in_cluster(call)).await?)?;
    let (now, next) = (Timestamp::from_millis(reply.int()?), reply.text()?);
    let next = next.parse().ok().map(|next| Timestamp::from_millis(next).since(now));
    Ok(SchedulePage { next_in: next, ..readable((now, decode_schedules(reply)?)) })
}

/// The schedules of several servers. Of their clocks the slowest decides, so that none is early anywhere.
fn join(pages: Vec<SchedulePage>) -> SchedulePage {
    let now = pages.iter().map(|page| page.now).min().unwrap_or(Timestamp::from_millis(0));
    let next_in = pages.iter().filter_map(|page| page.next_in).min();
    let schedules = pages.into_iter().flat_map(|page| page.schedules).collect();
    SchedulePage { schedules, now, is_last: true, next_in }
}

/// See [`crate::store::ScheduleStore::change_schedules`].
pub async fn change(
    shards: &Shards,
    notifier: &Notifier,
    changes: Vec<ScheduleChange>,
) -> Result<Vec<ScheduleOutcome>> {
    let count = changes.len();
    let mut parts: BTreeMap<Shard, Indexed<ScheduleChange>> = BTreeMap::new();
    for (index, change) in changes.into_iter().enumerate() {
        parts.entry(shards.keys.shard_of_schedule(&change.name)).or_default().push((index, change));
    }
    let changed = parts.into_iter().map(|(shard, changes)| async move {
        let mut outcomes = Vec::with_capacity(changes.len());
        for slice in changes.chunks(SLICE) {
            outcomes.extend(change_on(shards, notifier, shard, slice).await?);
        }
        Ok(outcomes)
    });
    Ok(in_order(count, all_calls(changed).await?))
}

/// Changes schedules of one shard. A job that gives way may be in the list of an outlet whose keys the call does not have: then
/// its reply names the outlet.
async fn change_on(
    shards: &Shards,
    notifier: &Notifier,
    shard: Shard,
    changes: &[(usize, ScheduleChange)],
) -> Result<Indexed<ScheduleOutcome>> {
    let (mut left, mut outcomes) = (Vec::with_capacity(changes.len()), Vec::with_capacity(changes.len()));
    for (index, change) in changes {
        // The job of an earlier run may be on another shard: it was moved here from a store with another number of shards.
        let skips = previous_elsewhere(shards, shard, change).await?;
        left.push((*index, change, skips));
    }
    let outlet = |run: &ScheduleRun| Outlet { topic: run.job.topic.clone(), host: host(shards, &run.job) };
    let runs = changes.iter().filter_map(|(_, change)| change.run.as_ref());
    let mut outlets: BTreeSet<Outlet> = runs.map(outlet).collect();
    for _ in 0..OUTLET_CHANGES_LIMIT {
        if left.is_empty() {
            return Ok(outcomes);
        }
        let needs_room = |change: &ScheduleChange| change.run.is_some() || change.expected.is_none();
        let script = if left.iter().any(|(_, change, _)| needs_room(change)) {
            Script::RunSchedules
        } else {
            Script::UpdateSchedules
        };
        let slot = shards.replay_slots.acquire(shard);
        let known: Vec<&Outlet> = outlets.iter().collect();
        let mut call = shards.change(script, shard, Some(&slot), &known);
        let keys = shards.keys.shard(shard);
        call.keys.extend(keys.of_schedules().map(Clone::clone));
        for (_, change, skips) in &left {
            call = add_change(call, shards, change, *skips);
        }
        let mut reply = Reply::new(shards.call_acknowledged(call).await?)?;
        shards.report_set_aside(shard, reply.count()?);
        let mut moved = Vec::new();
        for (index, change, skips) in left {
            let code = reply.bytes()?;
            match decode_outcome(&code) {
                Some(outcome) => {
                    if let (Ok(ScheduleChanged::Done { .. }), Some(run)) = (&outcome, &change.run) {
                        notifier.ready_on(&outlet(run), shard);
                        notifier.due_in(Duration::ZERO);
                    }
                    outcomes.push((index, outcome));
                }
                None => {
                    let name = code.strip_prefix(b"M").and_then(|name| std::str::from_utf8(name).ok());
                    outlets.insert(name.and_then(Outlet::parse).ok_or_else(|| unexpected("an outlet"))?);
                    moved.push((index, change, skips));
                }
            }
        }
        left = moved;
    }
    if left.is_empty() { Ok(outcomes) } else { Err(outlet_keeps_changing()) }
}

/// Whether a run is left out because of a job on another shard, which is read before the step.
async fn previous_elsewhere(shards: &Shards, shard: Shard, change: &ScheduleChange) -> Result<bool> {
    let Some(PreviousRun::Skips(id, _)) = change.run.as_ref().and_then(|run| run.previous.as_ref()) else {
        return Ok(false);
    };
    if shards.keys.shard_of(id) == shard {
        return Ok(false);
    }
    let job = read::get(shards, &TopicFilter::ALL, id).await?;
    Ok(job.is_some_and(|job| job.state() != State::Dead))
}

/// Adds the arguments of a change. With `is_skipped` the content for a run that is left out is stored.
fn add_change(call: ScriptCall, shards: &Shards, change: &ScheduleChange, is_skipped: bool) -> ScriptCall {
    let ScheduleChange { name, expected, content, run } = change;
    let instead = match run.as_ref().and_then(|run| run.previous.as_ref()) {
        Some(PreviousRun::Skips(_, instead)) => Some(instead),
        Some(PreviousRun::GivesWay(_)) | None => None,
    };
    let call = call.arg(name.as_str()).bytes_arg(encode_content(expected.as_ref()));
    let Some(ScheduleRun { job, previous }) = run.as_ref().filter(|_| !is_skipped) else {
        let stored = if is_skipped { instead } else { content.as_ref() };
        let call = call.bytes_arg(encode_content(stored));
        return (0..6).fold(call, |call, _| call.arg(""));
    };
    let record = record::encode_run(job, host(shards, job), rand::random());
    let due = match job.due {
        Due::At(moment) => moment.as_millis(),
        Due::After(_) => 0,
    };
    let (kind, previous) = match previous {
        Some(PreviousRun::Skips(id, _)) => ("s", id.as_str()),
        Some(PreviousRun::GivesWay(id)) => ("g", id.as_str()),
        None => ("", ""),
    };
    let call = call.bytes_arg(encode_content(content.as_ref())).arg(job.id.as_str()).bytes_arg(record);
    call.arg(due).arg(kind).arg(previous).bytes_arg(encode_content(instead))
}

/// The host of a job's own callback.
fn host(shards: &Shards, job: &AddJob) -> Option<HostNumber> {
    job.spec.callback.as_ref().map(|callback| shards.host_number(callback.url.origin()))
}

/// The outcome in a reply of `scripts/schedules.lua`; `None` if the call lacked the keys of an outlet.
fn decode_outcome(code: &Bytes) -> Option<ScheduleOutcome> {
    match code.first() {
        Some(b'D') => Some(Ok(ScheduleChanged::Done { gave_way: false })),
        Some(b'G') => Some(Ok(ScheduleChanged::Done { gave_way: true })),
        Some(b'S') => Some(Ok(ScheduleChanged::Skipped)),
        Some(b'F') => Some(Err(ScheduleRefusal::Differs)),
        Some(b'Y') => Some(Err(ScheduleRefusal::Early)),
        Some(b'X') => Some(Err(ScheduleRefusal::Job(Refusal::ExpiresFirst))),
        Some(b'P') => Some(Err(ScheduleRefusal::Job(Refusal::IntakePaused))),
        _ => None,
    }
}

/// A content as it is stored; empty for none.
fn encode_content(content: Option<&ScheduleContent>) -> Bytes {
    let Some(ScheduleContent { next, text }) = content else { return Bytes::new() };
    let mut stored = BytesMut::with_capacity(NEXT_BYTES + text.len());
    stored.put_uint(next.map_or(0, |next| next.as_millis().unsigned_abs()), NEXT_BYTES);
    stored.put_slice(text);
    stored.freeze()
}

fn decode_content(stored: &Bytes) -> Option<ScheduleContent> {
    let (next, text) = stored.split_first_chunk::<NEXT_BYTES>()?;
    std::str::from_utf8(text).ok()?;
    let next = next.iter().fold(0_i64, |next, byte| next << 8 | i64::from(*byte));
    let next = (next > 0).then(|| Timestamp::from_millis(next));
    Some(ScheduleContent { next, text: stored.slice(NEXT_BYTES..) })
}

/// The schedules in the rest of a reply.
fn decode_schedules(mut reply: Reply) -> Result<Vec<ReadSchedule>> {
    let mut schedules = Vec::with_capacity(reply.len() / 2);
    while !reply.is_empty() {
        let (name, stored) = (reply.bytes()?, reply.bytes()?);
        schedules.push(decode_schedule(&name, &stored).ok_or(name));
    }
    Ok(schedules)
}

fn decode_schedule(name: &[u8], stored: &Bytes) -> Option<StoredSchedule> {
    let name = std::str::from_utf8(name).ok().and_then(|name| ScheduleName::parse(name).ok())?;
    Some(StoredSchedule { name, content: decode_content(stored)? })
}

/// The schedules that can be read. `linger verify` names the others.
fn readable((now, schedules): (Timestamp, Vec<ReadSchedule>)) -> SchedulePage {
    let schedules = schedules.into_iter().filter_map(ReadSchedule::ok);
    SchedulePage { schedules: schedules.collect(), now, is_last: true, next_in: None }
}

/// The faults of a shard's schedules and of its agenda, without the shard's number.
pub async fn faults(shards: &Shards, shard: Shard) -> Result<Vec<String>> {
    let (mut faults, mut after) = (Vec::new(), Bytes::new());
    loop {
        let all = keys(shards, &[shard], ShardKeys::of_schedules);
        let call = shards.read(Script::VerifySchedules, &[shard], all).bytes_arg(after.clone());
        let mut reply = Reply::new(shards.call(call.arg(count_arg(PAGE))).await?)?;
        if reply.is_empty() {
            return Ok(faults);
        }
        while !reply.is_empty() {
            let (name, stored) = (reply.bytes()?, reply.value()?.into_bytes());
            let entry = Some(reply.value()?).filter(|entry| !entry.is_null()).map(|entry| entry.as_i64());
            let fault = fault_of(shards, shard, &name, stored.as_ref(), entry);
            faults.extend(fault.map(|fault| format!("schedule {}: {fault}", String::from_utf8_lossy(&name))));
            after = name;
        }
    }
}

/// What is wrong with what is stored for a schedule, and with its entry in the agenda, which has a moment.
fn fault_of(
    shards: &Shards,
    shard: Shard,
    name: &[u8],
    stored: Option<&Bytes>,
    entry: Option<Option<i64>>,
) -> Option<&'static str> {
    let Some(stored) = stored else { return Some("it is in the agenda, and is not stored") };
    let Some(StoredSchedule { name, content }) = decode_schedule(name, stored) else {
        return Some("it cannot be read");
    };
    if shards.keys.shard_of_schedule(&name) != shard {
        return Some("it does not belong to this shard");
    }
    match (content.next.map(|next| Some(next.as_millis())), entry) {
        (next, entry) if next == entry => None,
        (Some(_), None) => Some("it is missing in the agenda, so it does not run"),
        (None, Some(_)) => Some("it should not be in the agenda"),
        (Some(_), Some(_)) | (None, None) => Some("it is at a wrong moment in the agenda"),
    }
}

fn count_arg(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Some keys of each shard.
fn keys<const N: usize>(shards: &Shards, group: &[Shard], of: impl Fn(&ShardKeys) -> [&Key; N]) -> Vec<Key> {
    group.iter().flat_map(|shard| of(shards.keys.shard(*shard)).map(Clone::clone)).collect()
}

/// The id of a run's job on the shard of its schedule.
pub fn run_id(shards: &Shards, name: &ScheduleName, stem: &str) -> JobId {
    crate::store::schedules::run_id_beside(name, stem, shards.keys.count())
}
