//! Loads all rows into memory, in one ordered pass over each table.

use std::{
    collections::HashMap,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
};

use crate::{
    job::{DueKind, ExpiresAt, HostNumber, Outlet, Timestamp, Topic},
    store::embedded::{
        memory::{
            job_index::{IdHash, IdHasher, JobRef},
            job_state::MemoryState,
            state::Memory,
        },
        ops::write_txn::WriteTxn,
        rows::{
            codec::{Lease, RecordColumns, RecordError, RecordParts},
            db::{Db, SqlResult, Table},
            key::RowKey,
        },
    },
};

/// Rows that cannot be loaded.
#[derive(Debug, Default)]
pub(crate) struct UnsoundRows {
    /// Records that cannot be read, or that have the id of another.
    pub broken: Vec<(Table, RowKey, RecordError)>,
    /// Reservations without a job.
    pub stray_leases: Vec<RowKey>,
    /// Reservations that cannot be read.
    pub damaged_leases: Vec<RowKey>,
    /// Topics whose settings are damaged.
    pub topics: Vec<String>,
}

/// Loads the rows into the empty memory of `txn` and repairs inconsistencies, within the present transaction.
pub(crate) fn load(txn: &mut WriteTxn<'_>, mark: Timestamp) -> SqlResult<()> {
    let wall_now = txn.wall_now().rounded_down;
    let unsound = read(txn.memory, txn.db, mark, wall_now)?;
    for topic in unsound.topics {
        tracing::error!(topic, "the stored settings of a topic are damaged and ignored; set them again");
    }
    for (table, key, why) in unsound.broken {
        txn.set_aside(key, table == Table::Dead, why)?;
    }
    for key in unsound.damaged_leases {
        tracing::error!(
            ?key,
            "a damaged reservation was removed; its job, if there is one, is delivered again"
        );
        txn.db.delete_lease(key)?;
    }
    for key in unsound.stray_leases {
        tracing::error!(?key, "a reservation without a job was removed");
        txn.db.delete_lease(key)?;
    }
    let first_dead = txn.db.first_dead()?.map(RowKey::slot);
    txn.memory.set_earliest_death(first_dead);
    let topics = txn.memory.topics().by_name().map(|(_, plain)| plain);
    let topics = topics.filter(|topic| !topic.config.is_default());
    txn.effects.configs.extend(topics.map(|topic| (topic.outlet.topic.clone(), topic.config.clone())));
    Ok(())
}

/// Loads the rows into `memory`, which is empty, and changes nothing on disk. Jobs that were due at `mark`, the
/// latest moment of the last run, are ready; the others stay delayed until the next promotion, also when they
/// are due by now. A job with a moment is not ready if that is to come by the machine's clock.
pub(crate) fn read(
    memory: &mut Memory,
    db: &Db,
    mark: Timestamp,
    wall_now: Timestamp,
) -> SqlResult<UnsoundRows> {
    let is_due = |key: RowKey| match key.kind() {
        DueKind::Elapsed => key.slot() <= mark,
        DueKind::Moment => key.slot() <= mark.min(wall_now),
    };
    let mut unsound = UnsoundRows::default();
    for topic in db.topic_configs()? {
        match topic {
            Ok((name, config)) => {
                let topic = memory.outlet(&Outlet::plain(name));
                memory.set_config(topic, std::sync::Arc::new(config));
            }
            Err(name) => unsound.topics.push(name),
        }
    }
    let mut leases = HashMap::<RowKey, Lease>::new();
    for (key, lease) in db.leases()? {
        match lease {
            Some(lease) => drop(leases.insert(key, lease)),
            None => unsound.damaged_leases.push(key),
        }
    }
    read_table(memory, db, Table::Live, &mut unsound, |key| match leases.remove(&key) {
        Some(lease) => MemoryState::Reserved(lease),
        None if is_due(key) => MemoryState::Ready { since: key.slot() },
        None => MemoryState::Delayed,
    })?;
    unsound.stray_leases = leases.into_keys().collect();
    read_table(memory, db, Table::Dead, &mut unsound, |_| MemoryState::Dead)?;
    memory.set_earliest_death(db.first_dead()?.map(RowKey::slot));
    Ok(unsound)
}

/// Loads one table. This thread reads and checks records, and another one inserts them, which takes half as long:
/// with tens of millions of jobs the start would wait for the sum of both.
fn read_table(
    memory: &mut Memory,
    db: &Db,
    table: Table,
    unsound: &mut UnsoundRows,
    mut state_of: impl FnMut(RowKey) -> MemoryState + Send,
) -> SqlResult<()> {
    let mut checked = CheckedRows::new(memory.job_index().hasher());
    let suspects = std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(MAX_WAITING_BATCHES);
        let inserting = std::thread::Builder::new()
            .name("linger-load".to_owned())
            .spawn_scoped(scope, || insert_batches(memory, table, receiver, &mut state_of))
            .map_err(no_thread)?;
        let scanned = db.scan(table, (RowKey::START, RowKey::END), usize::MAX, |key, columns| match columns
            .and_then(|columns| checked.push(&columns))
        {
            Ok(()) if checked.batch.rows.len() == BATCH_ROWS => checked.send(&sender),
            Ok(()) => {}
            Err(why) => unsound.broken.push((table, key, why)),
        });
        checked.send(&sender);
        drop(sender);
        let suspects = inserting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        scanned.map(|_| suspects)
    })?;
    for (hash, job_ref, expires_at) in suspects {
        match check_suspect(db, memory, hash, job_ref)? {
            Ok(()) => memory.load(hash, job_ref, state_of(job_ref.key), expires_at),
            Err(why) => unsound.broken.push((table, job_ref.key, why)),
        }
    }
    Ok(())
}

