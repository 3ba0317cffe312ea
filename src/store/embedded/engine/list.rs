//! Lists of jobs in steps of the writer, which runs other operations between two steps.

use std::sync::Arc;

use super::EmbeddedStore;
use crate::{
    job::State,
    store::{
        JobFilter, JobPage, ListPosition, Order, Result,
        embedded::ops::{self, FirstKeys, Wanted},
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
                return Ok(page);
            }
        }
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
        let mut page = JobPage { jobs: Vec::new(), next: None, examined: 0 };
        for keys in keys.chunks(ops::MAX_STEP) {
            let (filter, keys, left) = (filter.clone(), keys.to_vec(), limit - page.jobs.len());
            let step = self.run(move |txn| ops::list_waiting(txn, &filter, &keys, left)).await?;
            if page.extend(step, limit) {
                break;
            }
        }
        if page.examined == keys.len() && keys.len() < most {
            page.next = None;
        }
        Ok(page)
    }
}
