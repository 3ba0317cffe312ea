//! A store that fails on demand, because a real engine fails only rarely.

mod hung_calls;
mod notices;

pub use hung_calls::HungCalls;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use linger::{
    job::{
        Actor, CallRate, Callback, Delay, HostNumber, Job, JobId, Origin, Outlet, Reason, Receipt, SecretId,
        SigningKey, Topic, TopicFilter, TopicPause, TopicSettings, Ttr,
    },
    store::{
        AddJob, Added, AddedSecret, Allowed, ChangeJob, Changed, Claim, Deleted, EngineInfo, Error,
        FinishJob, Finished, Held, JobFilter, JobPage, ListPosition, Notices, Order, Patch, Patched,
        Promoted, PurgeCursor, PurgeSlice, Release, Requeued, Reservation, Result, Span, Store, Timeline,
        TopicConfig, TopicStats, Verified, Wait,
    },
};

/// How every operation fails.
#[derive(Debug, Clone)]
pub enum Failure {
    Error(Error),
    Panic,
}

/// Passes every call to another store until it is made to fail.
#[derive(Debug)]
pub struct FailingStore {
    inner: Arc<dyn Store>,
    failure: Mutex<Option<Failure>>,
    hung_reserves: Mutex<HashMap<Topic, Arc<HungCalls>>>,
    hung_checks: Mutex<Option<Arc<HungCalls>>>,
    hung_topics: Mutex<Option<Arc<HungCalls>>>,
    hung_timelines: Mutex<Option<Arc<HungCalls>>>,
    hung_lists: Mutex<Option<Arc<HungCalls>>>,
    hung_gets: Mutex<Option<Arc<HungCalls>>>,
    hung_changes: Mutex<Option<Arc<HungCalls>>>,
    put_before: Mutex<Option<TopicSettings>>,
    notices_fail: AtomicBool,
    written_notices: AtomicUsize,
    hung_notices: Mutex<Option<Arc<HungCalls>>>,
    ignores_waiting: AtomicBool,
    waiting_reserves: AtomicUsize,
}

impl FailingStore {
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            failure: Mutex::default(),
            hung_reserves: Mutex::default(),
            hung_checks: Mutex::default(),
            hung_topics: Mutex::default(),
            hung_timelines: Mutex::default(),
            hung_lists: Mutex::default(),
            hung_gets: Mutex::default(),
            hung_changes: Mutex::default(),
            put_before: Mutex::default(),
            notices_fail: AtomicBool::default(),
            written_notices: AtomicUsize::default(),
            hung_notices: Mutex::default(),
            ignores_waiting: AtomicBool::default(),
            waiting_reserves: AtomicUsize::default(),
        })
    }

    /// Makes every operation fail, or work again.
    pub fn fail(&self, failure: Option<Failure>) {
        *self.failure.lock().expect("not poisoned") = failure;
    }

    /// Makes the notices fail, or work again. They do not fail with everything else.
    pub fn fail_notices(&self, fail: bool) {
        self.notices_fail.store(fail, Ordering::Relaxed);
    }

    /// Reserves nothing for waiting callers from now on, or again.
    pub fn ignore_waiting_callers(&self, ignores: bool) {
        self.ignores_waiting.store(ignores, Ordering::Relaxed);
    }

    /// The number of calls of `reserve` with `Wait::Yes`.
    pub fn waiting_reserves(&self) -> usize {
        self.waiting_reserves.load(Ordering::Relaxed)
    }

    /// Has another caller put these settings, just before the next ones are put.
    pub fn put_before_next(&self, settings: TopicSettings) {
        *self.put_before.lock().expect("not poisoned") = Some(settings);
    }

    /// Makes the reserves of one topic hang from now on.
    pub fn hang(&self, topic: &Topic) -> Arc<HungCalls> {
        let hung = HungCalls::new();
        self.hung_reserves.lock().expect("not poisoned").insert(topic.clone(), hung.clone());
        hung
    }

    /// Makes checks hang from now on.
    pub fn hang_checks(&self) -> Arc<HungCalls> {
        self.hung_checks.lock().expect("not poisoned").insert(HungCalls::new()).clone()
    }

    /// Makes the listing of topics hang from now on.
    pub fn hang_topics(&self) -> Arc<HungCalls> {
        self.hung_topics.lock().expect("not poisoned").insert(HungCalls::new()).clone()
    }

    /// Makes timelines hang from now on.
    pub fn hang_timelines(&self) -> Arc<HungCalls> {
        self.hung_timelines.lock().expect("not poisoned").insert(HungCalls::new()).clone()
    }

    /// Makes lists hang from now on.
    pub fn hang_lists(&self) -> Arc<HungCalls> {
        self.hung_lists.lock().expect("not poisoned").insert(HungCalls::new()).clone()
    }

    /// Makes reads of jobs hang from now on.
    pub fn hang_gets(&self) -> Arc<HungCalls> {
        self.hung_gets.lock().expect("not poisoned").insert(HungCalls::new()).clone()
    }

    /// Makes changes of listed jobs hang from now on.
    pub fn hang_changes(&self) -> Arc<HungCalls> {
        self.hung_changes.lock().expect("not poisoned").insert(HungCalls::new()).clone()
    }

    async fn wait_if_hung(&self, topic: &Topic) {
        let hung = self.hung_reserves.lock().expect("not poisoned").get(topic).cloned();
        if let Some(hung) = hung {
            hung.wait().await;
        }
    }

    fn inner(&self) -> Result<&dyn Store> {
        let failure = self.failure.lock().expect("not poisoned").clone();
        match failure {
            None => Ok(&*self.inner),
            Some(Failure::Error(error)) => Err(error),
            Some(Failure::Panic) => panic!("as the test demanded"),
        }
    }
}

