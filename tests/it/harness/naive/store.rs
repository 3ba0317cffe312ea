//! The model as an implementation of the store.

use std::sync::Arc;

use async_trait::async_trait;
use linger::{
    job::{
        CallRate, HostNumber, Job, JobId, OnExpiry, Origin, Outlet, Receipt, RememberedId, State, Timestamp,
        Topic, TopicFilter,
    },
    store::{
        AddJob, Added, Allowed, Applied, Archive, Claim, EngineInfo, FinishJob, Finished, JobFilter, JobPage,
        JobRecord, ListPosition, Minute, Move, MoveKind, Notices, Order, Outcome, Promoted, PurgeCursor,
        PurgeSlice, Put, RecordReader, Reservation, Result, Span, Step, Store, Timeline, TopicConfig,
        TopicStats, TopicStore, TopicValues, Totals, Updated, Verified, Wait,
    },
};

use super::Naive;

#[async_trait]
impl Store for Naive {
    fn info(&self) -> EngineInfo {
        let (durability, version) = ("none".to_owned(), "0".to_owned());
        EngineInfo { engine: "naive", durability, version, is_shared: true }
    }

    async fn add(&self, jobs: Vec<AddJob>) -> Result<Vec<Outcome<Added>>> {
        let mut content = self.content();
        Ok(jobs.into_iter().map(|job| self.add_one(&mut content, job)).collect())
    }

    async fn reserve(&self, outlet: &Outlet, claims: &[Claim], _: Wait) -> Result<Vec<Reservation>> {
        let ready = self.ready(outlet);
        Ok(ready
            .iter()
            .zip(claims.iter().enumerate())
            .map(|(id, claim)| self.grant(id, &Receipt::generate(), claim))
            .collect())
    }

    fn may_have_ready(&self, outlet: &Outlet) -> bool {
        !self.ready(outlet).is_empty()
    }

    fn host_number(&self, origin: &Origin) -> HostNumber {
        self.number_of(origin)
    }

    async fn ready_outlets(&self) -> Result<Vec<Outlet>> {
        let content = self.content();
        let ready = content.jobs.values().filter(|entry| entry.job.state() == State::Ready);
        let mut outlets: Vec<_> = ready.map(|entry| self.outlet(&entry.job)).collect();
        outlets.sort();
        outlets.dedup();
        Ok(outlets)
    }

    /// Call by call: each is one step after the one before, and at most a tenth of a second of them was left over.
    async fn allow(&self, topic: &Topic, rate: CallRate, want: usize) -> Result<Allowed> {
        let (now, step) = (self.clock.now_micros(), 1e9 / f64::from(rate.as_milli()));
        let left_over = (f64::from(rate.as_milli()) / 10_000.0).floor().max(1.0) - 1.0;
        let mut content = self.content();
        let next = content.next_calls.entry(topic.clone()).or_insert(f64::MIN);
        // Since the start of the tests, so that a double is exact enough.
        let now = (now - 1_790_000_000_000_000) as f64;
        *next = next.clamp(now - left_over * step, now + step);
        let mut granted = 0;
        while granted < want && *next <= now + 0.05 {
            *next += step;
            granted += 1;
        }
        let left_us = (*next - now - 0.05).ceil().max(0.0);
        let next_in = std::time::Duration::from_micros(left_us as u64);
        Ok(Allowed { granted, next_in, rate, stored: (*next * 1e3) as i128 })
    }

    async fn give_back_calls(&self, topic: &Topic, allowed: Allowed, unused: usize) -> Result<()> {
        let mut content = self.content();
        let next = content.next_calls.get_mut(topic).expect("calls were taken");
        if (*next * 1e3) as i128 == allowed.stored {
            *next -= unused as f64 * 1e9 / f64::from(allowed.rate.as_milli());
        }
        Ok(())
    }

    async fn finish(&self, scope: &TopicFilter, jobs: Vec<FinishJob>) -> Result<Vec<Outcome<Finished>>> {
        let mut content = self.content();
        Ok(jobs.iter().map(|job| self.finish_one(&mut content, scope, job)).collect())
    }

    async fn apply(&self, steps: Vec<Step>) -> Result<Vec<Outcome<Applied>>> {
        Ok(steps.into_iter().map(|step| self.apply_one(step)).collect())
    }

    async fn get(&self, scope: &TopicFilter, id: &JobId) -> Result<Option<Job>> {
        Ok(self.content().find(scope, id).map(|entry| entry.job.clone()))
    }

    async fn promote(&self, limit: usize) -> Result<Promoted> {
        let now = self.clock.now();
        let mut content = self.content();
        let mut due: Vec<_> = content
            .jobs
            .values()
            .filter_map(|entry| Some((self.deadline(entry)?, entry.arrival, entry.job.id.clone())))
            .filter(|(deadline, _, _)| *deadline <= now)
            .collect();
        due.sort();
        let mut promoted = Promoted::default();
        for (deadline, _, id) in due.into_iter().take(limit) {
            let entry = content.jobs.get_mut(&id).expect("just seen");
            let topic = entry.job.topic.clone();
            let kind = self.expire(entry).expect("its deadline has passed");
            let deletes = entry.job.spec.expiry.is_some_and(|expiry| expiry.on_expiry == OnExpiry::Delete);
            let deleted = (kind == MoveKind::Expired && deletes).then(|| id.clone());
            if kind == MoveKind::Forgotten || deleted.is_some() {
                content.jobs.remove(&id);
            }
            let is_ready = content.jobs.get(&id).is_some_and(|entry| entry.job.state() == State::Ready);
            promoted.moves.push(Move { topic, kind, late: now.since(deadline), is_ready, deleted });
        }
        let next = content.jobs.values().filter_map(|entry| self.deadline(entry)).min();
        promoted.next_in = next.map(|next| next.since(now));
        promoted.more = next.is_some_and(|next| next <= now);
        Ok(promoted)
    }

