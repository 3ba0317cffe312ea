//! One run: clients and faults until every job is added, then the end of all faults, rest, and judgement.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{body::Body, http::Request};
use linger::clock::Clock;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde_json::json;
use tokio::task::{JoinSet, yield_now};
use tower::ServiceExt;

use super::{
    client::{Client, Waits},
    operator::{change_settings, dead_letters, operate, requeue_all, resume_all},
    plan::Plan,
    producer::produce,
    worker::work,
    world::{World, name, topic_name},
};
use crate::checker::{Event, FinalJob, FinalState, Verdict, check};

/// How long the timer pauses at most after an error of the store, in microseconds.
const LONGEST_PAUSE_US: i64 = 2_000_000;
/// The longest time under faults.
const STEPS: usize = 400;
/// Many more turns than the tasks need to do what they can do at one moment.
const TURNS: usize = 2_000;
/// Enough turns for what no client waits for, such as the dispatch of a topic that was announced.
const TURNS_AT_ONCE: usize = 30;
/// How often the clock is moved until a run must have come to rest.
const ROUNDS: usize = 100;

/// The result of a run.
pub struct Report {
    pub verdict: Verdict,
    pub faults: u64,
    pub events: Vec<Event>,
    /// What was wrong beside the violations of the checker.
    pub problems: Vec<String>,
}

impl Report {
    /// Whether nothing was wrong.
    pub fn is_clean(&self) -> bool {
        self.verdict.violations.is_empty() && self.problems.is_empty()
    }
}

/// Runs a seed. The only thread is this one, and nothing waits for real time.
pub fn run(seed: u64) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut random = SmallRng::seed_from_u64(seed);
        let plan = Plan::new(&mut random);
        let world = World::new(plan);
        Run { world, random, producers: JoinSet::new(), workers: JoinSet::new() }.run().await
    })
}

struct Run {
    world: Arc<World>,
    random: SmallRng,
    producers: JoinSet<()>,
    /// The workers and the operator.
    workers: JoinSet<()>,
}

impl Run {
    async fn run(mut self) -> Report {
        let world = self.world.clone();
        let mut client = self.client();
        for topic in 0..world.plan.topics {
            change_settings(&mut client, topic, json!({})).await;
        }
        world.begin_faults(self.random.random());
        for _ in 0..world.plan.producers {
            let client = self.client();
            self.producers.spawn(produce(client));
        }
        for _ in 0..world.plan.workers {
            let client = self.client();
            self.workers.spawn(work(client));
        }
        let operator = self.client();
        self.workers.spawn(operate(operator));
        self.disturb().await;
        world.end_faults();
        let final_state = self.come_to_rest().await.map_err(|problem| world.report(problem)).ok();
        let verdict = check(&world.history, final_state.as_ref());
        Report {
            verdict,
            faults: world.faults.count(),
            events: world.history.events().clone(),
            problems: world.problems(),
        }
    }

    fn client(&mut self) -> Client {
        Client::new(&self.world, self.random.random())
    }

    /// Lets the clients work under faults until every job is added, and a while longer.
    async fn disturb(&mut self) {
        let mut left = self.random.random_range(20..80);
        for _ in 0..STEPS {
            match self.random.random_range(0..100) {
                0..60 => turns(self.random.random_range(1..6)).await,
                60..75 => self.advance(2_000),
                75..92 => self.advance(700_000),
                _ => self.world.faults.release_one(&mut self.random),
            }
            self.join();
            if self.producers.is_empty() {
                left -= 1;
                if left == 0 {
                    return;
                }
            }
        }
    }

    /// Waits until no job is left but dead letters, twice if these are requeued, and ends the clients and the queue.
    async fn come_to_rest(&mut self) -> Result<FinalState, String> {
        let mut client = self.client();
        // A pause that hung takes effect first.
        self.all_answered().await?;
        resume_all(&mut client).await;
        self.rest().await?;
        if self.random.random_bool(0.5) {
            for topic in self.topics_with_dead().await {
                let dead = dead_letters(&mut client, topic).await;
                requeue_all(&mut client, topic, &dead).await;
            }
            self.rest().await?;
        }
        self.world.end();
        self.end_polls().await?;
        self.world.check_reservations()?;
        let mut final_state = FinalState::default();
        for topic in self.topics_with_dead().await {
            final_state.counts.1 += self.world.counts(topic).await.1;
            for (job, attempts) in dead_letters(&mut client, topic).await {
                final_state.dead.insert(name(job));
                final_state.jobs.insert(name(job), FinalJob { dead: true, attempts });
            }
        }
        if self.random.random_bool(0.3) {
            self.close(client).await?;
        }
        Ok(final_state)
    }

