//! Mends a shard whose counts and indexes, or whose agenda and schedules, disagree, because a script was interrupted or another
//! program changed the keys. The sweep notices it (`scripts/shard_status.lua`); `scripts/mend.lua` goes through the records in
//! small parts, and `scripts/mend_agenda.lua` through the schedules.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;

use super::{notifier::Notifier, shards::Shards};
use crate::{
    clock::Clock,
    job::Outlet,
    store::{
        Result,
        redis::{
            keys::{INDEXES, Shard},
            reply::{Reply, unexpected},
            scripts::Script,
        },
    },
};

/// Pause between two parts, so that Redis serves others most of the time.
const PAUSE: Duration = Duration::from_millis(20);

/// Most outlets whose keys one part gets, beyond those that its own jobs need.
const OUTLETS_LIMIT: usize = 256;

/// The step of the script that corrects counts: after that of the records and those of the indexes.
const COUNTS_STEP: usize = INDEXES.len() + 2;

/// How many counts one run of the script corrects.
const COUNTS_SLICE: usize = 1_000;

/// About how many counts one run of a script reads, so that none blocks Redis for long.
const COUNTS_PAGE: i64 = 4_000;

/// Begins the field that counts the ready jobs of an outlet, whose name follows.
const READY_COUNT: &[u8] = b"r";

/// What of a shard does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// The counts, and its jobs.
    Counts,
    /// The agenda, and its schedules.
    Agenda,
}

/// Counts by field.
type StoredCounts = HashMap<Bytes, Bytes>;

/// Mends shards, one at a time.
pub struct Mender {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
    busy: AtomicBool,
}

impl Mender {
    pub fn new(shards: Arc<Shards>, notifier: Arc<Notifier>) -> Arc<Self> {
        Arc::new(Self { shards, notifier, busy: AtomicBool::new(false) })
    }

    /// Begins to mend a shard in a task of its own, unless a shard is being mended already: then the next comparison finds it again.
    pub fn start(self: &Arc<Self>, shard: Shard, mismatch: Mismatch) {
        if self.busy.swap(true, Ordering::Relaxed) {
            return;
        }
        let mender = self.clone();
        self.shards.context().spawn(async move {
            let mended = match mismatch {
                Mismatch::Counts => {
                    tracing::warn!(shard, "repairing a shard: its counts do not match its jobs");
                    mender.mend(shard).await
                }
                Mismatch::Agenda => {
                    tracing::warn!(shard, "repairing a shard: its agenda does not match its schedules");
                    mender.mend_agenda(shard).await
                }
            };
            match mended {
                Ok(repaired) => tracing::warn!(shard, repaired, "repaired a shard"),
                Err(error) => tracing::warn!(shard, %error, "cannot repair a shard yet"),
            }
            mender.busy.store(false, Ordering::Relaxed);
        });
    }

    /// Mends a shard; returns how many entries were wrong.
    async fn mend(&self, shard: Shard) -> Result<u64> {
        let before = self.stored_counts(shard).await?;
        let mut tally: HashMap<Bytes, i64> = HashMap::new();
        let (mut step, mut cursor, mut known) = (1, "0".to_owned(), Vec::<Outlet>::new());
        let (mut mended, mut counted) = (0, false);
        let context = self.shards.context();
        while step > 0 && !context.closing.is_cancelled() {
            let outlets: Vec<&Outlet> = known.iter().collect();
            let call = self.shards.change(Script::Mend, shard, None, &outlets).arg(step).arg(cursor.as_str());
            let mut reply = Reply::new(self.shards.call(call).await?)?;
            (step, cursor) = (reply.int()?, reply.text()?);
            if reply.int()? == 1 {
                tally.clear();
            }
            mended += reply.count()?;
            counted |= reply.int()? == 1;
            let mut unknown = reply.list()?;
            self.notify_ready(shard, reply.list()?)?;
            // Also when the run needs more keys: it may have tallied pages before that.
            add_to(&mut tally, reply.list()?)?;
            if unknown.is_empty() {
                context.clock.sleep(PAUSE).await;
            } else if known.len() > OUTLETS_LIMIT {
                known.clear();
            }
            while !unknown.is_empty() {
                known.push(unknown.name()?);
            }
        }
        if !counted && step == 0 {
            mended += self.mend_counts(shard, &before, &tally).await?;
        }
        Ok(mended)
    }

