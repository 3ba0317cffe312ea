//! Verification of memory: holds one record, or everything that only adds up as a whole, against the disk.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Lease, Memory, RowKey, State, TopicNumber};
use crate::{
    job::{Now, Timestamp},
    store::embedded::{
        memory::topics::TopicState,
        rows::{
            codec::Record,
            records::{Db, SqlResult, Table},
        },
        verify::online::Findings,
    },
};

/// A record's table, key and column `dead_ms`.
type StoredRow = (Table, RowKey, Option<i64>);

/// Jobs of one topic as the ids tell: per state, and how many of them belong into the window.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    delayed: u64,
    ready: u64,
    reserved: u64,
    dead: u64,
    due_soon: u64,
}

impl Memory {
    /// Memory knows the job of this record exactly once, at its place, and in a state that it may be in.
    pub fn check_record(
        &self,
        db: &Db,
        (table, key, dead_ms): StoredRow,
        record: &Record,
        now: Now,
        faults: &mut Findings,
    ) -> SqlResult<()> {
        let (head, dead) = (&record.head, table == Table::Dead);
        let hash = self.ids.hash(head.id.as_str().as_bytes());
        let (mut here, mut elsewhere) = (Vec::new(), 0);
        for job_ref in self.ids.candidates(hash) {
            if (job_ref.key, job_ref.dead) == (key, dead) {
                here.push(job_ref);
            } else {
                let other = db.read_head(Table::of(job_ref.dead), job_ref.key)?;
                elsewhere += usize::from(other.is_ok_and(|other| other.id == head.id));
            }
        }
        let name = || format!("job {} at {key:?}", head.id);
        faults.check(elsewhere == 0, || format!("{} has another record too", name()));
        faults.check(here.len() < 2, || format!("{} is in memory {} times", name(), here.len()));
        let Some(topic) = here.first().and_then(|job_ref| self.topics.try_get(job_ref.topic)) else {
            faults.add(|| format!("{} is on disk but not in memory", name()));
            return Ok(());
        };
        let same = topic.name == head.topic;
        faults.check(same, || format!("{} of topic {} is filed under {}", name(), head.topic, topic.name));
        if dead {
            let died = head.dead_at.map(Timestamp::as_millis);
            let sound = died.is_some() && died == dead_ms && head.dead_at <= Some(key.slot());
            faults.check(sound, || format!("{} is filed under another moment of death", name()));
        } else {
            faults.check(head.dead_at.is_none(), || format!("{} is dead, but filed with the living", name()));
            self.check_place(topic, key, record, now, faults);
        }
        Ok(())
    }

    /// A living job is in one place only, the right one by its due time.
    fn check_place(&self, topic: &TopicState, key: RowKey, record: &Record, now: Now, faults: &mut Findings) {
        let due_at = record.head.due_at;
        let name = || format!("job {} at {key:?}", record.head.id);
        faults.check(key.slot() >= due_at, || format!("{} lies before its due time {due_at}", name()));
        let (ready, reserved) = (topic.ready.contains_key(&key), self.leases.contains_key(&key));
        faults.check(!(ready && reserved), || format!("{} is both ready and reserved", name()));
        let delayed = !ready && !reserved;
        faults.check(delayed || due_at <= now.up, || {
            format!("{} is handed out before its due time {due_at}", name())
        });
        let (shown, soon) = (topic.due_soon.contains(&key), delayed && self.window.covers(key));
        faults
            .check(shown || !soon, || format!("{} is due soon, but missing among the jobs that are", name()));
        faults.check(!shown || soon, || format!("{} is wrongly among the jobs that are due soon", name()));
    }

    /// Counts are those of the contents, the reservations on disk are those in memory, and so are the topics'
    /// settings.
    pub fn check_whole(&self, db: &Db, now: Now, faults: &mut Findings) -> SqlResult<()> {
        self.check_counts(faults);
        self.check_window(faults);
        self.check_leases(db, faults)?;
        self.check_configs(db, faults)?;
        let strays = db.stray_rows()?;
        faults.check(strays == 0, || format!("{strays} rows have keys that are no moment"));
        match db.clock()? {
            Some(mark) => {
                faults.check(mark <= now.up, || format!("the clock stands before its mark {mark}"));
            }
            None => faults.add(|| "the clock's mark cannot be read".to_owned()),
        }
        if let Some(first) = db.first_dead()? {
            let known = self.earliest_death.is_some_and(|since| since <= first.slot());
            faults.check(known, || format!("the first dead letter, at {first:?}, is not expected"));
        }
        Ok(())
    }