    async fn topics_with_dead(&self) -> Vec<usize> {
        let mut found = Vec::new();
        for topic in 0..self.world.plan.topics {
            if self.world.counts(topic).await.1 > 0 {
                found.push(topic);
            }
        }
        found
    }

    /// Moves the clock until every job is finished or dead, and producers and operator are done.
    async fn rest(&mut self) -> Result<(), String> {
        let (mut live, began) = (0, self.world.clock.now_micros());
        for _ in 0..ROUNDS {
            self.all_answered().await?;
            live = 0;
            for topic in 0..self.world.plan.topics {
                live += self.world.counts(topic).await.0;
            }
            let busy = self.workers.len() > self.world.plan.workers;
            if live == 0 && self.producers.is_empty() && !busy {
                return Ok(());
            }
            let recovered = self.world.clock.now_micros() > began + LONGEST_PAUSE_US;
            if let Some(missed) = self.world.missed().await.filter(|_| recovered) {
                return Err(missed);
            }
            self.advance(2_000_000);
        }
        Err(format!("{live} jobs and {} clients did not come to rest", self.producers.len()))
    }

    /// Moves the clock until the workers are done, who only wait for jobs now.
    async fn end_polls(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS {
            self.all_answered().await?;
            if self.workers.is_empty() {
                return Ok(());
            }
            self.advance(2_000_000);
        }
        Err(format!("{} polls did not end", self.workers.len()))
    }

    /// Waits, without moving the clock, until all calls are answered that do not wait for jobs.
    async fn all_answered(&mut self) -> Result<(), String> {
        for _ in 0..TURNS / TURNS_AT_ONCE {
            turns(TURNS_AT_ONCE).await;
            self.join();
            if self.world.in_flight.load(Ordering::Relaxed) == 0 {
                return Ok(());
            }
        }
        Err("a call is not answered although the store answers".to_owned())
    }

    /// Closes the queue while a client leaves with a job and another one waits for one.
    async fn close(&mut self, mut client: Client) -> Result<(), String> {
        let (topic, router) = (topic_name(0), self.world.router.clone());
        let add = json!({ "topic": topic });
        client.call(Waits::No, "POST", "/jobs", Some(&add)).await;
        let pop = |wait| {
            let request =
                Request::get(format!("/topics/{topic}/pop?wait={wait}")).header("host", "localhost");
            router.clone().oneshot(request.body(Body::empty()).expect("a valid request"))
        };
        let unread = pop("0s").await.expect("the router never fails");
        let parked = tokio::spawn(pop("20s"));
        turns(TURNS_AT_ONCE).await;
        let world = self.world.clone();
        let closing = tokio::spawn(async move {
            let closed = world.queue.close().await;
            closed.map(|()| world.check_reservations())
        });
        drop(unread);
        turns(TURNS_AT_ONCE).await;
        if !closing.is_finished() || !parked.is_finished() {
            return Err("the queue did not close, or a poll still waits".to_owned());
        }
        closing.await.expect("does not panic").map_err(|error| error.to_string())?
    }

    /// Moves the clock by up to `most_us` microseconds.
    fn advance(&mut self, most_us: u64) {
        self.world.clock.advance(Duration::from_micros(self.random.random_range(1..=most_us)));
    }

    /// Takes note of the clients that have ended.
    fn join(&mut self) {
        for clients in [&mut self.producers, &mut self.workers] {
            while let Some(ended) = clients.try_join_next() {
                if let Err(error) = ended {
                    self.world.report(format!("a client failed: {error}"));
                }
            }
        }
    }
}

/// Lets every other task run so often.
async fn turns(count: usize) {
    for _ in 0..count {
        yield_now().await;
    }
}
