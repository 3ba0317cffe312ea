//! Asking several shards for ready jobs of a topic at the same time. Where their servers do not answer
//! promptly, others are asked, too, so that one server that hangs does not hold up the jobs of the rest.

use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender, error::SendError};

use super::reserve::{Pop, SLICE, between, too_long};
use crate::store::redis::{Engine, connection::call::micros, keys::Shard};
use crate::{
    clock::Clock,
    store::{Error, Reservation, Result},
};

type Reserved = Result<Vec<Reservation>>;

/// The shards that are asked for one step of a pop.
pub struct Round<'a> {
    engine: &'a Arc<Engine>,
    pop: &'a Pop<'a>,
    /// Whether all jobs are wanted for the same TTR. Otherwise only one shard's can be taken: asked at the
    /// same time, they do not know how many the others give, and so not whose TTR is whose turn.
    alike: bool,
    answer: UnboundedSender<(usize, Reserved)>,
    answers: UnboundedReceiver<(usize, Reserved)>,
    asked: Vec<Shard>,
    /// What each of them gave.
    came: Vec<Vec<Reservation>>,
    answered: usize,
    failed: Option<Error>,
    began_us: i64,
    /// When the round ends whatever is still to come.
    end_us: i64,
}

impl<'a> Round<'a> {
    pub fn new(engine: &'a Arc<Engine>, pop: &'a Pop<'a>, alike: bool) -> Self {
        let (answer, answers) = mpsc::unbounded_channel();
        let began_us = engine.context.real.now_micros();
        let end_us = pop.left(began_us).map_or(i64::MAX, |left| began_us.saturating_add(micros(left)));
        Self {
            engine,
            pop,
            alike,
            answer,
            answers,
            asked: Vec::new(),
            came: Vec::new(),
            answered: 0,
            failed: None,
            began_us,
            end_us,
        }
    }

    /// Asks these shards, each for its share, and others when they do not answer promptly. Returns the jobs
    /// that came, and why there may be more. What is reserved too late is given back: no client has seen it.
    pub async fn run(mut self, first: &[Shard]) -> (Vec<Reservation>, Result<()>) {
        if self.end_us <= self.began_us {
            return (Vec::new(), Err(too_long()));
        }
        self.ask(first);
        let real = &self.engine.context.real;
        let prompt = self.engine.context.options.prompt_timeout;
        let one_server = self.engine.routes.spans_slots();
        let mut prompt_us = if one_server { i64::MAX } else { self.began_us.saturating_add(micros(prompt)) };
        let mut looked = false;
        while self.answered < self.asked.len() {
            let mut hinted = std::pin::pin!(self.engine.hints.changed());
            hinted.as_mut().enable();
            let now_us = real.now_micros();
            let late = now_us >= prompt_us;
            if late {
                if !self.pop.granted.is_empty() {
                    break;
                }
                let others = self.others();
                if !others.is_empty() {
                    self.ask(&others);
                    prompt_us = now_us.saturating_add(micros(prompt));
                } else if !std::mem::replace(&mut looked, true) {
                    self.engine.looks.ask(self.pop.topic);
                }
            }
            tokio::select! {
                biased;
                Some((at, jobs)) = self.answers.recv() => {
                    if self.take(at, jobs) {
                        // From now on only those that are as prompt are waited for.
                        prompt_us = i64::MAX;
                    }
                }
                () = real.sleep(between(now_us, self.end_us)), if self.end_us < i64::MAX => break,
                () = real.sleep(between(now_us, prompt_us)), if !late && prompt_us < i64::MAX => {}
                () = hinted, if late => {}
            }
        }
        self.close()
    }

    /// Shards that may have jobs and have not been asked.
    fn others(&self) -> Vec<Shard> {
        let wanted = if self.alike { self.pop.wanted().len() } else { 1 };
        let may = |shard: Shard| !self.asked.contains(&shard) && !self.engine.is_unresponsive(shard);
        self.engine.hints.pick(self.pop.topic, wanted, SLICE, may)
    }

    /// Asks each shard for its share, in a task of its own: what it reserves when nobody waits for it any
    /// more it gives back.
    fn ask(&mut self, shards: &[Shard]) {
        let mut wanted = self.pop.wanted();
        for (at, shard) in shards.iter().copied().enumerate() {
            let share = wanted.len().div_ceil(shards.len() - at).min(SLICE);
            let (ttrs, others) = wanted.split_at(share);
            wanted = others;
            let (engine, topic, ttrs) = (self.engine.clone(), self.pop.topic.clone(), ttrs.to_vec());
            let (answer, number) = (self.answer.clone(), self.asked.len());
            let asking = async move {
                let jobs = engine.observed(shard, engine.reserve_from(shard, &topic, &ttrs)).await;
                if let Err(SendError((_, Ok(unseen)))) = answer.send((number, jobs)) {
                    engine.give_back(&topic, &unseen).await;
                }
            };
            self.engine.context.tasks.spawn_on(asking, &self.engine.context.runtime);
            self.asked.push(shard);
            self.came.push(Vec::new());
        }
    }

    /// Takes one shard's answer; whether it brought jobs.
    fn take(&mut self, at: usize, jobs: Reserved) -> bool {
        self.answered += 1;
        match jobs {
            Ok(jobs) => self.came[at] = jobs,
            Err(error) => self.failed = self.failed.take().or(Some(error)),
        }
        let jobs = &self.came[at];
        if jobs.is_empty() {
            return false;
        }
        let now_us = self.engine.context.real.now_micros();
        let left = self.pop.left_with(jobs, self.pop.wanted(), now_us);
        // Or as long again as that one took, when all are slow.
        let left = left.min(self.engine.context.options.prompt_timeout.max(between(self.began_us, now_us)));
        self.end_us = self.end_us.min(now_us.saturating_add(micros(left)));
        true
    }

    fn close(mut self) -> (Vec<Reservation>, Result<()>) {
        // From now on they keep their answers; what came before is still there.
        self.answers.close();
        while let Ok((at, jobs)) = self.answers.try_recv() {
            self.take(at, jobs);
        }
        let complete = self.answered == self.asked.len();
        let came = self.came.into_iter().filter(|jobs| !jobs.is_empty());
        let (mut granted, mut surplus) = (Vec::new(), Vec::new());
        for jobs in came {
            if self.alike || granted.is_empty() { granted.extend(jobs) } else { surplus.extend(jobs) }
        }
        surplus.extend(granted.drain(granted.len().min(self.pop.wanted().len())..));
        if !surplus.is_empty() {
            let (engine, topic) = (self.engine.clone(), self.pop.topic.clone());
            let giving = async move { engine.give_back(&topic, &surplus).await };
            self.engine.context.tasks.spawn_on(giving, &self.engine.context.runtime);
        }
        let outcome = match self.failed {
            Some(error) => Err(error),
            None if !complete => Err(too_long()),
            None => Ok(()),
        };
        (granted, outcome)
    }
}