    fn topic_config(&self, topic: &Topic) -> Arc<TopicConfig> {
        Arc::new(self.content().topics.get(topic).cloned().unwrap_or_default())
    }

    async fn topics(
        &self,
        scope: &TopicFilter,
        after: Option<&Topic>,
        limit: usize,
    ) -> Result<Vec<(Topic, TopicStats)>> {
        let content = self.content();
        let mut names: Vec<_> = content.jobs.values().map(|entry| entry.job.topic.clone()).collect();
        names.extend(content.topics.keys().cloned());
        names.sort();
        names.dedup();
        names.retain(|name| scope.allows(name));
        let page = names.into_iter().filter(|name| after.is_none_or(|after| name > after)).take(limit);
        Ok(page.filter_map(|name| Some((name.clone(), Self::stats(&content, &name)?))).collect())
    }

    async fn timeline(&self, topic: Option<&Topic>, span: Span) -> Result<Timeline> {
        let content = self.content();
        let jobs = || content.jobs.values().map(|entry| &entry.job);
        let jobs = || jobs().filter(|job| topic.is_none_or(|topic| job.topic == *topic));
        let mut totals = Totals::default();
        jobs().for_each(|job| *totals.count_mut(job.state()) += 1);
        let due: Vec<Minute> = jobs()
            .filter(|job| job.state() == State::Delayed)
            .map(|job| Minute::containing(job.due_at))
            .collect();
        let within = |(from, to)| due.iter().filter(|minute| (from..to).contains(*minute)).count() as u64;
        Ok(Timeline { counts: span.step_bounds().map(within).collect(), totals })
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicStats>> {
        Ok(Self::stats(&self.content(), topic))
    }

    async fn list(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage> {
        Ok(self.page(filter, order, after, limit))
    }

    async fn purge(&self, topic: &Topic, _: Option<PurgeCursor>, limit: usize) -> Result<PurgeSlice> {
        let mut content = self.content();
        let of_topic = content.jobs.values().filter(|entry| entry.job.topic == *topic);
        let ids: Vec<_> = of_topic.map(|entry| entry.job.id.clone()).take(limit).collect();
        ids.iter().for_each(|id| drop(content.jobs.remove(id)));
        let next = (ids.len() == limit).then(|| PurgeCursor(String::new()));
        Ok(PurgeSlice { deleted: ids.len(), next })
    }

    async fn records(&self) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(self.all_records()))
    }

    async fn put(&self, jobs: Vec<JobRecord>) -> Result<Vec<Put>> {
        let mut content = self.content();
        let put = |job: JobRecord| {
            let id = job.job.id.clone();
            let put = self.put_one(&mut content, job);
            if put == Put::Done {
                content.remembered.remove(&id);
            }
            put
        };
        Ok(jobs.into_iter().map(put).collect())
    }

    async fn put_remembered(&self, ids: Vec<RememberedId>) -> Result<Vec<Put>> {
        let mut content = self.content();
        let put = |given: RememberedId| match content.remembered.get(&given.id) {
            Some(stored) if *stored == given => Put::Exists,
            _ if given.until <= self.clock.now() => Put::Exists,
            Some(stored) if stored.ended_at >= given.ended_at => Put::Differs,
            Some(_) | None => {
                content.remembered.insert(given.id.clone(), given);
                Put::Done
            }
        };
        Ok(ids.into_iter().map(put).collect())
    }

    fn notices(&self) -> &dyn Notices {
        self
    }

    fn archive(&self) -> &dyn Archive {
        self
    }

    async fn verify(&self) -> Result<Verified> {
        let jobs = self.content().jobs.len() as u64;
        Ok(Verified { jobs, ..Verified::default() })
    }

    async fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl TopicStore for Naive {
    fn now(&self) -> Timestamp {
        self.clock.wall_now()
    }

    async fn topic_values(&self, topic: &Topic) -> Result<TopicValues> {
        Ok(TopicValues::default().with(&self.topic_config(topic)))
    }

    async fn update_topic(
        &self,
        topic: &Topic,
        expected: &TopicValues,
        values: TopicValues,
    ) -> Result<Updated> {
        let mut content = self.content();
        let before = content.topics.get(topic).cloned().unwrap_or_default();
        let stored = TopicValues::default().with(&before);
        if stored == values {
            return Ok(Updated::Already);
        }
        if stored != *expected {
            return Ok(Updated::Differs(stored));
        }
        let config = values.config().expect("sound");
        let restarts = config.restarts_delivery(&before);
        content.topics.insert(topic.clone(), config);
        content.topics.retain(|_, config| !config.is_default());
        let of_topic = content.jobs.values().filter(|entry| entry.job.topic == *topic);
        let outlets: Vec<Outlet> = of_topic.map(|entry| self.outlet(&entry.job)).collect();
        drop(content);
        if restarts {
            self.listener.topic_changed(topic);
            self.listener.ready(&Outlet::plain(topic.clone()));
            outlets.iter().for_each(|outlet| self.listener.ready(outlet));
        }
        Ok(Updated::Done)
    }
}
