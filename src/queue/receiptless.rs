//! What protocols without receipts need: their clients name a job by its id alone.

use super::{
    error::{Error, Result},
    service::Queue,
};
use crate::{
    job::{Actor, JobId, Topic, TopicFilter},
    store::{DeleteRule, FinishJob},
};

impl Queue {
    /// Finishes a job, whichever worker holds it; deletes it if no worker does. The caller may be limited to some topics: it knows no
    /// receipts, and `scope` is what keeps it from the jobs of others.
    ///
    /// Of a job that was replaced during its reservation only the reservation ends. The newer version stays, since the caller
    /// cannot mean a version that no worker has had.
    ///
    /// # Errors
    /// [`Error::JobNotFound`] or [`Error::JobEnded`], [`Error::ReceiptRequired`], or the store's.
    pub async fn finish_or_delete(&self, scope: &TopicFilter, id: &JobId, by: Option<&Actor>) -> Result<()> {
        match self.finish_unproven(scope, FinishJob { id: id.clone(), receipt: None }, by).await {
            Err(Error::NotReserved) => self.delete(scope, id, DeleteRule::AnyState, by).await.map(drop),
            Err(Error::JobReplaced) => Ok(()),
            finished => finished,
        }
    }

    /// Whether a job of `topic` that sets no limit on attempts gets one from the settings of its topic.
    #[must_use]
    pub fn limits_attempts(&self, topic: &Topic) -> bool {
        let settings = &self.store.topic_config(topic).settings;
        settings.max_attempts.is_some() || settings.retry.as_ref().is_some_and(|retry| !retry.is_empty())
    }
}
