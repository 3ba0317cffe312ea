//! Lists of the state machine.

use std::sync::Arc;

use super::StateMachine;
use crate::{
    job::{JobId, State},
    store::{
        JobFilter, JobPage, Order,
        embedded::ops::{self, FirstKeys, Wanted},
    },
};

impl StateMachine {
    /// The ids of the jobs in `state`, from a list in small pages.
    pub(super) fn list(&mut self, state: State, order: Order, limit: usize) -> Vec<JobId> {
        let (filter, mut found, mut after) = (Arc::new(JobFilter::all(state)), Vec::new(), None);
        loop {
            let page = match state {
                State::Delayed | State::Ready => {
                    let most = limit + 1;
                    self.list_waiting(&Wanted { filter: filter.clone(), order, after, most }, limit)
                }
                State::Reserved | State::Dead => {
                    self.txn(|txn| ops::list(txn, &filter, order, after.as_ref(), limit))
                }
            };
            found.extend(page.jobs.into_iter().map(|listed| listed.job.id));
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    }

    fn list_waiting(&mut self, wanted: &Wanted, limit: usize) -> JobPage {
        let mut found = FirstKeys::new(wanted);
        let mut step = self.txn(|txn| Ok(ops::first_keys(txn, wanted, None, None)));
        while let (keys, Some(place)) = step {
            found.add(keys);
            step = self.txn(|txn| Ok(ops::first_keys(txn, wanted, Some(&place), found.bound())));
        }
        found.add(step.0);
        let keys = found.into_sorted();
        let page = self.txn(|txn| ops::list_waiting(txn, &wanted.filter, &keys, limit));
        let is_end = page.examined == keys.len() && keys.len() < wanted.most;
        JobPage { next: page.next.filter(|_| !is_end), ..page }
    }
}
