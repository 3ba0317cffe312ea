//! Finds jobs of all topics by the beginning of their ids. A thread reads all ids when a search first takes more than one call, on
//! a connection of its own; the rows tell it from then on which ids were added. It forgets everything after some time without a
//! search, when the ids take too much memory, or when ids are added faster than it reads them. While it does not know all ids it
//! answers nothing, and the search examines jobs. So what writes a record pays only while people search, and a finish never.
//!
//! An id says where to look, nothing else: the index keeps the ids of jobs that are gone.

mod sorted_ids;

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard,
        mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::oneshot;

use self::sorted_ids::{SortedIds, UnsortedIds};
use super::{
    options::OpenError,
    rows::{db::SqlResult, records::for_each_id, schema},
};
use crate::job::JobId;

const LIMITS: IndexLimits =
    IndexLimits { bytes: 64 << 20, later_bytes: 32 << 20, read_every: Duration::from_secs(1) };
/// The thread ends after so many reads of added ids without a search, which is five minutes. If it gave up, it waits as long
/// before it can be started again.
const IDLE_READS: u32 = 300;
/// The most ids that may be added between two such reads.
const MAX_ADDED: usize = 100_000;
/// Rows after which requests and added ids are looked at while all ids are read: about a millisecond.
const ROWS: usize = if cfg!(test) { 4 } else { 1_000 };

/// The limits of an index.
#[derive(Debug, Clone, Copy)]
struct IndexLimits {
    /// The memory of the ids that are read at first. A million UUIDs take 41 MB.
    bytes: usize,
    /// The memory of the ids that are added later. A million UUIDs take 100 MB.
    later_bytes: usize,
    /// How often the ids that were added are read.
    read_every: Duration,
}

/// The handle of the thread.
#[derive(Debug, Default)]
pub(crate) struct IdIndex(Mutex<IndexState>);

#[derive(Debug, Default)]
struct IndexState {
    running: Option<RunningIndex>,
    is_stopped: bool,
}

#[derive(Debug)]
struct RunningIndex {
    requests: Sender<IdSearch>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct IdSearch {
    prefix: Box<str>,
    most: usize,
    reply: oneshot::Sender<Option<Vec<JobId>>>,
}

/// A thread that has been started, and waits until the rows tell which ids are added.
#[derive(Debug)]
pub(crate) struct StartedIndex {
    /// For the rows ([`follow_ids`](super::rows::db::Db::follow_ids)).
    pub added: SyncSender<JobId>,
    /// Sent when the rows have it: the thread reads all ids then.
    pub is_followed: Sender<()>,
}

impl IdIndex {
    fn lock(&self) -> MutexGuard<'_, IndexState> {
        self.0.lock().expect("no code panics while it holds the lock")
    }

    /// The ids of all jobs that begin with `prefix`, among them those of jobs that are gone. `None` if the index does not
    /// know all ids, or if there are more than `most`.
    pub async fn find(&self, prefix: &str, most: usize) -> Option<Vec<JobId>> {
        let (reply, found) = oneshot::channel();
        let request = IdSearch { prefix: prefix.into(), most, reply };
        // A thread that has ended drops the request, and with it the reply.
        let _ = self.lock().running.as_ref()?.requests.send(request);
        found.await.ok().flatten()
    }

    /// Starts the thread for the database in `path`; `None` if it runs, or after a stop.
    pub fn start(&self, path: PathBuf) -> Option<StartedIndex> {
        let mut state = self.lock();
        if state.is_stopped || state.running.as_ref().is_some_and(|running| !running.thread.is_finished()) {
            return None;
        }
        let (requests, requested) = mpsc::channel();
        let (added, receiver) = mpsc::sync_channel(MAX_ADDED);
        let (is_followed, followed) = mpsc::channel();
        let index = IndexThread { added: receiver, requests: requested, limits: LIMITS };
        let thread = std::thread::Builder::new().name("linger-ids".to_owned()).spawn(move || {
            if index.is_followed(&followed) {
                index.run(&path);
            }
        });
        let thread = thread
            .inspect_err(|error| tracing::warn!(%error, "the thread for the ids of jobs does not start"));
        state.running = Some(RunningIndex { requests, thread: thread.ok()? });
        Some(StartedIndex { added, is_followed })
    }