#[async_trait]
impl Store for FailingStore {
    fn info(&self) -> EngineInfo {
        self.inner.info()
    }

    async fn add(&self, jobs: Vec<AddJob>) -> Result<Vec<Added>> {
        self.inner()?.add(jobs).await
    }

    async fn reserve(&self, outlet: &Outlet, claims: &[Claim], wait: Wait) -> Result<Vec<Reservation>> {
        self.wait_if_hung(&outlet.topic).await;
        if wait == Wait::Yes {
            self.waiting_reserves.fetch_add(1, Ordering::Relaxed);
            if self.ignores_waiting.load(Ordering::Relaxed) {
                return Ok(Vec::new());
            }
        }
        self.inner()?.reserve(outlet, claims, wait).await
    }

    fn may_have_ready(&self, outlet: &Outlet) -> bool {
        let fails = self.failure.lock().expect("not poisoned").is_some();
        let hangs = self.hung_reserves.lock().expect("not poisoned").contains_key(&outlet.topic);
        fails || hangs || self.inner.may_have_ready(outlet)
    }

    fn host_number(&self, origin: &Origin) -> HostNumber {
        self.inner.host_number(origin)
    }

    async fn timeline(&self, topic: Option<&Topic>, span: Span) -> Result<Timeline> {
        let hung = self.hung_timelines.lock().expect("not poisoned").clone();
        if let Some(hung) = hung {
            hung.wait().await;
        }
        self.inner()?.timeline(topic, span).await
    }

    async fn ready_outlets(&self) -> Result<Vec<Outlet>> {
        self.inner()?.ready_outlets().await
    }

    async fn allow(&self, topic: &Topic, rate: CallRate, want: usize) -> Result<Allowed> {
        self.inner()?.allow(topic, rate, want).await
    }

    async fn give_back_calls(&self, topic: &Topic, allowed: Allowed, unused: usize) -> Result<()> {
        self.inner()?.give_back_calls(topic, allowed, unused).await
    }

    async fn cancel(&self, grants: Vec<(JobId, Receipt)>) -> Result<()> {
        self.inner()?.cancel(grants).await
    }

    async fn finish(&self, scope: &TopicFilter, jobs: Vec<FinishJob>) -> Result<Vec<Finished>> {
        self.inner()?.finish(scope, jobs).await
    }

    async fn release(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        release: Release,
    ) -> Result<Held> {
        self.inner()?.release(scope, id, receipt, release).await
    }

