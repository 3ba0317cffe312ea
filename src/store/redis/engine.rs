//! The engine as a [`Store`]: which part performs which operation.

mod moving;
mod schedules;
mod stop;
mod tasks;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

pub use tasks::EngineTasks;

use super::{
    coordination::{
        announcements::Announcements, cancel::Canceller, compaction::Compaction, health::HealthCheck,
        lost_pops::LostPops, mend::Mender, notifier::Notifier, permissions::PermissionMonitor,
        probe::ReadyProbe, settings_cache::SettingsCache, shards::Shards, sweep::Sweep,
    },
    ops::{
        add::Adder,
        allow,
        apply::StepRunner,
        archive::SharedArchive,
        counts::CountsReader,
        finish::Finisher,
        gone_delay::GoneDelay,
        list::JobLister,
        notices::SharedNotices,
        promote::Promoter,
        purge, read,
        records::{self, ShardRecords},
        reserve::Reserver,
        settings,
        shard_reserve::ShardReserver,
        timeline,
        topics::TopicReader,
        verify,
    },
};
use crate::{
    job::{CallRate, HostNumber, Job, JobId, Origin, Outlet, RememberedId, Timestamp, Topic, TopicFilter},
    store::{
        AddJob, Added, Allowed, Applied, Archive, Claim, Degraded, EngineInfo, FinishJob, Finished,
        JobFilter, JobPage, JobRecord, ListPosition, Listener, Notices, Order, Outcome, Promoted,
        PurgeCursor, PurgeSlice, Put, RecordReader, Refusal, Reservation, Result, Span, Step, Store,
        StoreSpace, Timeline, TopicConfig, TopicStats, TopicStore, TopicValues, Updated, Verified, Wait,
    },
};

/// The engine. Dropping it stops its tasks and connections; [`Store::close`] also waits for them.
pub struct Redis {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
    settings: Arc<SettingsCache>,
    health: HealthCheck,
    probe: Arc<ReadyProbe>,
    adder: Adder,
    reserver: Reserver,
    finisher: Finisher,
    steps: StepRunner,
    promoter: Arc<Promoter>,
    topic_reader: TopicReader,
    lister: JobLister,
    notices: SharedNotices,
    archive: SharedArchive,
}

impl Redis {
    /// The engine on these shards, and the tasks that it needs to serve.
    pub fn new(shards: Arc<Shards>, listener: Arc<dyn Listener>) -> (Self, EngineTasks) {
        let notifier = Notifier::new(listener);
        let wake_sweep = watch::Sender::new(());
        let canceller = Arc::new(Canceller::new(shards.clone(), notifier.clone()));
        let lost_pops = Arc::new(LostPops::new(shards.clone(), canceller.clone()));
        let settings = SettingsCache::new(shards.clone(), notifier.clone());
        let compaction = Arc::new(Compaction::new(shards.clone()));
        let probe = ReadyProbe::new(shards.clone(), notifier.clone());
        let announcements = Announcements::new(shards.clone(), notifier.clone(), wake_sweep.clone());
        let sweep = Arc::new(Sweep {
            shards: shards.clone(),
            notifier: notifier.clone(),
            announcements: announcements.clone(),
            settings: settings.clone(),
            compaction: compaction.clone(),
            lost_pops: lost_pops.clone(),
            mender: Mender::new(shards.clone(), notifier.clone()),
            permissions: PermissionMonitor::default(),
            wake: wake_sweep,
        });
        let tasks = EngineTasks { shards: shards.clone(), announcements, sweep, probe: probe.clone() };
        let shard_reserver = ShardReserver {
            shards: shards.clone(),
            notifier: notifier.clone(),
            lost_pops,
            canceller: canceller.clone(),
        };
        let promoter = Promoter::new(shards.clone(), notifier.clone(), compaction.clone());
        let finisher = Finisher::new(shards.clone(), notifier.clone(), compaction.clone());
        let adder = Adder::new(shards.clone(), notifier.clone(), compaction.clone());
        let steps = StepRunner { shards: shards.clone(), notifier: notifier.clone(), compaction, canceller };
        let counts = CountsReader::new(shards.clone());
        let redis = Self {
            health: HealthCheck::new(shards.clone()),
            adder,
            reserver: Reserver::new(probe.clone(), shard_reserver),
            probe,
            finisher,
            steps,
            promoter,
            topic_reader: TopicReader::new(shards.clone(), settings.clone(), counts.clone()),
            lister: JobLister::new(shards.clone(), counts),
            notices: SharedNotices::new(shards.clone()),
            archive: SharedArchive::new(shards.clone()),
            notifier,
            settings,
            shards,
        };
        (redis, tasks)
    }

    /// Reads all topics' settings and pauses.
    pub async fn refresh_settings(&self) -> Result<()> {
        self.settings.refresh().await
    }

