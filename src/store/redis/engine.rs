//! The engine as a [`Store`]: which part does what.

use std::sync::Arc;

use async_trait::async_trait;

use super::Redis;
use crate::{
    job::{Delay, Job, JobId, Reason, Receipt, Topic, TopicFilter, TopicPause, TopicSettings, Ttr},
    store::{
        AddJob, Added, DeadCursor, Degraded, Deleted, EngineInfo, FinishJob, Finished, Held, NotHeld, Patch,
        Patched, Promoted, PurgeCursor, PurgeSlice, Release, Requeued, Reservation, Result, Store,
        TopicConfig, TopicStats, Verified, Wait,
    },
};

#[async_trait]
impl Store for Redis {
    fn info(&self) -> EngineInfo {
        super::info(&self.0.routes)
    }

    async fn add(&self, jobs: Vec<AddJob>) -> Result<Vec<Added>> {
        self.0.add_jobs(jobs).await
    }

    async fn reserve(&self, topic: &Topic, ttrs: &[Option<Ttr>], wait: Wait) -> Result<Vec<Reservation>> {
        self.0.reserve_jobs(topic, ttrs, wait).await
    }

    async fn cancel(&self, grants: Vec<(JobId, Receipt)>) -> Result<()> {
        self.0.cancel_grants(grants).await
    }

    async fn finish(&self, scope: &TopicFilter, jobs: Vec<FinishJob>) -> Result<Vec<Finished>> {
        let gone_us = self.0.gone_us();
        let finished = self.0.finish_jobs(scope, jobs).await?;
        self.0.hold_back(scope, gone_us, finished.contains(&Finished::Gone)).await;
        Ok(finished)
    }

    async fn release(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        release: Release,
    ) -> Result<Held> {
        let gone_us = self.0.gone_us();
        let held = self.0.release_job(scope, id, receipt, release).await?;
        self.0.hold_back(scope, gone_us, held == Err(NotHeld::Gone)).await;
        Ok(held)
    }

    async fn touch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        ttr: Option<Ttr>,
    ) -> Result<Held> {
        let gone_us = self.0.gone_us();
        let held = self.0.touch_job(scope, id, receipt, ttr).await?;
        self.0.hold_back(scope, gone_us, held == Err(NotHeld::Gone)).await;
        Ok(held)
    }

    async fn bury(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        reason: Option<Reason>,
    ) -> Result<Held> {
        let gone_us = self.0.gone_us();
        let held = self.0.bury_job(scope, id, receipt, reason).await?;
        self.0.hold_back(scope, gone_us, held == Err(NotHeld::Gone)).await;
        Ok(held)
    }

    async fn requeue(&self, scope: &TopicFilter, id: &JobId, delay: Delay) -> Result<Requeued> {
        let gone_us = self.0.gone_us();
        let requeued = self.0.requeue_job(scope, id, delay).await?;
        self.0.hold_back(scope, gone_us, requeued == Requeued::Gone).await;
        Ok(requeued)
    }

    async fn patch(&self, scope: &TopicFilter, id: &JobId, patch: Patch) -> Result<Patched> {
        let gone_us = self.0.gone_us();
        let patched = self.0.patch_job(scope, id, patch).await?;
        self.0.hold_back(scope, gone_us, patched == Patched::Gone).await;
        Ok(patched)
    }

    async fn delete(&self, scope: &TopicFilter, ids: Vec<JobId>) -> Result<Vec<Deleted>> {
        let gone_us = self.0.gone_us();
        let deleted = self.0.delete_jobs(scope, ids).await?;
        self.0.hold_back(scope, gone_us, deleted.contains(&Deleted::Gone)).await;
        Ok(deleted)
    }

    async fn get(&self, scope: &TopicFilter, id: &JobId) -> Result<Option<Job>> {
        let gone_us = self.0.gone_us();
        let job = self.0.get_job(scope, id).await?;
        self.0.hold_back(scope, gone_us, job.is_none()).await;
        Ok(job)
    }

    async fn promote(&self, limit: usize) -> Result<Promoted> {
        self.0.promote_due(limit).await
    }

    fn topic_config(&self, topic: &Topic) -> Arc<TopicConfig> {
        self.0.configs.get(topic)
    }

    async fn put_settings(&self, topic: &Topic, settings: TopicSettings) -> Result<()> {
        self.0.write_settings(topic, settings).await
    }

    async fn change_pause(&self, topic: &Topic, set: TopicPause, clear: TopicPause) -> Result<TopicPause> {
        self.0.change_pause(topic, set, clear).await
    }

    async fn topics(&self, after: Option<&Topic>, limit: usize) -> Result<Vec<(Topic, TopicStats)>> {
        self.0.all_topics(after, limit).await
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicStats>> {
        self.0.one_topic(topic).await
    }

    async fn purge(&self, topic: &Topic, cursor: Option<PurgeCursor>, limit: usize) -> Result<PurgeSlice> {
        self.0.purge_slice(topic, cursor, limit).await
    }

    async fn dead(&self, topic: &Topic, after: Option<&DeadCursor>, limit: usize) -> Result<Vec<Job>> {
        self.0.dead_jobs(topic, after, limit).await
    }

    async fn requeue_dead(&self, topic: &Topic, limit: usize) -> Result<usize> {
        self.0.requeue_dead_jobs(topic, limit).await
    }

    async fn delete_dead(&self, topic: &Topic, limit: usize) -> Result<usize> {
        self.0.delete_dead_jobs(topic, limit).await
    }

    async fn verify(&self) -> Result<Verified> {
        self.0.verify_all().await
    }

    async fn check(&self) -> Result<()> {
        self.0.check_shards().await
    }

    fn degraded(&self) -> Vec<Degraded> {
        self.0.shard_health.degraded().into_iter().collect()
    }

    async fn close(&self) -> Result<()> {
        self.0.shut().await;
        Ok(())
    }
}