    async fn touch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        ttr: Option<Ttr>,
    ) -> Result<Held> {
        self.inner()?.touch(scope, id, receipt, ttr).await
    }

    async fn bury(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        reason: Option<Reason>,
    ) -> Result<Held> {
        self.inner()?.bury(scope, id, receipt, reason).await
    }

    async fn requeue(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        delay: Delay,
        by: Option<&Actor>,
    ) -> Result<Requeued> {
        self.inner()?.requeue(scope, id, delay, by).await
    }

    async fn patch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        patch: Patch,
        by: Option<&Actor>,
    ) -> Result<Patched> {
        self.inner()?.patch(scope, id, patch, by).await
    }

    async fn delete(&self, scope: &TopicFilter, ids: Vec<JobId>) -> Result<Vec<Deleted>> {
        self.inner()?.delete(scope, ids).await
    }

    async fn get(&self, scope: &TopicFilter, id: &JobId) -> Result<Option<Job>> {
        let hung = self.hung_gets.lock().expect("not poisoned").clone();
        if let Some(hung) = hung {
            hung.wait().await;
        }
        self.inner()?.get(scope, id).await
    }

    async fn promote(&self, limit: usize) -> Result<Promoted> {
        self.inner()?.promote(limit).await
    }

    fn topic_config(&self, topic: &Topic) -> Arc<TopicConfig> {
        self.inner.topic_config(topic)
    }

    async fn put_settings_if(
        &self,
        topic: &Topic,
        set: TopicSettings,
        was: Option<Callback>,
    ) -> Result<bool> {
        let first = self.put_before.lock().expect("not poisoned").take();
        if let Some(first) = first {
            self.inner()?.put_settings(topic, first).await?;
        }
        self.inner()?.put_settings_if(topic, set, was).await
    }

    async fn change_pause(&self, topic: &Topic, set: TopicPause, clear: TopicPause) -> Result<TopicPause> {
        self.inner()?.change_pause(topic, set, clear).await
    }

    async fn read_topic_config(&self, topic: &Topic) -> Result<Arc<TopicConfig>> {
        self.inner()?.read_topic_config(topic).await
    }

    async fn add_secret(&self, topic: &Topic, id: SecretId, key: SigningKey) -> Result<AddedSecret> {
        self.inner()?.add_secret(topic, id, key).await
    }

    async fn delete_secret(&self, topic: &Topic, id: SecretId) -> Result<bool> {
        self.inner()?.delete_secret(topic, id).await
    }

    async fn topics(
        &self,
        scope: &TopicFilter,
        after: Option<&Topic>,
        limit: usize,
    ) -> Result<Vec<(Topic, TopicStats)>> {
        let hung = self.hung_topics.lock().expect("not poisoned").clone();
        if let Some(hung) = hung {
            hung.wait().await;
        }
        self.inner()?.topics(scope, after, limit).await
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicStats>> {
        self.inner()?.topic(topic).await
    }

    async fn list(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage> {
        let hung = self.hung_lists.lock().expect("not poisoned").clone();
        if let Some(hung) = hung {
            hung.wait().await;
        }
        self.inner()?.list(filter, order, after, limit).await
    }

    async fn change(&self, jobs: Vec<ChangeJob>, by: Option<&Actor>) -> Result<Vec<Changed>> {
        let hung = self.hung_changes.lock().expect("not poisoned").clone();
        if let Some(hung) = hung {
            hung.wait().await;
        }
        self.inner()?.change(jobs, by).await
    }

    async fn purge(&self, topic: &Topic, cursor: Option<PurgeCursor>, limit: usize) -> Result<PurgeSlice> {
        self.inner()?.purge(topic, cursor, limit).await
    }

    fn notices(&self) -> &dyn Notices {
        self
    }

    async fn verify(&self) -> Result<Verified> {
        self.inner()?.verify().await
    }

    async fn check(&self) -> Result<()> {
        let hung = self.hung_checks.lock().expect("not poisoned").clone();
        if let Some(hung) = hung {
            hung.wait().await;
        }
        self.inner()?.check().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