    fn start_gone_delay(&self) -> GoneDelay<'_> {
        GoneDelay::start(self.shards.context())
    }
}

#[async_trait]
impl Store for Redis {
    /// What the servers last reported of themselves. Together they promise only as much as the weakest one, so all
    /// are listed.
    fn info(&self) -> EngineInfo {
        self.health.info()
    }

    async fn add(&self, jobs: Vec<AddJob>) -> Result<Vec<Outcome<Added>>> {
        self.adder.add(jobs).await
    }

    async fn reserve(&self, outlet: &Outlet, claims: &[Claim], wait: Wait) -> Result<Vec<Reservation>> {
        self.reserver.reserve(outlet, claims, wait).await
    }

    fn host_number(&self, origin: &Origin) -> HostNumber {
        self.shards.host_number(origin)
    }

    async fn ready_outlets(&self) -> Result<Vec<Outlet>> {
        self.probe.ready_outlets().await
    }

    async fn allow(&self, topic: &Topic, rate: CallRate, want: usize) -> Result<Allowed> {
        allow::allow(&self.shards, topic, rate, want).await
    }

    async fn give_back_calls(&self, topic: &Topic, allowed: Allowed, unused: usize) -> Result<()> {
        allow::give_back(&self.shards, topic, allowed, unused).await
    }

    async fn finish(&self, scope: &TopicFilter, jobs: Vec<FinishJob>) -> Result<Vec<Outcome<Finished>>> {
        let delay = self.start_gone_delay();
        let finished = self.finisher.finish(scope, jobs).await?;
        delay.finish(!scope.is_all() && finished.contains(&Err(Refusal::Gone))).await;
        Ok(finished)
    }

    async fn apply(&self, steps: Vec<Step>) -> Result<Vec<Outcome<Applied>>> {
        self.steps.apply(&steps).await
    }

    async fn get(&self, scope: &TopicFilter, id: &JobId) -> Result<Option<Job>> {
        let delay = self.start_gone_delay();
        let job = read::get(&self.shards, scope, id).await?;
        delay.finish(!scope.is_all() && job.is_none()).await;
        Ok(job)
    }

    async fn promote(&self, limit: usize) -> Result<Promoted> {
        self.promoter.promote(limit).await
    }

    fn topic_config(&self, topic: &Topic) -> Arc<TopicConfig> {
        self.settings.get(topic)
    }

    async fn topics(
        &self,
        scope: &TopicFilter,
        after: Option<&Topic>,
        limit: usize,
    ) -> Result<Vec<(Topic, TopicStats)>> {
        self.topic_reader.list(scope, after, limit).await
    }

    async fn timeline(&self, topic: Option<&Topic>, span: Span) -> Result<Timeline> {
        timeline::read(&self.shards, &self.topic_reader, topic, &span).await
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicStats>> {
        self.topic_reader.get(topic).await
    }

    async fn list(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage> {
        self.lister.list(filter, order, after, limit).await
    }

    async fn purge(&self, topic: &Topic, cursor: Option<PurgeCursor>, limit: usize) -> Result<PurgeSlice> {
        purge::purge_slice(&self.shards, topic, cursor, limit).await
    }

    async fn records(&self) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(ShardRecords::new(self.shards.clone(), self.settings.clone())))
    }

    async fn put(&self, jobs: Vec<JobRecord>) -> Result<Vec<Put>> {
        records::put(&self.shards, &self.notifier, jobs).await
    }

    async fn put_remembered(&self, ids: Vec<RememberedId>) -> Result<Vec<Put>> {
        records::put_remembered(&self.shards, ids).await
    }

    fn notices(&self) -> &dyn Notices {
        &self.notices
    }

    fn archive(&self) -> &dyn Archive {
        &self.archive
    }

    async fn verify(&self) -> Result<Verified> {
        verify::verify(&self.shards, &self.settings).await
    }

    async fn check(&self) -> Result<()> {
        self.health.run().await
    }

    fn degraded(&self) -> Vec<Degraded> {
        self.health.degraded()
    }

    async fn space(&self) -> Result<StoreSpace> {
        Ok(self.health.space())
    }

    async fn close(&self) -> Result<()> {
        tasks::close(&self.shards).await;
        Ok(())
    }
}

#[async_trait]
impl TopicStore for Redis {
    fn now(&self) -> Timestamp {
        self.settings.now()
    }

    async fn topic_values(&self, topic: &Topic) -> Result<TopicValues> {
        self.settings.refresh().await?;
        Ok(self.settings.values(topic))
    }

    async fn known_topic_values(&self, topic: &Topic) -> Result<TopicValues> {
        Ok(self.settings.values(topic))
    }

    async fn update_topic(
        &self,
        topic: &Topic,
        expected: &TopicValues,
        values: TopicValues,
    ) -> Result<Updated> {
        settings::update(&self.shards, &self.settings, topic, expected, values).await
    }
}
