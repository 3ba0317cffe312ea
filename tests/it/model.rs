//! The model test: the same random steps on an engine and on the naive model. Every result, every count and every
//! job must agree. Now and then the engine is closed or crashes, and is opened again with what it has; on Redis each
//! step uses one of three engines, as three processes would.
//!
//! `LINGER_MODEL_SEQUENCES` sets how many sequences run per engine, `LINGER_MODEL_SEED` the first seed. A
//! failure names its seed: run that one alone with `LINGER_MODEL_SEQUENCES=1`.

mod comparing;
mod lists;
mod unasked;
mod values;

use std::{sync::Arc, time::Duration};

use linger::{
    job::{Fingerprint, JobId, Outlet, Receipt, State, Topic, TopicFilter, TopicSettings},
    store::{
        AddJob, Added, Claim, FinishJob, ListedJob, Outcome, Patch, Release, Requeue, Steps, Store,
        TopicUpdates,
    },
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::{
    harness::{
        jobs::{self, DeleteRule, Pause, PausedOperations, Wait, millis, retry, topic},
        lists::in_state,
        naive::Naive,
        stores::{Engine, Recorder, Settings, StoreFixture},
        wait::until,
    },
    load::setting,
};

const STEPS: usize = 40;
/// Number of sequences that share one engine, each with its own topics and ids.
const PER_ENGINE: u64 = 30;

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

async fn run(engine: Engine) {
    let first = setting("LINGER_MODEL_SEED", rand::random::<u32>().into());
    let usual = match engine {
        Engine::Embedded | Engine::Redis => 60,
        // A Cluster differs in the location of its shards, not in its scripts.
        Engine::Naive | Engine::Cluster => 12,
    };
    let sequences = setting("LINGER_MODEL_SEQUENCES", usual);
    println!("{engine:?}: {sequences} sequences from LINGER_MODEL_SEED={first}");
    let mut fixture = open(engine, 0).await;
    for n in 0..sequences {
        if n % PER_ENGINE == PER_ENGINE - 1 {
            fixture.verify().await;
            fixture = open(engine, n / PER_ENGINE + 1).await;
        }
        Sequence::new(&mut fixture, first.wrapping_add(n)).run().await;
    }
    fixture.verify().await;
    println!("proof: what=model_{engine:?} runs={sequences} seed={first}");
}

/// The engine with this number: on one Redis, each second one has several shards.
async fn open(engine: Engine, number: u64) -> StoreFixture {
    let shards = (engine == Engine::Redis && number % 2 == 1).then_some(4);
    let mut fixture = StoreFixture::with(engine, Settings { shards, ..Settings::default() }).await;
    fixture.open_others(2).await;
    fixture
}

/// One random sequence. Its topics and ids contain its seed, so that jobs of earlier sequences do not matter. At its end,
/// all its topics are purged.
struct Sequence<'a> {
    seed: u64,
    random: SmallRng,
    fixture: &'a mut StoreFixture,
    model: Arc<Naive>,
    topics: Vec<Topic>,
    ids: Vec<JobId>,
    /// What the last step was about.
    touched: Vec<JobId>,
    hosts: Vec<String>,
    /// Every receipt of the sequence, so that stale ones are used, too.
    receipts: Vec<(JobId, Receipt)>,
    /// Jobs of which the engine does not know since when they are ready.
    ready_at_start: Vec<ListedJob>,
    log: Vec<String>,
}

impl<'a> Sequence<'a> {
    fn new(fixture: &'a mut StoreFixture, seed: u64) -> Self {
        let hosts: Vec<String> = (0..2).map(|n| format!("http://{n}.{seed}.example/")).collect();
        let origins = hosts.iter().map(|url| jobs::callback(url).url.origin().clone()).collect();
        Self {
            seed,
            random: SmallRng::seed_from_u64(seed),
            model: Naive::new(fixture.clock.clone(), Arc::new(Recorder::default()), None)
                .number_hosts_like(&*fixture.store, origins),
            fixture,
            topics: ["a", "b"].iter().map(|name| topic(&format!("{name}-{seed}"))).collect(),
            touched: Vec::new(),
            hosts,
            ids: (0..6).map(|n| jobs::id(&format!("{n}-{seed}"))).collect(),
            receipts: Vec::new(),
            ready_at_start: Vec::new(),
            log: Vec::new(),
        }
    }

