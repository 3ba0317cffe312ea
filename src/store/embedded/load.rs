//! Start-up: fills memory from the file, in one ordered pass over each table.

use std::collections::HashMap;

use super::{
    db::{Db, Sql, Table},
    ids::Located,
    key::Key,
    record::{Broken, Lease},
    state::{Place, State},
    topics::TopicIx,
    work::Work,
};
use crate::job::{Timestamp, Topic};

/// What is on disk but cannot be part of memory.
#[derive(Debug, Default)]
pub(super) struct Unsound {
    /// Records that cannot be read, or that have the id of another.
    pub broken: Vec<(Table, Key, Broken)>,
    /// Reservations without a job.
    pub stray_leases: Vec<Key>,
    /// Reservations that cannot be read.
    pub damaged_leases: Vec<Key>,
    /// Topics whose settings make no sense.
    pub topics: Vec<String>,
}

/// Fills the state of `work`, which is empty, within the present transaction, and puts right what is unsound.
pub(super) fn load(work: &mut Work<'_>, clock: Timestamp) -> Sql<()> {
    let unsound = read(work.state, work.db, clock)?;
    for topic in unsound.topics {
        tracing::error!(topic, "the stored settings of a topic make no sense; ignored");
    }
    for (table, key, why) in unsound.broken {
        work.set_aside(key, table == Table::Dead, why)?;
    }
    for key in unsound.damaged_leases {
        tracing::error!(
            ?key,
            "a reservation was damaged and is void; its job, if it is there, is handed out again"
        );
        work.db.delete_lease(key)?;
    }
    for key in unsound.stray_leases {
        tracing::error!(?key, "a reservation without a job was removed");
        work.db.delete_lease(key)?;
    }
    let first_dead = work.db.first_dead()?.map(Key::slot);
    work.state.set_dead_since(first_dead);
    let topics = work.state.topics().by_name(None).filter(|topic| !topic.config.is_default());
    work.news.configs.extend(topics.map(|topic| (topic.name.clone(), topic.config.clone())));
    Ok(())
}

/// Fills `state`, which is empty, and changes nothing on disk. What was due when the clock last stood at `clock`
/// is ready; the rest is delayed until the next promotion, also when it is due by now.
pub(super) fn read(state: &mut State, db: &Db, clock: Timestamp) -> Sql<Unsound> {
    let mut unsound = Unsound::default();
    for topic in db.topics()? {
        match topic {
            Ok((name, config)) => {
                let topic = state.topic(&name);
                state.set_config(topic, std::sync::Arc::new(config));
            }
            Err(name) => unsound.topics.push(name),
        }
    }
    let mut leases = HashMap::<Key, Lease>::new();
    for (key, lease) in db.leases()? {
        match lease {
            Some(lease) => drop(leases.insert(key, lease)),
            None => unsound.damaged_leases.push(key),
        }
    }
    read_table(state, db, Table::Live, &mut unsound, |key| match leases.remove(&key) {
        Some(lease) => Place::Reserved(lease),
        None if key.slot() <= clock => Place::Ready { since: key.slot() },
        None => Place::Delayed,
    })?;
    unsound.stray_leases = leases.into_keys().collect();
    read_table(state, db, Table::Dead, &mut unsound, |_| Place::Dead)?;
    state.set_dead_since(db.first_dead()?.map(Key::slot));
    Ok(unsound)
}

fn read_table(
    state: &mut State,
    db: &Db,
    table: Table,
    unsound: &mut Unsound,
    mut place: impl FnMut(Key) -> Place,
) -> Sql<()> {
    let (mut topics, mut twins) = (LastTopic::default(), Ok(()));
    db.scan(table, (Key::START, Key::END), usize::MAX, |key, columns| {
        let checked = columns.and_then(|columns| {
            columns.verify()?;
            Ok((state.ids().hash(columns.id), topics.find(state, columns.topic)?, columns.id))
        });
        let why = match checked {
            Ok((hash, topic, id)) => match has_twin(db, state, id) {
                Ok(false) => {
                    let at = Located { key, topic, dead: table == Table::Dead };
                    return state.load(hash, at, place(key));
                }
                Ok(true) => Broken::Twin,
                Err(error) => {
                    twins = Err(error);
                    return;
                }
            },
            Err(why) => why,
        };
        unsound.broken.push((table, key, why));
    })?;
    twins
}

/// Whether a job called `id` has been loaded already. Two equal hashes are rare, so it costs nothing.
fn has_twin(db: &Db, state: &State, id: &[u8]) -> Sql<bool> {
    for at in state.ids().candidates(state.ids().hash(id)) {
        if let Ok(head) = db.read_head(Table::of(at.dead), at.key)?
            && head.id.as_str().as_bytes() == id
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Remembers the last topic: neighbours often share one, and finding it by name would cost more than the rest.
#[derive(Default)]
struct LastTopic {
    name: Vec<u8>,
    ix: Option<TopicIx>,
}

impl LastTopic {
    fn find(&mut self, state: &mut State, name: &[u8]) -> Result<TopicIx, Broken> {
        if let Some(ix) = self.ix.filter(|_| self.name == name) {
            return Ok(ix);
        }
        let text = std::str::from_utf8(name).map_err(|_| Broken::Value)?;
        let ix = match state.topics().find(text) {
            Some(ix) => ix,
            None => state.topic(&Topic::parse(text).map_err(|_| Broken::Value)?),
        };
        (self.name, self.ix) = (name.to_vec(), Some(ix));
        Ok(ix)
    }
}
