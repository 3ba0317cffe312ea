//! What a worker needs of its surroundings: a [`Host`] that runs jobs, makes clients and receives events.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{
    drain::Cause,
    outcome::{Ended, Report},
};
use crate::{
    client::Client,
    error::Error,
    model::{Job, ReservedJob},
};

/// How urgently a job has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// It may run.
    None,
    /// It is asked to end.
    Terminate,
    /// It is killed.
    Kill,
}

/// The surroundings of a worker.
pub trait Host: Send + Sync + 'static {
    /// Runs a job to its end. Nothing of it may run any more when this returns after [`Urgency::Kill`], or after it was
    /// dropped.
    fn run(
        &self,
        job: Arc<ReservedJob>,
        urgency: watch::Receiver<Urgency>,
    ) -> impl Future<Output = Ended> + Send;

    /// Makes a client with a token that is read again; none if it cannot be read. Such a client sends each call once.
    fn connect(&self) -> impl Future<Output = Option<Client>> + Send;

    /// Something happened. Must not block.
    fn event(&self, event: Event<'_>);
}

/// Something that happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// A job starts.
    Started(&'a ReservedJob),
    /// A job has ended.
    Ended {
        /// The job.
        job: &'a ReservedJob,
        /// What was reported of it.
        report: &'a Report,
        /// The result of the report.
        outcome: &'a Outcome,
        /// How long it ran; none if it was not started.
        took: Option<Duration>,
    },
    /// The lease of a job is lost.
    Lost {
        /// The job.
        job: &'a ReservedJob,
        /// The server's words; none if no heartbeat got through.
        refusal: Option<&'a Error>,
        /// Whether it goes on all the same.
        is_kept: bool,
    },
    /// The server stopped answering.
    Away(&'a Error),
    /// It answers again, after so long.
    Back(Duration),
    /// The worker takes no more jobs.
    Draining {
        /// Why.
        cause: &'a Cause,
        /// Jobs that still run.
        running: usize,
        /// The time that they have; none if there is no limit.
        limit: Option<Duration>,
    },
    /// Another signal came while it drains: the second or a later one.
    Hurry(u32),
}

/// The result of a report.
#[derive(Debug)]
pub enum Outcome {
    /// The server has it, and the job as it is now unless it is gone.
    Accepted(Option<Box<Job>>),
    /// The job had been taken from the worker before.
    TooLate(Error),
    /// The server does not take it.
    Refused(Error),
    /// The worker ended before there was an answer.
    Unanswered,
}
