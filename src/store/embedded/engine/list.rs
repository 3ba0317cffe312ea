//! Lists of jobs in steps of the writer, which runs other operations between two steps.

use std::sync::Arc;

use super::EmbeddedStore;
use crate::{
    job::State,
    store::{
        JobFilter, JobPage, ListPosition, Order, Result,
        embedded::{
            disk::data_dir::DB_FILE,
            id_index::StartedIndex,
            ops::{self, FirstKeys, Wanted, write_txn::WriteTxn},
            rows::db::SqlResult,
        },
    },
};

impl EmbeddedStore {
    /// See [`crate::store::Store::list`].
    pub(super) async fn list_in_steps(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage> {
        let filter = Arc::new(filter.clone());
        if let Some(page) = self.list_by_ids(&filter, order, after, limit).await? {
            return Ok(page);
        }
        let mut page = JobPage { jobs: Vec::new(), next: after.cloned(), examined: 0 };
        loop {
            let (filter, after, left) = (filter.clone(), page.next.take(), limit - page.jobs.len());
            let part = match filter.state {
                State::Delayed | State::Ready => {
                    // One more than wanted shows whether there is another page.
                    let most = if filter.id_prefix.is_none() {
                        left.saturating_add(1)
                    } else {
                        JobPage::MAX_EXAMINED
                    };
                    let most = most.min(JobPage::MAX_EXAMINED);
                    self.list_waiting(Wanted { filter, order, after, most }, left).await?
                }
                State::Reserved | State::Dead => {
                    self.run(move |txn| ops::list(txn, &filter, order, after.as_ref(), left)).await?
                }
            };
            if page.extend(part, limit) {
                break;
            }
        }
        let is_search = filter.id_prefix.is_some() && filter.topic.is_none();
        if is_search && page.next.is_some() && page.jobs.len() < limit {
            // The page is right even if the writer has failed since.
            let _ = self.start_index().await;
        }
        Ok(page)
    }

    /// A list of all topics by the beginning of an id, if the index of ids can tell which jobs these are. A list of one topic
    /// must not depend on what other topics have.
    async fn list_by_ids(
        &self,
        filter: &Arc<JobFilter>,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<Option<JobPage>> {
        let (Some(prefix), None) = (&filter.id_prefix, &filter.topic) else { return Ok(None) };
        let Some(ids) = self.ids.find(prefix, JobPage::MAX_EXAMINED).await else { return Ok(None) };
        self.published.check()?;
        let (state, mut jobs) = (filter.state, Vec::new());
        for ids in ids.chunks(ops::MAX_LOOKUPS) {
            let ids = ids.to_vec();
            jobs.extend(self.run(move |txn| Ok(ops::find_named(txn, state, &ids))).await?);
        }
        let jobs = ops::in_order(jobs, order, after);
        Ok(Some(self.read_in_steps(filter, &jobs, true, limit, ops::list_named).await?))
    }

    /// Starts the index of ids, because a search needs more than one call.
    pub(in crate::store::embedded) async fn start_index(&self) -> Result<()> {
        let path = self.options.data_dir.join(DB_FILE);
        let Some(StartedIndex { added, is_followed }) = self.ids.start(path) else { return Ok(()) };
        let follow = move |txn: &mut WriteTxn<'_>| {
            txn.db.follow_ids(added.clone());
            Ok(())
        };
        self.run(follow).await?;
        // The thread reads all ids now: those of jobs that were added before are in the file, the rest it is told.
        let _ = is_followed.send(());
        Ok(())
    }

    /// A part of a list of delayed or ready jobs: as many as are wanted are examined until `limit` of them match.
    async fn list_waiting(&self, wanted: Wanted, limit: usize) -> Result<JobPage> {
        let (filter, most) = (wanted.filter.clone(), wanted.most);
        let mut found = FirstKeys::new(&wanted);
        let mut place = None;
        loop {
            let (wanted, bound) = (wanted.clone(), found.bound());
            let step = self.run(move |txn| Ok(ops::first_keys(txn, &wanted, place.as_ref(), bound))).await?;
            found.add(step.0);
            place = step.1;
            if place.is_none() {
                break;
            }
        }
        let keys = found.into_sorted();
        let is_all = keys.len() < most;
        self.read_in_steps(&filter, &keys, is_all, limit, ops::list_waiting).await
    }

    /// Reads jobs that were found before, some in each step, until `limit` of them match. `is_all` says that no others follow.
    async fn read_in_steps<T: Clone + Send + 'static>(
        &self,
        filter: &Arc<JobFilter>,
        found: &[T],
        is_all: bool,
        limit: usize,
        read: fn(&mut WriteTxn<'_>, &JobFilter, &[T], usize) -> SqlResult<JobPage>,
    ) -> Result<JobPage> {
        let mut page = JobPage { jobs: Vec::new(), next: None, examined: 0 };
        for part in found.chunks(ops::MAX_STEP) {
            let (filter, part, left) = (filter.clone(), part.to_vec(), limit - page.jobs.len());
            let step = self.run(move |txn| read(txn, &filter, &part, left)).await?;
            if page.extend(step, limit) {
                break;
            }
        }
        if is_all && page.examined == found.len() {
            page.next = None;
        }
        Ok(page)
    }
}
