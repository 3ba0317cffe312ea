//! What one operation works with: the disk and the memory of the present group, one reading of the clock,
//! and what has to be told once the group is committed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    clock::Clock,
    job::{Job, JobId, Now, Timestamp, Topic, TopicFilter},
    store::{
        Error, TopicConfig,
        embedded::{
            disk::disk_space::{Gauge, Need},
            memory::{
                job_index::{IdHash, Located},
                state::{Place, State},
                topics::TopicIx,
            },
            options::Options,
            rows::{
                codec::{Broken, Head, Lease, Record},
                key::Key,
                records::{Db, Sql, Table},
            },
        },
    },
};

/// What has to be told after the commit.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Topics that have ready jobs which they did not have before.
    pub ready: BTreeSet<Topic>,
    /// Topics whose configuration changed.
    pub configs: Vec<(Topic, Arc<TopicConfig>)>,
    /// Records set aside.
    pub set_aside: u64,
    /// Set by a promotion: until when its caller sleeps unless it is told otherwise.
    pub sleeps_until: Option<Timestamp>,
}

/// One operation's view of the engine.
pub(crate) struct Work<'a> {
    pub db: &'a mut Db,
    pub state: &'a mut State,
    pub news: &'a mut News,
    pub now: Now,
    pub clock: &'a dyn Clock,
    pub options: &'a Options,
    /// How much disk space is left.
    pub space: Gauge<'a>,
}

/// A job found by its id.
#[derive(Debug)]
pub(crate) struct Found<T> {
    pub hash: IdHash,
    pub at: Located,
    pub content: T,
}

/// Most records read ahead in one go: under a millisecond of the writer's time. Tests cross many ends of slices.
const SLICE: usize = if cfg!(test) { 3 } else { 1_000 };

