//! Compares memory with the disk: one record, or the counts, reservations and settings as a whole.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{findings::Findings, verify_sql};
use crate::{
    job::{DueKind, Now, Timestamp},
    store::{
        Minute, Totals,
        embedded::{
            memory::{
                due_counts::DueCounts,
                state::Memory,
                topics::{ByKind, OutletNumber, OutletState},
            },
            rows::{
                codec::{Lease, Record},
                db::{Db, SqlResult, Table},
                key::RowKey,
            },
        },
    },
};

/// A record's table, key and column `dead_ms`.
type StoredRow = (Table, RowKey, Option<i64>);

/// Checks that memory has the job of this record exactly once, under its key, and in a valid state.
pub(super) fn check_record(
    memory: &Memory,
    db: &Db,
    (table, key, dead_ms): StoredRow,
    record: &Record,
    now: Now,
    findings: &mut Findings,
) -> SqlResult<()> {
    let (head, dead) = (&record.head, table == Table::Dead);
    let hash = memory.job_index().hash(head.id.as_str().as_bytes());
    let (mut here, mut elsewhere) = (Vec::new(), 0);
    for job_ref in memory.job_index().candidates(hash) {
        if (job_ref.key, job_ref.dead) == (key, dead) {
            here.push(job_ref);
        } else {
            let other = db.read_head(Table::for_job(job_ref.dead), job_ref.key)?;
            elsewhere += usize::from(other.is_ok_and(|other| other.id == head.id));
        }
    }
    let name = || format!("job {} at {key:?}", head.id);
    findings.check(elsewhere == 0, || format!("{} has another record too", name()));
    findings.check(here.len() < 2, || format!("{} is in memory {} times", name(), here.len()));
    let Some(state) = here.first().and_then(|job_ref| memory.topics().try_get(job_ref.outlet)) else {
        findings.add(|| format!("{} is on disk but not in memory", name()));
        return Ok(());
    };
    let same = state.outlet == head.outlet();
    findings
        .check(same, || format!("{} of topic {} is in memory under {}", name(), head.outlet(), state.outlet));
    if dead {
        let died = head.dead_at.map(Timestamp::as_millis);
        let sound = died.is_some() && died == dead_ms;
        findings.check(sound, || format!("{} is stored under another moment of death", name()));
    } else {
        findings
            .check(head.dead_at.is_none(), || format!("{} is dead, but stored with the live jobs", name()));
        check_state(memory, state, key, record, now, findings);
        let expires_at = memory.expiries().get(key);
        findings.check(expires_at == head.expiry(), || {
            format!("{} expires at {:?}, in memory at {expires_at:?}", name(), head.expiry())
        });
    }
    Ok(())
}

/// Checks that a live job has exactly one state, and the right one for its due time.
fn check_state(
    memory: &Memory,
    state: &OutletState,
    key: RowKey,
    record: &Record,
    now: Now,
    findings: &mut Findings,
) {
    let due_at = record.head.due_at;
    let name = || format!("job {} at {key:?}", record.head.id);
    findings.check(key.slot() >= due_at, || format!("{} is stored before its due time {due_at}", name()));
    let delayed = state.delayed.contains(key);
    let lease = memory.lease(key);
    let states = [delayed, state.ready.contains_key(&key), lease.is_some()];
    let states = states.into_iter().filter(|is_in_state| *is_in_state).count();
    findings.check(states == 1, || format!("{} is in {states} states in memory", name()));
    // Only the machine's clock tells whether a moment has come, and this check does not read it.
    let may_be_ready = due_at <= now.rounded_up || key.kind() == DueKind::Moment;
    // A version that waits for the holder of an older one was not made ready.
    let waits = delayed || lease.is_some_and(Lease::is_of_older);
    findings
        .check(waits || may_be_ready, || format!("{} was made ready before its due time {due_at}", name()));
}

/// Checks counts, reservations and settings, which can only be compared as a whole.
pub(super) fn check_whole(memory: &Memory, db: &Db, now: Now, findings: &mut Findings) -> SqlResult<()> {
    check_counts(memory, findings);
    check_due_counts(memory, findings);
    check_first_keys(memory, findings);
    check_expiries(memory, findings);
    check_leases(memory, db, findings)?;
    check_configs(memory, db, findings)?;
    let strays = verify_sql::stray_rows(db)?;
    findings.check(strays == 0, || format!("{strays} rows have keys out of range"));
    findings.check(db.read_store_head()?.is_some(), || "the stored number of commits is damaged".to_owned());
    findings.check(db.run_state()?.is_some(), || "how the last run ended cannot be read".to_owned());
    match db.clock_mark()? {
        Some(mark) => {
            findings
                .check(mark <= now.rounded_up, || format!("the clock is before its high-water mark {mark}"));
        }
        None => findings.add(|| "the clock's high-water mark cannot be read".to_owned()),
    }
    if let Some(first) = db.first_dead()? {
        let known = memory.earliest_death().is_some_and(|since| since <= first.slot());
        findings.check(known, || format!("the first dead letter, at {first:?}, is not expected"));
    }
    Ok(())
}