fn no_thread(error: std::io::Error) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOMEM);
    rusqlite::Error::SqliteFailure(
        code,
        Some(format!("the thread that loads the store could not be started: {error}")),
    )
}

/// Records in a batch, and how many batches may wait for the inserting thread.
const BATCH_ROWS: usize = 1_024;
const MAX_WAITING_BATCHES: usize = 4;

/// Records whose own checks passed, in order of key.
#[derive(Default)]
struct LoadBatch {
    /// The key of each, the hash of its id, the number of its outlet, and what else memory needs.
    rows: Vec<(RowKey, IdHash, usize, RecordParts)>,
    /// Outlets that no earlier batch contained; they have the next numbers.
    outlets: Vec<Outlet>,
}

/// Checks records, and collects what memory needs of them into batches.
struct CheckedRows {
    hasher: IdHasher,
    /// The outlets' numbers by topic and host.
    numbers: HashMap<(Vec<u8>, Option<HostNumber>), usize>,
    /// The last outlet, because neighbours often have the same one.
    last: Option<(Vec<u8>, Option<HostNumber>, usize)>,
    batch: LoadBatch,
}

impl CheckedRows {
    fn new(hasher: IdHasher) -> Self {
        Self { hasher, numbers: HashMap::new(), last: None, batch: LoadBatch::default() }
    }

    fn push(&mut self, columns: &RecordColumns<'_>) -> Result<(), RecordError> {
        let parts = columns.verify_and_read_parts()?;
        let host = parts.host;
        let outlet = match &self.last {
            Some((name, last_host, number)) if name == columns.topic && *last_host == host => *number,
            Some(_) | None => self.outlet_number(columns.topic, host)?,
        };
        self.batch.rows.push((columns.key, self.hasher.hash(columns.id), outlet, parts));
        Ok(())
    }

    fn outlet_number(&mut self, name: &[u8], host: Option<HostNumber>) -> Result<usize, RecordError> {
        let key = (name.to_vec(), host);
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None => {
                let text = std::str::from_utf8(name).map_err(|_| RecordError::Value)?;
                let topic = Topic::parse(text).map_err(|_| RecordError::Value)?;
                self.batch.outlets.push(Outlet { topic, host });
                let next = self.numbers.len();
                self.numbers.insert(key.clone(), next);
                next
            }
        };
        self.last = Some((key.0, host, number));
        Ok(number)
    }

    fn send(&mut self, sender: &SyncSender<LoadBatch>) {
        // The receiver ends early only by a panic, which is then resumed here.
        let _ = sender.send(std::mem::take(&mut self.batch));
    }
}

/// Inserts records into memory. Returns those whose id may already be there.
fn insert_batches(
    memory: &mut Memory,
    table: Table,
    batches: Receiver<LoadBatch>,
    state_of: &mut impl FnMut(RowKey) -> MemoryState,
) -> Vec<(IdHash, JobRef, Option<ExpiresAt>)> {
    let (mut outlets, mut suspects) = (Vec::new(), Vec::new());
    for batch in batches {
        outlets.extend(batch.outlets.iter().map(|outlet| memory.outlet(outlet)));
        for (key, hash, outlet, RecordParts { expires_at, is_remembered, .. }) in batch.rows {
            let job_ref = JobRef { key, outlet: outlets[outlet], dead: table == Table::Dead };
            memory.set_remembers(job_ref.outlet, is_remembered);
            if memory.job_index().candidates(hash).is_empty() {
                memory.load(hash, job_ref, state_of(key), expires_at);
            } else {
                suspects.push((hash, job_ref, expires_at));
            }
        }
    }
    suspects
}

/// Checks that no loaded record with the same hash has the same id.
fn check_suspect(
    db: &Db,
    memory: &Memory,
    hash: IdHash,
    job_ref: JobRef,
) -> SqlResult<Result<(), RecordError>> {
    let read = |job_ref: JobRef| db.read_head(Table::for_job(job_ref.dead), job_ref.key);
    let own = match read(job_ref)? {
        Ok(own) => own,
        Err(why) => return Ok(Err(why)),
    };
    for other in memory.job_index().candidates(hash) {
        if read(other)?.is_ok_and(|head| head.id == own.id) {
            return Ok(Err(RecordError::DuplicateId));
        }
    }
    Ok(Ok(()))
}