    async fn run(mut self) {
        for _ in 0..STEPS {
            self.touched.clear();
            self.step().await;
            self.compare_some().await;
        }
        self.compare_all().await;
        self.fixture.verify().await;
        for name in self.topics.clone() {
            self.put(&name, TopicSettings::default(), PausedOperations::NONE).await;
            jobs::purge(&*self.fixture.store, &name, 100).await;
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
        let engine = self.random.random_range(0..3);
        self.fixture.switch(engine);
        match self.random.random_range(0..1_150) / 10 {
            112 | 113 => self.configure().await,
            114 => self.restart().await,
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
            93..96 => self.give_back().await,
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
        let count = if self.random.random_bool(0.2) { 3 } else { 1 };
        let mut batch = Vec::new();
        for _ in 0..count {
            batch.push(AddJob {
                id: self.id(),
                spec: self.spec(),
                topic: self.topic(),
                due: self.due(),
                fingerprint: Fingerprint([self.random.random_range(0..2); 16]),
                is_paused: self.random.random_bool(0.1),
                if_exists: self.if_exists(),
                body: jobs::body(["1", "{\"a\":[1,2]}", "\"text\""][self.random.random_range(0..3)]),
            });
        }
        self.touched.extend(batch.iter().map(|job| job.id.clone()));
        self.log_step(("add", &batch));
        let engine: Vec<Outcome<Added>> = self.fixture.store.add(batch.clone()).await.expect("adds");
        let model = self.model.add(batch).await.expect("adds");
        self.assert_equal(&engine, &model, "add");
    }

    /// The engine may choose any ready jobs, because several shards interleave, but it must return as many as there are.
    async fn reserve(&mut self) {
        // An engine may show an expired job as delayed once a pop has passed it over.
        jobs::promote(&*self.fixture.store).await;
        jobs::promote(&*self.model).await;
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
            let used = self.receipts.iter().any(|(_, receipt)| *receipt == reservation.receipt);
            self.assert_equal(&used, &false, "a receipt was used twice");
            self.assert_equal(&ready.contains(&id), &true, "a job that is not ready was reserved");
            self.touched.push(id.clone());
            let claim = (reservation.claim, &claims[reservation.claim]);
            let mut model = self.model.grant(&id, &reservation.receipt, claim);
            if self.ready_at_start.iter().any(|listed| listed.job.id == id) {
                assert!(reservation.waited <= reservation.late, "{reservation:?}");
                model.waited = reservation.waited;
            }
            self.receipts.push((id, reservation.receipt.clone()));
            self.assert_equal(&reservation, &model, "reserve");
        }
    }

    async fn advance(&mut self) {
        // Clocks do not stand on whole milliseconds, and deadlines do.
        let micros = if self.random.random() { self.random.random_range(0..1_000) } else { 0 };
        let time = millis([1, 999, 5_000, 30_000, 100_000][self.random.random_range(0..5)])
            + Duration::from_micros(micros);
        self.log_step(("advance", time));
        self.fixture.advance_and_promote(time).await;
        jobs::promote(&*self.model).await;
    }

    async fn finish(&mut self) {
        let scope = self.scope();
        let (id, receipt) = self.receipt();
        let receipt = if self.random.random_bool(0.2) { None } else { Some(receipt) };
        self.touched.push(id.clone());
        let request = vec![FinishJob { id, receipt }];
        self.log_step(("finish", &scope, &request));
        let engine = self.fixture.store.finish(&scope, request.clone()).await.expect("answers");
        let model = self.model.finish(&scope, request).await.expect("answers");
        self.assert_equal(&engine, &model, "finish");
    }

    async fn release(&mut self) {
        let scope = self.scope();
        let (id, receipt) = self.receipt();
        self.touched.push(id.clone());
        let release = Release { due: self.sometimes(Self::due), reason: self.reason() };
        if self.random.random_bool(0.2) {
            return self.revoke(scope, id, release).await;
        }
        self.log_step(("release", &scope, &id, &release));
        let engine =
            self.fixture.store.release(&scope, &id, &receipt, release.clone()).await.expect("answers");
        let model = self.model.release(&scope, &id, &receipt, release).await.expect("answers");
        self.assert_equal(&engine, &model, "release");
    }

    async fn touch(&mut self) {
        let scope = self.scope();
        let (id, receipt) = self.receipt();
        self.touched.push(id.clone());
        let touch = self.touch_values();
        self.log_step(("touch", &scope, &id, &touch));
        let engine = self.fixture.store.touch(&scope, &id, &receipt, touch.clone()).await.expect("answers");
        let model = self.model.touch(&scope, &id, &receipt, touch).await.expect("answers");
        self.assert_equal(&engine, &model, "touch");
    }

    async fn bury(&mut self) {
        let scope = self.scope();
        let (id, receipt) = self.receipt();
        self.touched.push(id.clone());
        let reason = self.reason();
        self.log_step(("bury", &scope, &id, &reason));
        let engine = self.fixture.store.bury(&scope, &id, &receipt, reason.clone()).await.expect("answers");
        let model = self.model.bury(&scope, &id, &receipt, reason).await.expect("answers");
        self.assert_equal(&engine, &model, "bury");
    }

    async fn requeue(&mut self) {
        let scope = self.scope();
        let (id, by) = (self.id(), self.sometimes(Self::actor));
        let requeue = Requeue { due: self.due(), expiry: self.expiry_change() };
        self.touched.push(id.clone());
        self.log_step(("requeue", &scope, &id, requeue, &by));
        let engine = self.fixture.store.requeue(&scope, &id, requeue, by.as_ref()).await.expect("answers");
        let model = self.model.requeue(&scope, &id, requeue, by.as_ref()).await.expect("answers");
        self.assert_equal(&engine, &model, "requeue");
    }

    async fn patch(&mut self) {
        let scope = self.scope();
        let id = self.id();
        self.touched.push(id.clone());
        let patch = Patch {
            due: self.sometimes(Self::due),
            ttr: self.sometimes(Self::ttr),
            max_attempts: self.sometimes(|sequence| sequence.random.random_range(0..4)),
            retry: self.sometimes(|sequence| retry(&[sequence.random.random_range(0..40)])),
            expiry: self.expiry_change(),
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
        self.touched.extend(ids.iter().cloned());
        let rule =
            if self.random.random_ratio(1, 3) { DeleteRule::UnlessReserved } else { DeleteRule::AnyState };
        self.log_step(("delete", &scope, &ids, rule));
        let engine = self.fixture.store.delete(&scope, ids.clone(), rule).await.expect("answers");
        let model = self.model.delete(&scope, ids, rule).await.expect("answers");
        self.assert_equal(&engine, &model, "delete");
    }

    async fn configure(&mut self) {
        let (name, pause) =
            (self.topic(), PausedOperations { delivery: self.random.random(), intake: self.random.random() });
        let settings = TopicSettings {
            ttr: self.sometimes(Self::ttr),
            max_attempts: self.sometimes(|sequence| sequence.random.random_range(0..4)),
            retry: self.sometimes(|sequence| retry(&[sequence.random.random_range(0..40)])),
            require_receipt: self.random.random(),
            ..TopicSettings::default()
        };
        self.log_step(("configure", &name, &settings, pause));
        self.put(&name, settings, pause).await;
    }

    /// Every engine knows soon what is set for a topic.
    async fn put(&mut self, name: &Topic, settings: TopicSettings, set: PausedOperations) {
        let clear = PausedOperations { delivery: !set.delivery, intake: !set.intake };
        self.fixture.store.put_settings(name, settings.clone()).await.expect("is set");
        self.fixture.store.pause(name, set, Pause::ENDLESS).await.expect("pauses");
        let engine = self.fixture.store.resume(name, clear).await.expect("resumes");
        self.model.put_settings(name, settings).await.expect("is set");
        self.model.pause(name, set, Pause::ENDLESS).await.expect("pauses");
        let model = self.model.resume(name, clear).await.expect("resumes");
        self.assert_equal(&engine, &model, "a pause");
        let config = self.model.topic_config(name);
        until(|| self.fixture.all().all(|store| store.topic_config(name) == config)).await;
    }

    /// Closes the engine, or lets it crash, and opens it again.
    async fn restart(&mut self) {
        let crashes = self.random.random();
        self.log_step(("restart", crashes));
        if crashes {
            self.fixture.crash().await;
        } else {
            self.fixture.reopen().await;
        }
        // A start moves the clock to the next millisecond if the store has been there, and leaves it to the first
        // promotion to find jobs that were due before.
        jobs::promote(&*self.fixture.store).await;
        jobs::promote(&*self.model).await;
        if !self.fixture.keeps_ready_times() {
            self.ready_at_start = in_state(&*self.model, State::Ready).await;
        }
        self.compare_all().await;
    }
}
