//! The model test: the same random steps on an engine and on the naive model. Every result, every count and every
//! job must agree.
//!
//! `LINGER_MODEL_SEQUENCES` sets how many sequences run per engine, `LINGER_MODEL_SEED` the first seed. A
//! failure names its seed: run that one alone with `LINGER_MODEL_SEQUENCES=1`.

mod lists;
mod values;

use std::sync::Arc;

use linger::{
    job::{Fingerprint, Job, JobId, Outlet, Receipt, State, Topic, TopicFilter},
    store::{
        AddJob, Added, Claim, FinishJob, JobFilter, ListPosition, Minute, Order, Patch, Release, Span, Store,
        TopicStats,
    },
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::harness::{
    jobs::{self, ALL, Wait, delay, millis, retry, topic},
    naive::Naive,
    stores::{Engine, Recorder, StoreFixture},
};

const STEPS: usize = 40;
/// Number of sequences that share one engine, each with its own topics and ids.
const PER_ENGINE: u64 = 200;

/// Checks the test itself by comparing the model with the model.
#[tokio::test]
async fn the_model_behaves_like_itself() {
    run(Engine::Naive).await;
}

#[tokio::test]
async fn the_embedded_engine_behaves_like_the_model() {
    run(Engine::Embedded).await;
}

#[tokio::test]
async fn the_redis_engine_behaves_like_the_model() {
    run(Engine::Redis).await;
}

#[tokio::test]
async fn the_redis_engine_behaves_like_the_model_on_a_cluster() {
    run(Engine::Cluster).await;
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

async fn run(engine: Engine) {
    let first = setting("LINGER_MODEL_SEED", rand::random::<u32>().into());
    // A Cluster differs in the location of its shards, not in its scripts.
    let usual = if engine == Engine::Cluster { 20 } else { 1_000 };
    let sequences = setting("LINGER_MODEL_SEQUENCES", usual);
    println!("{engine:?}: {sequences} sequences from LINGER_MODEL_SEED={first}");
    let mut fixture = StoreFixture::new(engine).await;
    for n in 0..sequences {
        if n % PER_ENGINE == PER_ENGINE - 1 {
            fixture.verify().await;
            fixture = StoreFixture::new(engine).await;
        } else if n % 20 == 19 {
            fixture.reopen().await;
        }
        Sequence::new(&fixture, first.wrapping_add(n)).run().await;
    }
    fixture.verify().await;
    println!("proof: what=model_{engine:?} runs={sequences} violations=0 seed={first}");
}

/// One random sequence. Its topics and ids contain its seed, so that jobs of earlier sequences do not matter. At its end,
/// all its topics are purged.
struct Sequence<'a> {
    seed: u64,
    random: SmallRng,
    fixture: &'a StoreFixture,
    model: Arc<Naive>,
    topics: Vec<Topic>,
    ids: Vec<JobId>,
    hosts: Vec<String>,
    /// Every receipt of the sequence, so that stale ones are used, too.
    receipts: Vec<(JobId, Receipt)>,
    log: Vec<String>,
}

impl<'a> Sequence<'a> {
    fn new(fixture: &'a StoreFixture, seed: u64) -> Self {
        Self {
            seed,
            random: SmallRng::seed_from_u64(seed),
            fixture,
            model: Naive::new(fixture.clock.clone(), Arc::new(Recorder::default()), None)
                .name_hosts_like(fixture.store.clone()),
            topics: ["a", "b"].iter().map(|name| topic(&format!("{name}-{seed}"))).collect(),
            hosts: (0..2).map(|n| format!("http://{n}.{seed}.example/")).collect(),
            ids: (0..6).map(|n| jobs::id(&format!("{n}-{seed}"))).collect(),
            receipts: Vec::new(),
            log: Vec::new(),
        }
    }

    async fn run(mut self) {
        for _ in 0..STEPS {
            self.step().await;
            self.compare().await;
        }
        self.fixture.verify().await;
        for name in self.topics.clone() {
            let mut cursor = None;
            loop {
                let slice = self.fixture.store.purge(&name, cursor, 100).await.expect("purges");
                cursor = slice.next;
                if cursor.is_none() {
                    break;
                }
            }
            let left = self.fixture.store.topic(&name).await.expect("reads");
            self.assert_equal(&left, &None, "after the purge");
        }
    }

    fn assert_equal<T: PartialEq + std::fmt::Debug>(&self, engine: &T, model: &T, what: &str) {
        assert!(
            engine == model,
            "LINGER_MODEL_SEED={} LINGER_MODEL_SEQUENCES=1: {what}\n engine: {engine:?}\n  model: {model:?}\n  steps:\n    {}",
            self.seed,
            self.log.join("\n    "),
        );
    }

    fn log_step(&mut self, step: impl std::fmt::Debug) {
        self.log.push(format!("{step:?}"));
    }

    async fn step(&mut self) {
        match self.random.random_range(0..112) {
            0..22 => self.add().await,
            22..44 => self.reserve().await,
            44..54 => self.advance().await,
            54..62 => self.finish().await,
            62..70 => self.release().await,
            70..75 => self.touch().await,
            75..79 => self.bury().await,
            79..83 => self.requeue().await,
            83..89 => self.patch().await,
            89..93 => self.delete().await,
            93..96 => self.cancel().await,
            96..103 => self.list().await,
            _ => self.change().await,
        }
    }

    /// Mostly every topic, otherwise one of the sequence's topics, by its name or its prefix, or neither of them.
    fn scope(&mut self) -> TopicFilter {
        match self.random.random_range(0..10) {
            0 => jobs::only(&[]),
            1 => jobs::only(&["a-*", "c"]),
            2 => jobs::only(&["c*", self.topics[1].as_str()]),
            _ => TopicFilter::ALL,
        }
    }

    async fn add(&mut self) {
        let steps: Vec<u64> =
            (0..self.random.random_range(0..3)).map(|_| self.random.random_range(0..40)).collect();
        let count = if self.random.random_bool(0.2) { 3 } else { 1 };
        let mut batch = Vec::new();
        for _ in 0..count {
            batch.push(AddJob {
                id: self.id(),
                topic: self.topic(),
                due: self.due(),
                ttr: self.ttr(),
                max_attempts: self.random.random_range(0..4),
                retry: retry(&steps),
                require_receipt: self.random.random_bool(0.3),
                callback: self.host().map(|url| jobs::callback(&url)),
                fingerprint: Fingerprint([self.random.random_range(0..2); 16]),
                body: jobs::body(["1", "{\"a\":[1,2]}", "\"text\""][self.random.random_range(0..3)]),
            });
        }
        self.log_step(("add", &batch));
        let engine: Vec<Added> = self.fixture.store.add(batch.clone()).await.expect("adds");
        let model = self.model.add(batch).await.expect("adds");
        self.assert_equal(&engine, &model, "add");
    }

    /// The engine may choose any ready jobs, because shards interleave, but it must return as many as there are.
    async fn reserve(&mut self) {
        let (name, host) = (self.topic(), self.host());
        let host = host.map(|url| jobs::outlet_to(&*self.fixture.store, name.as_str(), &url));
        let outlet = host.unwrap_or(Outlet::plain(name));
        let claims: Vec<Claim> = (0..self.random.random_range(1..4)).map(|_| self.claim()).collect();
        self.log_step(("reserve", &outlet, &claims));
        let ready = self.model.ready(&outlet);
        let may_have_ready = self.fixture.store.may_have_ready(&outlet);
        self.assert_equal(
            &(may_have_ready || ready.is_empty()),
            &true,
            "may_have_ready is false for an outlet with ready jobs",
        );
        let engine = self.fixture.store.reserve(&outlet, &claims, Wait::No).await.expect("reserves");
        self.assert_equal(&engine.len(), &ready.len().min(claims.len()), "the number of reserved jobs");
        self.assert_equal(
            &engine.is_sorted_by(|one, next| one.claim < next.claim),
            &true,
            "a job for each claim",
        );
        for reservation in engine {
            let id = reservation.job.id.clone();
            assert!(
                self.receipts.iter().all(|(_, receipt)| *receipt != reservation.receipt),
                "a receipt was used twice"
            );
            self.assert_equal(&ready.contains(&id), &true, "a job that is not ready was reserved");
            let claim = (reservation.claim, &claims[reservation.claim]);
            let model = self.model.grant(&id, &reservation.receipt, claim);
            self.receipts.push((id, reservation.receipt.clone()));
            self.assert_equal(&reservation, &model, "reserve");
        }
    }

    async fn advance(&mut self) {
        let time = millis([1, 999, 5_000, 30_000, 100_000][self.random.random_range(0..5)]);
        self.log_step(("advance", time));
        self.fixture.advance_and_promote(time).await;
        jobs::promote(&*self.model).await;
    }

    async fn finish(&mut self) {
        let scope = self.scope();
        let (id, receipt) = self.receipt();
        let receipt = if self.random.random_bool(0.2) { None } else { Some(receipt) };
        let request = vec![FinishJob { id, receipt }];
        self.log_step(("finish", &scope, &request));
        let engine = self.fixture.store.finish(&scope, request.clone()).await.expect("answers");
        let model = self.model.finish(&scope, request).await.expect("answers");
        self.assert_equal(&engine, &model, "finish");
    }

    async fn release(&mut self) {
        let scope = self.scope();
        let (id, receipt) = self.receipt();
        let release =
            Release { delay: self.sometimes(|sequence| delay(sequence.wait())), reason: self.reason() };
        self.log_step(("release", &scope, &id, &release));
        let engine =
            self.fixture.store.release(&scope, &id, &receipt, release.clone()).await.expect("answers");
        let model = self.model.release(&scope, &id, &receipt, release).await.expect("answers");
        self.assert_equal(&engine, &model, "release");
    }

    async fn touch(&mut self) {
        let scope = self.scope();
        let (id, receipt) = self.receipt();
        let ttr = self.sometimes(Self::ttr);
        self.log_step(("touch", &scope, &id, ttr));
        let engine = self.fixture.store.touch(&scope, &id, &receipt, ttr).await.expect("answers");
        let model = self.model.touch(&scope, &id, &receipt, ttr).await.expect("answers");
        self.assert_equal(&engine, &model, "touch");
    }

    async fn bury(&mut self) {
        let scope = self.scope();
        let (id, receipt) = self.receipt();
        let reason = self.reason();
        self.log_step(("bury", &scope, &id, &reason));
        let engine = self.fixture.store.bury(&scope, &id, &receipt, reason.clone()).await.expect("answers");
        let model = self.model.bury(&scope, &id, &receipt, reason).await.expect("answers");
        self.assert_equal(&engine, &model, "bury");
    }

    async fn requeue(&mut self) {
        let scope = self.scope();
        let (id, wait, by) = (self.id(), delay(self.wait()), self.sometimes(Self::actor));
        self.log_step(("requeue", &scope, &id, wait, &by));
        let engine = self.fixture.store.requeue(&scope, &id, wait, by.as_ref()).await.expect("answers");
        let model = self.model.requeue(&scope, &id, wait, by.as_ref()).await.expect("answers");
        self.assert_equal(&engine, &model, "requeue");
    }

    async fn patch(&mut self) {
        let scope = self.scope();
        let id = self.id();
        let patch = Patch {
            due: self.sometimes(Self::due),
            ttr: self.sometimes(Self::ttr),
            max_attempts: self.sometimes(|sequence| sequence.random.random_range(0..4)),
            retry: self.sometimes(|sequence| retry(&[sequence.random.random_range(0..40)])),
            body: self.sometimes(|_| jobs::body("[\"patched\"]")),
        };
        let by = self.sometimes(Self::actor);
        self.log_step(("patch", &scope, &id, &patch, &by));
        let engine =
            self.fixture.store.patch(&scope, &id, patch.clone(), by.as_ref()).await.expect("answers");
        let model = self.model.patch(&scope, &id, patch, by.as_ref()).await.expect("answers");
        self.assert_equal(&engine, &model, "patch");
    }

    async fn delete(&mut self) {
        let scope = self.scope();
        let ids = vec![self.id(), self.id()];
        self.log_step(("delete", &scope, &ids));
        let engine = self.fixture.store.delete(&scope, ids.clone()).await.expect("answers");
        let model = self.model.delete(&scope, ids).await.expect("answers");
        self.assert_equal(&engine, &model, "delete");
    }

    async fn cancel(&mut self) {
        let reservation = self.receipt();
        self.log_step(("cancel", &reservation.0));
        self.fixture.store.cancel(vec![reservation.clone()]).await.expect("cancels");
        self.model.cancel(vec![reservation]).await.expect("cancels");
    }

    /// Compares every job and every count.
    async fn compare(&mut self) {
        for id in &self.ids {
            let engine: Option<Job> = self.fixture.store.get(ALL, id).await.expect("gets");
            let model = self.model.get(ALL, id).await.expect("gets");
            self.assert_equal(&engine, &model, "a job");
        }
        for name in &self.topics {
            let engine: Option<TopicStats> = self.fixture.store.topic(name).await.expect("reads");
            let model = self.model.topic(name).await.expect("reads");
            self.assert_equal(&engine, &model, "a topic");
        }
        let name = self.topic();
        let span = Span::new(Minute::containing(self.fixture.now()), 1, 3).expect("is short");
        let engine = self.fixture.store.timeline(Some(&name), span).await.expect("reads");
        let model = self.model.timeline(Some(&name), span).await.expect("reads");
        self.assert_equal(&engine, &model, "a timeline");
        let filter = JobFilter { topic: Some(name), ..JobFilter::all(State::Dead) };
        let behind = ListPosition::behind_dead_letter(self.fixture.now(), &self.id());
        for after in [None, Some(&behind)] {
            let engine = self.fixture.store.list(&filter, Order::Ascending, after, 4).await.expect("lists");
            let model = self.model.list(&filter, Order::Ascending, after, 4).await.expect("lists");
            self.assert_equal(&engine.jobs, &model.jobs, "the dead letters");
            assert!(engine.jobs.iter().all(|listed| listed.job.state == State::Dead));
        }
    }
}
