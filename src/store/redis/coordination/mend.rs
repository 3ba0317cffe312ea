//! Mending a shard whose counts and indexes disagree: what a script that was cut short left behind, or somebody
//! else's hand. The sweep notices it (`scripts/shard_status.lua`); `scripts/mend.lua` goes through the records in small parts.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;

use crate::store::redis::{
    Engine,
    keys::Shard,
    ops::topics::COUNTS_SLICE,
    reply::{Reply, unexpected},
    scripts::Op,
};
use crate::{clock::Clock, job::Topic, store::Result};

/// Pause between two parts, so that Redis serves others most of the time.
const PAUSE: Duration = Duration::from_millis(20);

/// Most topics that one part is given the keys of, beyond those that its own jobs need.
const TOPICS: usize = 256;

/// How many counts one run of the script takes.
const COUNTS: usize = 1_000;

/// Counts by field.
type Counts = HashMap<Bytes, Bytes>;

/// Whether a shard is being mended; one is at a time.
#[derive(Debug, Default)]
pub struct Mending(AtomicBool);

impl Engine {
    /// Begins to mend a shard in a task of its own, unless one is being mended already.
    pub fn begin_mending(self: &Arc<Self>, shard: Shard) {
        if self.mending.0.swap(true, Ordering::Relaxed) {
            return;
        }
        let engine = self.clone();
        let mending = async move {
            tracing::warn!(shard, "the counts of a shard are not those of its jobs; it is mended");
            match engine.mend(shard).await {
                Ok(mended) => tracing::warn!(shard, mended, "the shard has been mended"),
                Err(error) => tracing::warn!(shard, %error, "the shard could not be mended yet"),
            }
            engine.mending.0.store(false, Ordering::Relaxed);
        };
        self.context.tasks.spawn_on(mending, &self.context.runtime);
    }

    /// Mends a shard; how many things were wrong.
    async fn mend(&self, shard: Shard) -> Result<u64> {
        let before = self.stored_counts(shard).await?;
        let mut tally: HashMap<Bytes, i64> = HashMap::new();
        let (mut step, mut cursor, mut known) = (1, "0".to_owned(), Vec::<Topic>::new());
        let (mut mended, mut counted) = (0, false);
        while step > 0 && !self.context.closing.is_cancelled() {
            let topics: Vec<&Topic> = known.iter().collect();
            let call = self.change(Op::Mend, shard, None, &topics).arg(step).arg(cursor.as_str());
            let mut reply = Reply::new(self.call(call).await?)?;
            (step, cursor) = (reply.int()?, reply.text()?);
            mended += reply.count()?;
            counted |= reply.int()? == 1;
            let mut strangers = reply.list()?;
            self.tell_mended(shard, reply.list()?)?;
            if strangers.is_empty() {
                add_to(&mut tally, reply.list()?)?;
                self.context.real.sleep(PAUSE).await;
            } else if known.len() > TOPICS {
                known.clear();
            }
            while !strangers.is_empty() {
                known.push(strangers.name()?);
            }
        }
        if !counted && step == 0 {
            mended += self.mend_counts(shard, &before, &tally).await?;
        }
        Ok(mended)
    }

    /// Corrects those counts that nobody has changed since `before`.
    async fn mend_counts(&self, shard: Shard, before: &Counts, tally: &HashMap<Bytes, i64>) -> Result<u64> {
        let mut mended = 0;
        let new = tally.keys().filter(|field| !before.contains_key(*field));
        let fields: Vec<&Bytes> = before.keys().filter(|field| **field != "#").chain(new).collect();
        for fields in fields.chunks(COUNTS) {
            let mut call = self.change(Op::Mend, shard, None, &[]).arg(4).arg("0");
            for field in fields {
                let was = before.get(*field).cloned().unwrap_or_default();
                let number = tally.get(*field).copied().unwrap_or(0);
                call = call.bytes((*field).clone()).bytes(was).arg(number);
            }
            let mut reply = Reply::new(self.call(call).await?)?;
            let (_, _) = (reply.int()?, reply.text()?);
            mended += reply.count()?;
            let (_, _) = (reply.int()?, reply.list()?);
            self.tell_mended(shard, reply.list()?)?;
        }
        Ok(mended)
    }

    async fn stored_counts(&self, shard: Shard) -> Result<Counts> {
        let keys = self.keys.shard(shard);
        let (mut counts, mut cursor) = (Counts::new(), "0".to_owned());
        loop {
            let slice = self.read(Op::Counts, &[shard], vec![keys.counts.clone()]);
            let slice = slice.arg(cursor).arg(COUNTS_SLICE);
            let mut reply = Reply::new(self.call(slice).await?)?;
            cursor = reply.text()?;
            let mut slice = reply.list()?;
            while !slice.is_empty() {
                counts.insert(slice.bytes()?, slice.bytes()?);
            }
            if cursor == "0" {
                return Ok(counts);
            }
        }
    }

    fn tell_mended(&self, shard: Shard, mut topics: Reply) -> Result<()> {
        while !topics.is_empty() {
            self.tell_ready(&topics.name()?, shard);
        }
        Ok(())
    }
}

fn add_to(tally: &mut HashMap<Bytes, i64>, mut counts: Reply) -> Result<()> {
    while !counts.is_empty() {
        let (field, number) = (counts.bytes()?, counts.int()?);
        let sum = tally.entry(field).or_default();
        *sum = sum.checked_add(number).ok_or_else(|| unexpected("a count"))?;
    }
    Ok(())
}