impl Work<'_> {
    /// Reads the clock for the next operation of the group.
    pub fn next_operation(&mut self) {
        self.now = self.clock.read();
    }

    /// How long until `moment`; zero when it has passed.
    pub fn time_until(&self, moment: Timestamp) -> Duration {
        time_until(self.clock, moment)
    }

    /// Why there is no room for an operation with this need, if so. Asked before its first change.
    pub fn no_room_for(&mut self, need: Need) -> Option<Error> {
        self.space.level().refusal(need)
    }

    /// The job called `id`, with its body, if it is of a topic in `scope`.
    pub fn find(&mut self, scope: &TopicFilter, id: &JobId) -> Sql<Option<Found<Record>>> {
        self.find_by(scope, id, Db::read, |record| &record.head.id)
    }

    /// The job called `id`, without its body, if it is of a topic in `scope`.
    pub fn find_head(&mut self, scope: &TopicFilter, id: &JobId) -> Sql<Option<Found<Head>>> {
        self.find_by(scope, id, Db::read_head, |head| &head.id)
    }

    /// Reads every job in `scope` whose id has the same hash; one that cannot be read is set aside on the way.
    /// Memory knows the topics: a job of another one costs no read, so that it takes no longer than no job.
    fn find_by<T>(
        &mut self,
        scope: &TopicFilter,
        id: &JobId,
        read: fn(&Db, Table, Key) -> Sql<Result<T, Broken>>,
        id_of: fn(&T) -> &JobId,
    ) -> Sql<Option<Found<T>>> {
        let hash = self.state.ids().hash(id.as_str().as_bytes());
        for at in self.state.ids().candidates(hash) {
            if !self.is_in(scope, at) {
                continue;
            }
            match read(self.db, Table::of(at.dead), at.key)? {
                Ok(content) if id_of(&content) == id => return Ok(Some(Found { hash, at, content })),
                Ok(_) => {}
                Err(why) => self.set_aside(at.key, at.dead, why)?,
            }
        }
        Ok(None)
    }

    /// Whether the job at `at` is of a topic in `scope`.
    pub fn is_in(&self, scope: &TopicFilter, at: Located) -> bool {
        scope.is_all() || scope.allows(&self.state.topics().get(at.topic).name)
    }

    /// The job as people see it.
    pub fn to_job(&self, at: Located, record: &Record) -> Job {
        record.to_job(self.state.job_state(at), self.state.lease(at.key).filter(|_| !at.dead))
    }

    /// Where a live job that is due at `due_at` waits.
    pub fn waiting_place(&self, due_at: Timestamp) -> Place {
        if due_at <= self.now.down { Place::Ready { since: self.now.down } } else { Place::Delayed }
    }

    /// Stores a record that waits until its due time, under a new key.
    pub fn put_waiting(&mut self, hash: IdHash, topic: TopicIx, record: &Record) -> Sql<Located> {
        let at = Located { key: self.db.free_key(Table::Live, record.head.due_at)?, topic, dead: false };
        self.db.insert(Table::Live, at.key, record)?;
        let place = self.waiting_place(record.head.due_at);
        self.tell_ready(topic, &place);
        self.state.insert(hash, at, place);
        Ok(at)
    }

    /// Stores a record that died now, under a new key.
    pub fn put_dead(&mut self, hash: IdHash, topic: TopicIx, record: &mut Record) -> Sql<Located> {
        let now = self.now.down;
        record.head.dead_at = Some(now);
        let at = Located { key: self.db.free_key(Table::Dead, now)?, topic, dead: true };
        self.db.insert(Table::Dead, at.key, record)?;
        self.state.insert(hash, at, Place::Dead);
        if self.state.dead_since().is_none_or(|since| now < since) {
            self.state.set_dead_since(Some(now));
        }
        Ok(at)
    }

    /// Removes a job from where it lies, with its reservation if it has one.
    pub fn take_out(&mut self, hash: IdHash, at: Located) -> Sql<Place> {
        self.db.delete(Table::of(at.dead), at.key)?;
        let place = self.state.remove(hash, at);
        if matches!(place, Place::Reserved(_)) {
            self.db.delete_lease(at.key)?;
        }
        Ok(place)
    }

    /// Changes the place of a job that keeps its key.
    pub fn shift(&mut self, at: Located, place: Place) -> Place {
        self.tell_ready(at.topic, &place);
        self.state.shift(at, place)
    }

    /// Grants or changes the reservation of the job at `at`.
    pub fn put_lease(&mut self, at: Located, lease: Lease) -> Sql<Place> {
        self.db.put_lease(at.key, &lease)?;
        Ok(self.state.shift(at, Place::Reserved(lease)))
    }

    /// Makes sure that the broken record at `key` is never looked at again. It is named in the log, kept in
    /// the table `broken`, and counts nowhere.
    pub fn set_aside(&mut self, key: Key, dead: bool, why: Broken) -> Sql<()> {
        let aside = self.db.set_aside(Table::of(dead), key, why, self.now.down)?;
        let ids = self.state.ids();
        let by_name = aside.id.as_deref().map(|id| ids.hash(id)).and_then(|hash| {
            let at = ids.candidates(hash).into_iter().find(|at| at.key == key && at.dead == dead)?;
            Some((hash, at))
        });
        let known = by_name.or_else(|| ids.find_key(key, dead));
        let topic = known.map(|(_, at)| self.state.topics().get(at.topic).name.clone());
        if let Some((hash, at)) = known {
            self.state.remove(hash, at);
        }
        self.news.set_aside += 1;
        let id = aside.id.map(|id| String::from_utf8_lossy(&id).into_owned());
        tracing::error!(
            %why, ?key, id = id.as_deref(), topic = topic.as_ref().map(Topic::as_str),
            "a broken record was set aside; its bytes are kept in the table `broken`"
        );
        Ok(())
    }

    /// Brings delayed jobs before `until` into the window, at most about a thousand. Whether all are there.
    pub fn look_ahead(&mut self, until: Timestamp) -> Sql<bool> {
        let (from, to) = (self.state.window().frontier(), Key::first_after(until));
        if to <= from {
            return Ok(true);
        }
        if self.state.beyond() == 0 {
            self.state.set_frontier(to);
            return Ok(true);
        }
        let (mut last, mut broken) = (from, Vec::new());
        let state = &mut *self.state;
        let seen = self.db.scan(Table::Live, (from, to), SLICE, |key, columns| {
            last = key;
            let topic = columns.and_then(|columns| {
                columns.verify()?;
                let name = std::str::from_utf8(columns.topic).map_err(|_| Broken::Value)?;
                state.topics().find(name).ok_or(Broken::Value)
            });
            match topic {
                // Ready or reserved jobs can lie here too after the clock took a leap.
                Ok(topic)
                    if state.job_state(Located { key, topic, dead: false }) == crate::job::State::Delayed =>
                {
                    state.see(key, topic);
                }
                Ok(_) => {}
                Err(why) => broken.push((key, why)),
            }
        })?;
        let complete = seen < SLICE;
        self.state.set_frontier(if complete { to } else { last.next() });
        for (key, why) in broken {
            self.set_aside(key, false, why)?;
        }
        Ok(complete)
    }

    /// Reads ahead when half of the look-ahead is used. Whether there is nothing left to read for now.
    pub fn keep_ahead(&mut self) -> Sql<bool> {
        let end = self.state.window().frontier().slot();
        let ahead = self.options.look_ahead;
        if end >= self.now.up.after(ahead / 2) {
            return Ok(true);
        }
        self.look_ahead(self.now.up.after(ahead))
    }

    fn tell_ready(&mut self, topic: TopicIx, place: &Place) {
        if matches!(place, Place::Ready { .. }) {
            let name = &self.state.topics().get(topic).name;
            if !self.news.ready.contains(name) {
                self.news.ready.insert(name.clone());
            }
        }
    }
}

/// How long until `moment` on `clock`, to the microsecond; zero when it has passed.
pub(crate) fn time_until(clock: &dyn Clock, moment: Timestamp) -> Duration {
    let left_us = moment.as_millis().saturating_mul(1_000).saturating_sub(clock.now_micros());
    Duration::from_micros(u64::try_from(left_us).unwrap_or(0))
}
