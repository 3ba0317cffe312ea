//! A client of the server: it sends calls, may leave before the response, and records what it learns.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use axum::{body::Body, http::Request};
use http_body_util::BodyExt;
use linger::clock::Clock;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde_json::Value;
use tower::ServiceExt;

use super::world::World;
use crate::checker::{Action, Outcome};

/// A response that was read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// `null` if there is no body.
    pub json: Value,
}

/// Whether a call is answered as soon as the store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    No,
    ForJobs,
}

pub struct Client {
    pub world: Arc<World>,
    pub random: SmallRng,
}

impl Client {
    pub fn new(world: &Arc<World>, seed: u64) -> Self {
        Self { world: world.clone(), random: SmallRng::seed_from_u64(seed) }
    }

    /// A random time within a range of milliseconds. Nothing happens on whole milliseconds only.
    pub fn time(&mut self, from_ms: u64, to_ms: u64) -> Duration {
        Duration::from_micros(self.random.random_range(from_ms * 1_000..=to_ms * 1_000))
    }

    pub async fn sleep(&mut self, from_ms: u64, to_ms: u64) {
        let time = self.time(from_ms, to_ms);
        self.world.clock.sleep(time).await;
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.random.random_bool(probability)
    }

    /// Sends a call. `None` means that its outcome is unknown: the server failed, or the client left.
    pub async fn call(
        &mut self,
        waits: Waits,
        method: &str,
        target: &str,
        json: Option<&Value>,
    ) -> Option<Answer> {
        let answer = self.answer(waits, method, target, json).await;
        answer.filter(|answer| answer.status < 500)
    }

    async fn answer(
        &mut self,
        waits: Waits,
        method: &str,
        target: &str,
        json: Option<&Value>,
    ) -> Option<Answer> {
        let body = json.map(Value::to_string).unwrap_or_default();
        let request = Request::builder().method(method).uri(target).header("host", "localhost");
        let request = request.header("content-type", "application/json").body(Body::from(body));
        let response = self.world.router.clone().oneshot(request.expect("a valid request"));
        let leaves = !self.world.is_draining() && self.chance(self.world.plan.leaving);
        let in_flight = InFlight::new(&self.world, waits);
        let response = if leaves {
            let response = self.response_before_leaving(response).await?;
            drop(in_flight);
            match self.random.random_range(0..10) {
                // It leaves without having read the body.
                0..3 => return None,
                // It is slow to read it.
                3..6 => self.sleep(0, 3_000).await,
                _ => {}
            }
            response
        } else {
            let response = response.await.expect("the router never fails");
            drop(in_flight);
            response
        };
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.ok()?.to_bytes();
        let json = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes).expect("every body is JSON")
        };
        Some(Answer { status, json })
    }

    /// The response, unless the client leaves before: after a time, or when something happens for the n-th time.
    async fn response_before_leaving<R: std::fmt::Debug, E: std::fmt::Debug>(
        &mut self,
        response: impl Future<Output = Result<R, E>>,
    ) -> Option<R> {
        let (mut polls, time) = (self.random.random_range(1..6), self.time(0, 4_000));
        let clock = self.world.clock.clone();
        let (mut response, mut time) = (pin!(response), pin!(clock.sleep(time)));
        poll_fn(|context| {
            if polls == 0 || time.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            polls -= 1;
            response.as_mut().poll(context).map(|response| Some(response.expect("the router never fails")))
        })
        .await
    }

    /// Sends a call for a job until its outcome is known, and records every sending. Returns the outcome of the last one:
    /// a client may also give up.
    pub async fn call_until_known(
        &mut self,
        job: usize,
        method: &str,
        target: &str,
        json: Option<&Value>,
        action: Action,
    ) -> Outcome {
        loop {
            let sent = self.world.now();
            let answer = self.call(Waits::No, method, target, json).await;
            let outcome = self.outcome(target, answer.as_ref());
            self.world.record(job, sent, action.clone(), outcome);
            let gives_up = !self.world.is_draining() && self.chance(0.2);
            if outcome != Outcome::Unknown || gives_up {
                return outcome;
            }
            self.sleep(0, 300).await;
        }
    }

    pub fn outcome(&self, target: &str, answer: Option<&Answer>) -> Outcome {
        match answer.map(|answer| answer.status) {
            None => Outcome::Unknown,
            Some(200 | 201 | 204) => Outcome::Done,
            Some(404) => Outcome::Gone,
            Some(409) => Outcome::Refused,
            Some(422) if answer.is_some_and(|answer| answer.json["code"] == "receipt_required") => {
                Outcome::Refused
            }
            Some(_) => {
                self.world.report(format!("{target}: {answer:?}"));
                Outcome::Refused
            }
        }
    }

    /// Reads a job whose add was acknowledged. Returns its state; `None` if it does not exist.
    pub async fn read(&mut self, job: usize, id: &str) -> Option<String> {
        loop {
            let sent = self.world.now();
            let target = format!("/jobs/{id}");
            let answer = self.call(Waits::No, "GET", &target, None).await;
            let outcome = self.outcome(&target, answer.as_ref());
            self.world.record(job, sent, Action::Read, outcome);
            if outcome != Outcome::Unknown {
                return answer.and_then(|answer| answer.json["state"].as_str().map(str::to_owned));
            }
            self.sleep(0, 300).await;
        }
    }
}

/// Counts a call that does not wait for jobs.
struct InFlight(Option<Arc<World>>);

impl InFlight {
    fn new(world: &Arc<World>, waits: Waits) -> Self {
        let counted = (waits == Waits::No).then(|| world.clone());
        if let Some(world) = &counted {
            world.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        Self(counted)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(world) = &self.0 {
            world.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