fn check_counts(memory: &Memory, findings: &mut Findings) {
    // Counted from the job index.
    let mut counts: HashMap<OutletNumber, Totals> = HashMap::new();
    for (_, job) in (0..).map_while(|shard| memory.job_index().in_shard(shard)).flatten() {
        if memory.topics().try_get(job.outlet).is_none() {
            findings.add(|| format!("the job at {:?} belongs to no topic", job.key));
            continue;
        }
        *counts.entry(job.outlet).or_default().count_mut(memory.job_state(job)) += 1;
    }
    let mut totals = Totals::default();
    for (ix, topic) in memory.topics().outlets() {
        let held = counts.remove(&ix).unwrap_or_default();
        let counted = Totals {
            delayed: topic.delayed.len() as u64,
            ready: topic.ready.len() as u64,
            reserved: topic.reserved,
            dead: topic.dead,
        };
        totals += counted;
        findings.check(counted == held, || {
            format!("topic {} counts {counted:?}, but holds {held:?}", topic.outlet)
        });
    }
    let counted = memory.totals();
    findings.check(counted == totals, || format!("all topics count {counted:?}, but hold {totals:?}"));
}

/// Checks that the counts by minute and hour are those of the delayed jobs.
fn check_due_counts(memory: &Memory, findings: &mut Findings) {
    let mut all = ByKind::<DueCounts>::default();
    for (plain, topic) in memory.topics().by_name() {
        let mut counts = ByKind::<DueCounts>::default();
        let outlets = memory.topics().outlets_of(plain);
        for key in outlets.flat_map(|(_, outlet)| outlet.delayed.iter()).flatten() {
            let due = Minute::containing(key.slot());
            counts.get_mut(key.kind()).add(due);
            all.get_mut(key.kind()).add(due);
        }
        findings.check(topic.due_counts == counts, || {
            format!("the timeline of topic {} does not count its delayed jobs", topic.outlet.topic)
        });
    }
    let same = *memory.delayed().due_counts() == all;
    findings.check(same, || "the timeline of all topics does not count their delayed jobs".to_owned());
}

fn check_first_keys(memory: &Memory, findings: &mut Findings) {
    let outlets = memory.topics().outlets();
    let firsts = outlets.flat_map(|(ix, state)| state.delayed.iter().map(move |keys| (keys.first(), ix)));
    let first_keys: BTreeSet<(RowKey, OutletNumber)> =
        firsts.filter_map(|(first, ix)| Some((*first?, ix))).collect();
    let known: BTreeSet<_> = memory.delayed().first_keys().iter().flatten().copied().collect();
    for (key, topic) in first_keys.symmetric_difference(&known) {
        let name = memory.topics().try_get(*topic).map(|state| state.outlet.to_string());
        findings.add(|| format!("the job of topic {name:?} that is due next is not {key:?}"));
    }
}

/// Checks that exactly the jobs that wait can expire, each at its moment.
fn check_expiries(memory: &Memory, findings: &mut Findings) {
    let of_waiting = memory.expiries().all().filter(|(key, _)| memory.lease(*key).is_none());
    let expected: BTreeSet<_> = of_waiting.map(|(key, expires_at)| (expires_at.moment, key)).collect();
    let waiting: BTreeSet<_> = memory.expiries().waiting().collect();
    for (moment, key) in expected.symmetric_difference(&waiting) {
        findings.add(|| format!("the job at {key:?} does not expire at {moment} in both lists"));
    }
}

fn check_leases(memory: &Memory, db: &Db, findings: &mut Findings) -> SqlResult<()> {
    let leases = db.leases()?.into_iter();
    let stored: BTreeMap<RowKey, Lease> = leases.filter_map(|(key, lease)| Some((key, lease?))).collect();
    let rows = verify_sql::lease_count(db)?;
    findings.check(rows == stored.len(), || {
        format!("{} reservations on disk cannot be read", rows.abs_diff(stored.len()))
    });
    let both =
        stored.keys().copied().chain(memory.leases().map(|(key, _, _)| key)).collect::<BTreeSet<RowKey>>();
    for key in both {
        let (memory, disk) = (memory.lease(key), stored.get(&key));
        findings.check(memory == disk, || {
            let known = |lease: Option<&Lease>| if lease.is_some() { "there" } else { "missing" };
            let (memory, disk) = (known(memory), known(disk));
            format!("the reservation at {key:?} ({memory} in memory, {disk} on disk) is not the same in both")
        });
    }
    let deadlines: BTreeSet<_> = memory.leases().map(|(key, _, lease)| (lease.deadline, key)).collect();
    for (deadline, key) in deadlines.symmetric_difference(memory.deadlines()) {
        findings.add(|| format!("the reservation at {key:?} does not end at {deadline} in both lists"));
    }
    Ok(())
}

fn check_configs(memory: &Memory, db: &Db, findings: &mut Findings) -> SqlResult<()> {
    let mut stored = BTreeMap::new();
    for topic in db.topic_configs()? {
        match topic {
            Ok((name, config)) => {
                stored.insert(name.as_str().to_owned(), config);
            }
            Err(name) => findings.add(|| format!("the settings of topic {name:?} are damaged")),
        }
    }
    for (_, topic) in memory.topics().by_name() {
        let disk = stored.remove(topic.outlet.topic.as_str()).unwrap_or_default();
        findings.check(*topic.config == disk, || {
            format!("the settings of topic {} are not those on disk", topic.outlet.topic)
        });
    }
    // A row may have only values of a later version.
    for name in stored.into_iter().filter_map(|(name, config)| (!config.is_default()).then_some(name)) {
        findings.add(|| format!("the settings of topic {name} are on disk but not in memory"));
    }
    Ok(())
}
