//! What is compared after a step, and at the end.

use linger::{
    job::{Job, JobId, State, Topic},
    store::{JobFilter, ListPosition, Minute, Order, Span, Store, TopicStats},
};
use rand::RngExt;

use super::Sequence;
use crate::harness::jobs::ALL;

impl Sequence<'_> {
    /// Compares the jobs that the step was about, another one, and one of the summaries. What it leaves out is compared
    /// at the end at the latest.
    pub(super) async fn compare_some(&mut self) {
        let any = self.id();
        self.touched.push(any);
        for id in &self.touched {
            self.compare_job(id).await;
        }
        let name = self.topic();
        match self.random.random_range(0..3) {
            0 => self.compare_topic(&name).await,
            1 => self.compare_timeline(&name).await,
            _ => self.compare_dead_letters(&name).await,
        }
    }

    /// Compares every job and every count.
    pub(super) async fn compare_all(&mut self) {
        for id in &self.ids {
            self.compare_job(id).await;
        }
        for name in self.topics.clone() {
            self.compare_topic(&name).await;
            self.compare_timeline(&name).await;
            self.compare_dead_letters(&name).await;
        }
    }

    async fn compare_job(&self, id: &JobId) {
        let engine: Option<Job> = self.fixture.store.get(ALL, id).await.expect("gets");
        let model = self.model.get(ALL, id).await.expect("gets");
        self.assert_equal(&engine, &model, "a job");
    }

    async fn compare_topic(&self, name: &Topic) {
        let engine: Option<TopicStats> = self.fixture.store.topic(name).await.expect("reads");
        let model = self.model.topic(name).await.expect("reads");
        self.assert_equal(&engine, &model, "a topic");
    }

    async fn compare_timeline(&self, name: &Topic) {
        let span = Span::new(Minute::containing(self.fixture.now()), 1, 3).expect("is short");
        let engine = self.fixture.store.timeline(Some(name), span).await.expect("reads");
        let model = self.model.timeline(Some(name), span).await.expect("reads");
        self.assert_equal(&engine, &model, "a timeline");
    }

    async fn compare_dead_letters(&mut self, name: &Topic) {
        let filter = JobFilter { topic: Some(name.clone()), ..JobFilter::all(State::Dead) };
        let behind = ListPosition::behind_dead_letter(self.fixture.now(), &self.id());
        for after in [None, Some(&behind)] {
            let engine = self.fixture.store.list(&filter, Order::Ascending, after, 4).await.expect("lists");
            let model = self.model.list(&filter, Order::Ascending, after, 4).await.expect("lists");
            self.assert_equal(&engine.jobs, &model.jobs, "the dead letters");
            assert!(engine.jobs.iter().all(|listed| listed.job.state() == State::Dead));
        }
    }
}