    fn check_counts(&self, faults: &mut Findings) {
        let mut counts: HashMap<TopicNumber, Count> = HashMap::new();
        for (_, job) in (0..).map_while(|shard| self.ids.in_shard(shard)).flatten() {
            if self.topics.try_get(job.topic).is_none() {
                faults.add(|| format!("the job at {:?} belongs to no topic", job.key));
                continue;
            }
            let count = counts.entry(job.topic).or_default();
            match self.job_state(job) {
                State::Delayed => {
                    count.delayed += 1;
                    count.due_soon += u64::from(self.window.covers(job.key));
                }
                State::Ready => count.ready += 1,
                State::Reserved => count.reserved += 1,
                State::Dead => count.dead += 1,
            }
        }
        for topic in self.topics.by_name(None) {
            let held = self.topics.find(topic.name.as_str()).and_then(|ix| counts.remove(&ix));
            let held = held.unwrap_or_default();
            let counted = Count {
                delayed: topic.delayed,
                ready: topic.ready.len() as u64,
                reserved: topic.reserved,
                dead: topic.dead,
                due_soon: topic.due_soon.len() as u64,
            };
            faults.check(counted == held, || {
                format!("topic {} counts {counted:?}, but holds {held:?}", topic.name)
            });
        }
        let delayed: u64 = self.topics.by_name(None).map(|topic| topic.delayed).sum();
        faults.check(self.delayed == delayed, || {
            format!("{} jobs count as delayed in all, but {delayed} topic by topic", self.delayed)
        });
    }

    fn check_window(&self, faults: &mut Findings) {
        let topics = || self.topics.by_name(None);
        let len: usize = topics().map(|topic| topic.due_soon.len()).sum();
        faults.check(self.window.len() == len, || {
            format!("{} jobs count as due soon, but {len} are", self.window.len())
        });
        let heads: BTreeSet<(RowKey, TopicNumber)> = topics()
            .filter_map(|topic| topic.due_soon.first().copied().zip(self.topics.find(topic.name.as_str())))
            .collect();
        for (key, topic) in heads.symmetric_difference(self.window.first_keys()) {
            let name = self.topics.try_get(*topic).map(|topic| topic.name.as_str());
            faults.add(|| format!("the job of topic {name:?} that is due next is not {key:?}"));
        }
    }

    fn check_leases(&self, db: &Db, faults: &mut Findings) -> SqlResult<()> {
        let leases = db.leases()?.into_iter();
        let stored: BTreeMap<RowKey, Lease> = leases.filter_map(|(key, lease)| Some((key, lease?))).collect();
        let rows = db.lease_count()?;
        faults.check(rows == stored.len(), || {
            format!("{} reservations on disk cannot be read", rows.abs_diff(stored.len()))
        });
        let both = stored.keys().chain(self.leases.keys()).copied().collect::<BTreeSet<RowKey>>();
        for key in both {
            let (memory, disk) = (self.lease(key), stored.get(&key));
            faults.check(memory == disk, || {
                let known = |lease: Option<&Lease>| if lease.is_some() { "there" } else { "missing" };
                let (memory, disk) = (known(memory), known(disk));
                format!(
                    "the reservation at {key:?} ({memory} in memory, {disk} on disk) is not the same in both"
                )
            });
        }
        let deadlines: BTreeSet<_> =
            self.leases.iter().map(|(key, (_, lease))| (lease.deadline, *key)).collect();
        for (deadline, key) in deadlines.symmetric_difference(&self.deadlines) {
            faults.add(|| format!("the reservation at {key:?} does not end at {deadline} in both lists"));
        }
        Ok(())
    }

    fn check_configs(&self, db: &Db, faults: &mut Findings) -> SqlResult<()> {
        let mut stored = BTreeMap::new();
        for topic in db.topics()? {
            match topic {
                Ok((name, config)) => {
                    stored.insert(name.as_str().to_owned(), config);
                }
                Err(name) => faults.add(|| format!("the settings of topic {name:?} make no sense")),
            }
        }
        for topic in self.topics.by_name(None) {
            let disk = stored.remove(topic.name.as_str()).unwrap_or_default();
            faults.check(*topic.config == disk, || {
                format!("the settings of topic {} are not those on disk", topic.name)
            });
        }
        for name in stored.into_keys() {
            faults.add(|| format!("the settings of topic {name} are on disk but not in memory"));
        }
        Ok(())
    }
}