    /// Tells the thread to end, and starts none any more. Returns the thread, so that the caller can wait until it has closed
    /// the database.
    pub fn stop(&self) -> Option<JoinHandle<()>> {
        let mut state = self.lock();
        state.is_stopped = true;
        state.running.take().map(|running| running.thread)
    }
}

/// The thread's part.
struct IndexThread {
    added: Receiver<JobId>,
    requests: Receiver<IdSearch>,
    limits: IndexLimits,
}

impl IndexThread {
    /// Waits until the rows tell what is added. `false` if the caller has gone before, or the store ends.
    fn is_followed(&self, followed: &Receiver<()>) -> bool {
        loop {
            match followed.recv_timeout(self.limits.read_every) {
                Ok(()) => return true,
                Err(RecvTimeoutError::Timeout) if self.refuse_requests() => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn run(self, path: &Path) {
        let gave_up = match self.read_all(path) {
            Ok(Some(ids)) => self.answer(ids),
            Ok(None) => true,
            Err(error) => {
                tracing::warn!(%error, "searches by the beginning of an id examine all jobs, because the ids cannot be read");
                true
            }
        };
        if gave_up {
            self.rest();
        }
    }

    /// All ids of one moment, and those that were added meanwhile. `None` if they are too many, or the store ends.
    fn read_all(&self, path: &Path) -> Result<Option<SortedIds>, OpenError> {
        let conn = schema::open_reader(path)?;
        let (mut ids, mut rows, mut goes_on) = (UnsortedIds::default(), 0, true);
        let read: SqlResult<()> = for_each_id(&conn, |id| {
            ids.push(id);
            rows += 1;
            if rows % ROWS == 0 {
                let is_complete = self.drain(|id| ids.push(id.as_str()));
                goes_on = is_complete && ids.bytes() <= self.limits.bytes && self.refuse_requests();
            }
            goes_on
        });
        read.map_err(|source| OpenError::Sqlite { path: path.to_owned(), source })?;
        Ok(goes_on.then(|| ids.sort()))
    }

    /// Answers requests as long as the index is complete and wanted, and not too many ids were added: many of its jobs are gone
    /// by then. Returns whether it gave up.
    fn answer(&self, mut ids: SortedIds) -> bool {
        let mut idle = 0;
        while idle < IDLE_READS {
            let request = match self.requests.recv_timeout(self.limits.read_every) {
                Ok(request) => Some(request),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return false,
            };
            // A job that a caller knows of was added before its request: its id is read here.
            let is_complete = self.drain(|id| ids.add(&id));
            if !is_complete {
                return true;
            }
            if ids.later_bytes() > self.limits.later_bytes {
                return false;
            }
            idle += 1;
            if let Some(IdSearch { prefix, most, reply }) = request {
                idle = 0;
                let _ = reply.send(ids.beginning_with(&prefix, most));
            }
        }
        false
    }

    /// Refuses requests for some time: it would probably read all ids for nothing again.
    fn rest(self) {
        let Self { requests, added, limits } = self;
        // The rows need not tell any more.
        drop(added);
        let mut idle = 0;
        while idle < IDLE_READS {
            match requests.recv_timeout(limits.read_every) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => idle += 1,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Reads the ids that were added. `false` if there were more than the rows could tell.
    fn drain(&self, mut add: impl FnMut(JobId)) -> bool {
        loop {
            match self.added.try_recv() {
                Ok(id) => add(id),
                Err(error) => return error == TryRecvError::Empty,
            }
        }
    }

    /// Answers requests before the index knows all ids. `false` if the store ends.
    fn refuse_requests(&self) -> bool {
        loop {
            match self.requests.try_recv() {
                // The dropped reply says that nothing is known.
                Ok(_) => {}
                Err(error) => return error == TryRecvError::Empty,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index over these ids, and the sender of added ones.
    fn running(ids: &[&str], added: usize, limits: IndexLimits) -> (IdIndex, SyncSender<JobId>) {
        let (requests, requested) = mpsc::channel();
        let (sender, receiver) = mpsc::sync_channel(added);
        let mut unsorted = UnsortedIds::default();
        ids.iter().for_each(|id| unsorted.push(id));
        let index = IndexThread { added: receiver, requests: requested, limits };
        let thread = std::thread::spawn(move || {
            if index.answer(unsorted.sort()) {
                index.rest();
            }
        });
        let state = IndexState { running: Some(RunningIndex { requests, thread }), is_stopped: false };
        (IdIndex(Mutex::new(state)), sender)
    }

    fn id(text: &str) -> JobId {
        JobId::parse(text).expect("valid")
    }

    /// Waits until the thread has ended by itself.
    fn join(index: &IdIndex) {
        let running = index.lock().running.take().expect("it ran");
        // Without a request, and not told to stop.
        running.thread.join().expect("ends");
        drop(running.requests);
    }

    #[tokio::test]
    async fn an_id_that_was_added_before_the_request_is_found() {
        let (index, added) = running(&["a-1", "b-1"], 10, LIMITS);
        added.try_send(id("a-2")).expect("has room");
        assert_eq!(index.find("a-", 10).await, Some(vec![id("a-1"), id("a-2")]));
        assert_eq!(index.find("a-", 1).await, None, "more than were wanted");
        assert_eq!(index.find("c", 1).await, Some(Vec::new()));
    }

    #[tokio::test]
    async fn an_index_that_missed_an_id_answers_nothing_and_does_not_begin_again_at_once() {
        let (index, added) = running(&["a-1"], 1, LIMITS);
        // The rows drop their end when there is no room.
        drop(added);
        assert_eq!(index.find("a-", 10).await, None);
        assert_eq!(index.find("a-", 10).await, None, "nor later");
        assert!(index.start(PathBuf::new()).is_none());
    }

    #[tokio::test]
    async fn an_index_that_gave_up_may_begin_again_after_some_time() {
        let (index, added) = running(&[], 1, IndexLimits { read_every: Duration::ZERO, ..LIMITS });
        drop(added);
        join(&index);
        assert!(index.start(PathBuf::new()).is_some());
    }

    #[tokio::test]
    async fn an_index_that_is_not_asked_ends() {
        let (index, added) = running(&["a-1"], 1, IndexLimits { read_every: Duration::ZERO, ..LIMITS });
        join(&index);
        added.try_send(id("a-2")).expect_err("nothing follows any more");
        assert_eq!(index.find("a-", 10).await, None);
    }

    #[tokio::test]
    async fn an_index_with_too_many_later_ids_ends_and_may_begin_again() {
        let (index, added) = running(&["a-1"], 1, IndexLimits { later_bytes: 9, ..LIMITS });
        assert!(index.find("a-", 10).await.is_some());
        added.try_send(id("a-2")).expect("has room");
        assert_eq!(index.find("a-", 10).await, None);
        join(&index);
        assert!(index.start(PathBuf::new()).is_some());
    }

    #[tokio::test]
    async fn a_stop_ends_the_thread_for_good() {
        let (index, _added) = running(&["a-1"], 1, LIMITS);
        index.stop().expect("it ran").join().expect("ends");
        assert_eq!(index.find("a-", 10).await, None);
        assert!(index.start(PathBuf::new()).is_none());
    }

    /// The caller of a list may go away in between.
    #[tokio::test]
    async fn a_thread_whose_caller_never_comes_back_ends_at_a_stop() {
        let index = IdIndex::default();
        let started = index.start(PathBuf::new()).expect("starts");
        index.stop().expect("it runs").join().expect("ends");
        drop(started);
    }

    #[test]
    fn too_many_ids_are_not_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("linger.db");
        let conn = schema::open_writer(&path, crate::store::embedded::Durability::Os).expect("opens");
        for n in 0..2 * ROWS {
            let row = format!("INSERT INTO rec VALUES ({n}, 'job-{n}', 't', x'', x'')");
            conn.execute(&row, []).expect("inserts");
        }
        let thread = |bytes| {
            let (requests, requested) = mpsc::channel();
            let (added, receiver) = mpsc::sync_channel(1);
            let limits = IndexLimits { bytes, ..LIMITS };
            let read = IndexThread { added: receiver, requests: requested, limits }.read_all(&path);
            drop((requests, added));
            read.expect("reads").map(|ids| ids.beginning_with("job-", 99).expect("few").len())
        };
        assert_eq!(thread(LIMITS.bytes), Some(2 * ROWS));
        assert_eq!(thread(20), None);
    }
}