    /// Mends the agenda of a shard; returns how many entries were wrong.
    async fn mend_agenda(&self, shard: Shard) -> Result<u64> {
        let (mut mended, mut after) = (0, Bytes::new());
        let context = self.shards.context();
        while !context.closing.is_cancelled() {
            let mut call = self.shards.change(Script::MendAgenda, shard, None, &[]).bytes_arg(after);
            call.keys.extend(self.shards.keys.shard(shard).of_schedules().map(Clone::clone));
            let mut reply = Reply::new(self.shards.call(call).await?)?;
            after = reply.bytes()?;
            mended += reply.count()?;
            if after.is_empty() {
                break;
            }
            context.clock.sleep(PAUSE).await;
        }
        Ok(mended)
    }

    /// Corrects the counts that have not changed since `before`.
    async fn mend_counts(
        &self,
        shard: Shard,
        before: &StoredCounts,
        tally: &HashMap<Bytes, i64>,
    ) -> Result<u64> {
        let mut mended = 0;
        let new = tally.keys().filter(|field| !before.contains_key(*field));
        let fields = before.keys().filter(|field| **field != "#" && **field != "!").chain(new);
        let (without_ready, others): (Vec<&Bytes>, Vec<&Bytes>) =
            fields.partition(|field| field.starts_with(READY_COUNT) && !tally.contains_key(*field));
        let as_counted = |field: &Bytes| {
            let stored = before.get(field).cloned().unwrap_or_default();
            (field.clone(), stored, tally.get(field).copied().unwrap_or(0))
        };
        for fields in others.chunks(COUNTS_SLICE) {
            mended += self.correct(shard, &[], fields.iter().map(|field| as_counted(field))).await?;
        }
        // The script looks into the list of an outlet before it says that it has no ready job.
        for fields in without_ready.chunks(OUTLETS_LIMIT) {
            let outlets: Vec<Outlet> = fields.iter().filter_map(|field| outlet_of(field)).collect();
            mended += self.correct(shard, &outlets, fields.iter().map(|field| as_counted(field))).await?;
        }
        Ok(mended)
    }

    /// Corrects counts: for each its field, what was stored before, and the number of such jobs.
    async fn correct(
        &self,
        shard: Shard,
        outlets: &[Outlet],
        counts: impl Iterator<Item = (Bytes, Bytes, i64)>,
    ) -> Result<u64> {
        let step = i64::try_from(COUNTS_STEP).expect("a small number");
        let known: Vec<&Outlet> = outlets.iter().collect();
        let call = self.shards.change(Script::Mend, shard, None, &known).arg(step).arg("0");
        let call = counts
            .fold(call, |call, (field, stored, number)| call.bytes_arg(field).bytes_arg(stored).arg(number));
        let mut reply = Reply::new(self.shards.call(call).await?)?;
        let (_step, _cursor, _begins) = (reply.int()?, reply.text()?, reply.int()?);
        let mended = reply.count()?;
        let (_counted, _unknown) = (reply.int()?, reply.list()?);
        self.notify_ready(shard, reply.list()?)?;
        Ok(mended)
    }

    async fn stored_counts(&self, shard: Shard) -> Result<StoredCounts> {
        let keys = self.shards.keys.shard(shard);
        let mut counts = StoredCounts::new();
        for key in [&keys.counts, &keys.timeline] {
            let mut cursor = "0".to_owned();
            loop {
                let call = self.shards.read(Script::GetCounts, &[shard], vec![key.clone()]);
                let mut reply =
                    Reply::new(self.shards.call(call.arg(cursor).arg(COUNTS_PAGE).arg("")).await?)?;
                cursor = reply.text()?;
                let mut page = reply.list()?;
                while !page.is_empty() {
                    counts.insert(page.bytes()?, page.bytes()?);
                }
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(counts)
    }

    fn notify_ready(&self, shard: Shard, mut outlets: Reply) -> Result<()> {
        while !outlets.is_empty() {
            self.notifier.ready_on(&outlets.name()?, shard);
        }
        Ok(())
    }
}

/// The outlet whose ready jobs a field counts.
fn outlet_of(field: &Bytes) -> Option<Outlet> {
    std::str::from_utf8(field.strip_prefix(READY_COUNT)?).ok()?.parse().ok()
}

fn add_to(tally: &mut HashMap<Bytes, i64>, mut counts: Reply) -> Result<()> {
    while !counts.is_empty() {
        let (field, number) = (counts.bytes()?, counts.int()?);
        let sum = tally.entry(field).or_default();
        *sum = sum.checked_add(number).ok_or_else(|| unexpected("a count"))?;
    }
    Ok(())
}
