//! Schedules over the engines, by an injected clock: several processes on one store, each with a queue of its own.

/// Makes a test of each case for each engine that several processes may serve.
macro_rules! on_engines {
    ($($case:ident),* $(,)?) => {
        $(mod $case {
            #[tokio::test]
            async fn embedded() {
                super::$case(super::Engine::Embedded).await;
            }

            #[tokio::test]
            async fn redis() {
                super::$case(super::Engine::Redis).await;
            }
        })*
    };
}

mod program;
mod rules;
mod simulation;
mod upcoming;

use std::{sync::Arc, time::Duration};

use linger::{
    http::read_template,
    job::{
        JobId, ScheduleName,
        schedule::{RecurrenceFields, ScheduleFields, ScheduleSpec},
    },
    metrics::Metrics,
    queue::{Error, Limits, Queue, ScheduleView, StoreEvents},
    store::{ScheduleChange, ScheduleContent},
};

use crate::harness::{
    failing::FailingStore,
    jobs::*,
    stores::{Engine, StoreFixture},
};

/// Processes that serve one store.
struct Fleet {
    fixture: StoreFixture,
    processes: Vec<Process>,
}

/// A process: its calls of the store may fail.
struct Process {
    store: Arc<FailingStore>,
    queue: Arc<Queue>,
    metrics: Metrics,
}

impl Fleet {
    async fn new(engine: Engine, processes: usize) -> Self {
        Self::with(engine, processes, Limits::default()).await
    }

    async fn with(engine: Engine, processes: usize, limits: Limits) -> Self {
        let mut fixture = StoreFixture::new(engine).await;
        fixture.open_others(processes - 1).await;
        let stores: Vec<_> = fixture.all().cloned().collect();
        // The embedded engine has one process: there, the queues share its store.
        let stores = stores.into_iter().cycle().take(processes);
        let start = |store| {
            let store = FailingStore::new(store);
            let (clock, metrics) = (fixture.clock.clone(), Metrics::new());
            let counted = metrics.queue.clone();
            let queue = Queue::new(store.clone(), &StoreEvents::default(), clock, limits.clone(), counted);
            Process { store, queue, metrics }
        };
        let processes = stores.map(start).collect();
        Self { fixture, processes }
    }

    fn queue(&self) -> &Arc<Queue> {
        &self.processes[0].queue
    }

    async fn put(&self, name: &str, asked: ScheduleFields) -> ScheduleView {
        self.try_put(name, asked).await.expect("is made")
    }

    async fn try_put(&self, name: &str, asked: ScheduleFields) -> Result<ScheduleView, Error> {
        let spec = ScheduleSpec::new(&asked).expect("valid");
        let template = read_template(&asked.template, &Limits::default()).expect("valid");
        let name = schedule_name(name);
        Ok(self.queue().put_schedule(ALL, &name, &spec, template, None).await?.0)
    }

    /// Changes what is stored of a schedule, past the checks of the queue.
    async fn rewrite(&self, name: &str, change: impl Fn(&mut ScheduleSpec)) {
        let (store, name) = (&self.fixture.store, schedule_name(name));
        let stored = store.schedule(&name).await.expect("reads").schedules.remove(0).content;
        let text = std::str::from_utf8(&stored.text).expect("is text");
        let (spec, state) = text.split_once('\n').expect("has two lines");
        let mut spec = ScheduleSpec::decode(spec).expect("is sound");
        change(&mut spec);
        let text = format!("{}\n{state}", spec.encode()).into();
        let content = Some(ScheduleContent { text, ..stored.clone() });
        let change = ScheduleChange { name, expected: Some(stored), content, run: None };
        one(store.change_schedules(vec![change]).await.expect("works")).expect("is replaced");
    }

    async fn get(&self, name: &str) -> ScheduleView {
        self.queue().schedule(ALL, &schedule_name(name)).await.expect("is there")
    }

    /// Advances the clock, and has all processes run what is due, at the same time.
    async fn advance(&self, time: Duration) {
        self.fixture.clock.advance(time);
        self.run_due().await;
    }

    async fn run_due(&self) {
        let runs = self.processes.iter().map(|process| process.queue.run_due_schedules(read_template));
        for ran in futures_util::future::join_all(runs).await {
            ran.expect("works");
        }
    }

    /// Reserves and finishes every ready job of topic `t`. Returns their ids without suffixes.
    async fn work(&self) -> Vec<String> {
        let store = &*self.fixture.store;
        promote(store).await;
        let mut ids = Vec::new();
        while let Some(reserved) = reserve_any(store).await {
            let ended = store.finish(ALL, finish(&reserved.job.id, &reserved.receipt)).await.expect("works");
            one(ended).expect("is reserved");
            ids.push(without_suffix(&reserved.job.id));
        }
        ids.sort();
        ids
    }
}

/// A schedule of jobs of topic `t`, by a pattern in UTC.
fn by_pattern(cron: &str) -> ScheduleFields {
    asked(RecurrenceFields { cron: Some(cron.to_owned()), ..RecurrenceFields::default() })
}

/// A schedule of jobs of topic `t`, at an interval.
fn every(interval: Duration) -> ScheduleFields {
    asked(RecurrenceFields { every: Some(interval), ..RecurrenceFields::default() })
}

fn asked(recurrence: RecurrenceFields) -> ScheduleFields {
    ScheduleFields {
        recurrence,
        jitter: None,
        overlap: None,
        missed: None,
        missed_within: None,
        topic: topic("t"),
        template: r#"{"topic":"t","body":1}"#.to_owned(),
    }
}

fn schedule_name(text: &str) -> ScheduleName {
    ScheduleName::parse(text).expect("valid")
}

/// The id of a run's job without the suffix by which a store chooses its place.
fn without_suffix(id: &JobId) -> String {
    id.as_str().rsplit_once('.').map_or_else(|| id.to_string(), |(stem, _)| stem.to_owned())
}
