//! Start-up: fills memory from the file, in one ordered pass over each table.

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

/// Records read between two looks at the broken ones. Tests cross many ends of slices.
const SLICE: usize = if cfg!(test) { 5 } else { 50_000 };

/// Fills the state of `work`, which is empty, within the present transaction. What was due when the clock
/// last stood at `clock` is ready; the rest is delayed until the next promotion, also when it is due by now.
pub(super) fn load(work: &mut Work<'_>, clock: Timestamp) -> Sql<()> {
    for topic in work.db.topics()? {
        match topic {
            Ok((name, config)) => {
                let topic = work.state.topic(&name);
                let config = std::sync::Arc::new(config);
                work.state.set_config(topic, config.clone());
                work.news.configs.push((name, config));
            }
            Err(name) => {
                tracing::error!(topic = name, "the stored settings of a topic make no sense; ignored")
            }
        }
    }
    let mut leases: std::collections::HashMap<Key, Lease> = work.db.leases()?.into_iter().collect();
    load_table(work, Table::Live, |key| match leases.remove(&key) {
        Some(lease) => Place::Reserved(lease),
        None if key.slot() <= clock => Place::Ready { since: key.slot() },
        None => Place::Delayed,
    })?;
    for key in leases.into_keys() {
        tracing::error!(?key, "a reservation without a job was removed");
        work.db.delete_lease(key)?;
    }
    load_table(work, Table::Dead, |_| Place::Dead)?;
    let first_dead = work.db.first_dead()?.map(Key::slot);
    work.state.set_dead_since(first_dead);
    Ok(())
}

fn load_table(work: &mut Work<'_>, table: Table, mut place: impl FnMut(Key) -> Place) -> Sql<()> {
    let mut topics = LastTopic::default();
    let mut from = Key::from_bits(0);
    loop {
        let mut broken = Vec::new();
        let (state, db) = (&mut *work.state, &*work.db);
        let mut twins = Ok(());
        let seen = db.scan(table, (from, Key::END), SLICE, |key, columns| {
            from = key.next();
            let checked = columns.and_then(|columns| {
                columns.verify()?;
                Ok((state.ids().hash(columns.id), topics.find(state, columns.topic)?, columns.id))
            });
            match checked {
                Ok((hash, topic, id)) => {
                    let at = Located { key, topic, dead: table == Table::Dead };
                    match has_twin(db, state, id) {
                        Ok(false) => state.load(hash, at, place(key)),
                        Ok(true) => broken.push((key, Broken::Twin)),
                        Err(error) => twins = Err(error),
                    }
                }
                Err(why) => broken.push((key, why)),
            }
        })?;
        twins?;
        for (key, why) in broken {
            work.set_aside(key, table == Table::Dead, why)?;
        }
        if seen < SLICE {
            return Ok(());
        }
    }
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
