//! Start-up: fills memory from the file, in one ordered pass over each table.

use std::{
    collections::HashMap,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
};

use crate::{
    job::{Timestamp, Topic},
    store::embedded::{
        memory::{
            job_index::{IdHash, IdHasher, Located},
            state::{Place, State},
        },
        ops::write_txn::Work,
        rows::{
            codec::{Broken, Columns, Lease},
            key::Key,
            records::{Db, Sql, Table},
        },
    },
};

/// What is on disk but cannot be part of memory.
#[derive(Debug, Default)]
pub(crate) struct Unsound {
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
pub(crate) fn load(work: &mut Work<'_>, clock: Timestamp) -> Sql<()> {
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
pub(crate) fn read(state: &mut State, db: &Db, clock: Timestamp) -> Sql<Unsound> {
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

/// Fills `state` from a table. Reading and checking records takes one thread, this one, and taking them in takes
/// another, which has half as much to do: with tens of millions of jobs a start waits for both.
fn read_table(
    state: &mut State,
    db: &Db,
    table: Table,
    unsound: &mut Unsound,
    mut place: impl FnMut(Key) -> Place + Send,
) -> Sql<()> {
    let mut checked = Checked::new(state.ids().hasher());
    let suspects = std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(BATCHES);
        let taking_in = std::thread::Builder::new()
            .name("linger-load".to_owned())
            .spawn_scoped(scope, || take_in(state, table, receiver, &mut place))
            .map_err(no_thread)?;
        let scanned = db.scan(table, (Key::START, Key::END), usize::MAX, |key, columns| {
            match columns.and_then(|columns| checked.push(&columns)) {
                Ok(()) if checked.batch.rows.len() == BATCH => checked.send(&sender),
                Ok(()) => {}
                Err(why) => unsound.broken.push((table, key, why)),
            }
        });
        checked.send(&sender);
        drop(sender);
        let suspects = taking_in.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        scanned.map(|_| suspects)
    })?;
    for (hash, at) in suspects {
        match judge(db, state, hash, at)? {
            Ok(()) => state.load(hash, at, place(at.key)),
            Err(why) => unsound.broken.push((table, at.key, why)),
        }
    }
    Ok(())
}

fn no_thread(error: std::io::Error) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOMEM);
    rusqlite::Error::SqliteFailure(code, Some(format!("there is no thread to load with: {error}")))
}

/// Records that are handed over together, and how many such batches may wait.
const BATCH: usize = 1_024;
const BATCHES: usize = 4;

/// Records that are sound by themselves, in order of key.
#[derive(Default)]
struct Batch {
    /// Where each lies, its id's hash, and the number of its topic.
    rows: Vec<(Key, IdHash, usize)>,
    /// Topics that were met for the first time, which have the next numbers.
    topics: Vec<Topic>,
}

/// Judges records, and keeps what memory will want to know of them.
struct Checked {
    hasher: IdHasher,
    /// By the bytes of its name.
    numbers: HashMap<Vec<u8>, usize>,
    /// The last topic: neighbours often share one.
    last: Option<(Vec<u8>, usize)>,
    batch: Batch,
}

impl Checked {
    fn new(hasher: IdHasher) -> Self {
        Self { hasher, numbers: HashMap::new(), last: None, batch: Batch::default() }
    }

    fn push(&mut self, columns: &Columns<'_>) -> Result<(), Broken> {
        columns.verify()?;
        let topic = match &self.last {
            Some((name, number)) if name == columns.topic => *number,
            Some(_) | None => self.number(columns.topic)?,
        };
        self.batch.rows.push((columns.key, self.hasher.hash(columns.id), topic));
        Ok(())
    }

    fn number(&mut self, name: &[u8]) -> Result<usize, Broken> {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                let text = std::str::from_utf8(name).map_err(|_| Broken::Value)?;
                self.batch.topics.push(Topic::parse(text).map_err(|_| Broken::Value)?);
                let next = self.numbers.len();
                self.numbers.insert(name.to_vec(), next);
                next
            }
        };
        let (last, its_number) = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(name);
        *its_number = number;
        Ok(number)
    }

    fn send(&mut self, sender: &SyncSender<Batch>) {
        // Whoever takes them in leaves early only in a panic, which then ends this, too.
        let _ = sender.send(std::mem::take(&mut self.batch));
    }
}

/// Takes records in, all but those whose id may be there already; returns those.
fn take_in(
    state: &mut State,
    table: Table,
    batches: Receiver<Batch>,
    place: &mut impl FnMut(Key) -> Place,
) -> Vec<(IdHash, Located)> {
    let (mut topics, mut suspects) = (Vec::new(), Vec::new());
    for batch in batches {
        topics.extend(batch.topics.iter().map(|topic| state.topic(topic)));
        for (key, hash, topic) in batch.rows {
            let at = Located { key, topic: topics[topic], dead: table == Table::Dead };
            if state.ids().candidates(hash).is_empty() {
                state.load(hash, at, place(key));
            } else {
                suspects.push((hash, at));
            }
        }
    }
    suspects
}

/// Whether the record at `at` can be taken in, beside those with the same hash that were.
fn judge(db: &Db, state: &State, hash: IdHash, at: Located) -> Sql<Result<(), Broken>> {
    let read = |at: Located| db.read_head(Table::of(at.dead), at.key);
    let own = match read(at)? {
        Ok(own) => own,
        Err(why) => return Ok(Err(why)),
    };
    for other in state.ids().candidates(hash) {
        if read(other)?.is_ok_and(|head| head.id == own.id) {
            return Ok(Err(Broken::Twin));
        }
    }
    Ok(Ok(()))
}
