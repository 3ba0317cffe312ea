//! Lists of jobs, and bulk operations on what a list finds.

use crate::{
    job::{Job, OperationId, State, Topic, TopicFilter},
    queue::{
        bulk::{BulkRequest, OperationView},
        error::Result,
        service::Queue,
    },
    store::{JobFilter, JobPage, ListPosition, Order},
};

impl Queue {
    /// Lists jobs as [`Store::list`](crate::store::Store::list) does. Few callers do so at the same time.
    ///
    /// # Errors
    /// [`Error::Busy`](crate::queue::Error::Busy), [`Error::TooManyScans`](crate::queue::Error::TooManyScans), or the store's.
    pub async fn list(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage> {
        let permits = if filter.is_scan() { &self.scan_permits } else { &*self.read_permits };
        let _permit = permits.acquire().await?;
        Ok(self.store.list(filter, order, after, limit).await?)
    }

    /// The first job of a topic in this state, with its body: in order of the due time, or of death for dead letters. `None` if there
    /// is none, or if it moves at this moment.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn first(&self, topic: &Topic, state: State) -> Result<Option<Job>> {
        let filter = JobFilter { topic: Some(topic.clone()), ..JobFilter::all(state) };
        let page = self.list(&filter, Order::Ascending, None, 1).await?;
        let Some(listed) = page.jobs.first() else { return Ok(None) };
        let found = self.store.get(&TopicFilter::ALL, &listed.job.id).await?;
        Ok(found.filter(|job| job.state() == state))
    }

    /// How many jobs of a topic are in this state.
    ///
    /// # Errors
    /// The store's.
    pub async fn count(&self, topic: &Topic, state: State) -> Result<u64> {
        Ok(self.store.topic(topic).await?.map_or(0, |stats| stats.count(state)))
    }

    /// Starts a bulk operation. If one of any process has its id already, that one is returned. A dry run may have ended on
    /// return.
    ///
    /// # Errors
    /// [`Error::TooManyOperations`](crate::queue::Error::TooManyOperations), [`Error::Draining`](crate::queue::Error::Draining), or the
    /// store's.
    pub async fn start_operation(&self, request: BulkRequest) -> Result<OperationView> {
        self.operations.start(request).await
    }

    /// The latest bulk operations of all processes, the newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn list_operations(&self) -> Result<Vec<OperationView>> {
        self.operations.list().await
    }

    /// One of them.
    ///
    /// # Errors
    /// [`Error::OperationNotFound`](crate::queue::Error::OperationNotFound), or the store's.
    pub async fn operation(&self, id: &OperationId) -> Result<OperationView> {
        self.operations.find(id).await
    }

    /// Stops one of them before its next slice, and returns it once it has ended. If another process runs it, the wait is
    /// bounded, and it is returned as it is then.
    ///
    /// # Errors
    /// [`Error::OperationNotFound`](crate::queue::Error::OperationNotFound), or the store's.
    pub async fn stop_operation(&self, id: &OperationId) -> Result<OperationView> {
        self.operations.stop(id).await
    }
}
