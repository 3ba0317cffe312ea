//! The flags that choose jobs, for lists and bulk operations.

use clap::{Args, ValueEnum};
use linger_client::{JobsFilter, Timestamp};

use super::job_args::parse_moment;

/// Which jobs.
#[derive(Debug, Clone, Args)]
pub(super) struct FilterArgs {
    /// Only jobs of this topic
    pub topic: Option<String>,
    /// Only jobs in this state [default: delayed; for a requeue dead, for a revoke reserved; a deletion needs it]
    #[arg(long, value_enum)]
    state: Option<StateArg>,
    /// Only jobs due, or reserved until, or dead since, this moment or a later one, such as '2026-12-01 09:00'
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment)]
    from: Option<Timestamp>,
    /// Only those before this moment
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment)]
    to: Option<Timestamp>,
    /// Only jobs whose ids begin so
    #[arg(long, value_name = "TEXT")]
    id_prefix: Option<String>,
    /// Only jobs that this worker has; --state reserved is meant then
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
}

/// Which dead letters.
#[derive(Debug, Clone, Args)]
pub(super) struct ReasonArgs {
    /// Only dead letters whose reasons begin so; --state dead is meant then
    #[arg(long, value_name = "TEXT", conflicts_with = "worker")]
    reason: Option<String>,
}

/// A state of jobs.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum StateArg {
    /// Jobs that are not due yet
    Delayed,
    /// Jobs that wait for a worker
    Ready,
    /// Jobs that workers have
    Reserved,
    /// Dead letters
    Dead,
}

impl FilterArgs {
    /// As the API takes it. A worker chooses among reserved jobs.
    pub fn filter(&self) -> JobsFilter {
        let meant = self.worker.is_some().then_some(StateArg::Reserved);
        self.filter_in(self.state.or(meant), None)
    }

    /// The same for commands that take a reason, which chooses among dead letters.
    pub fn filter_by(&self, ReasonArgs { reason }: &ReasonArgs) -> JobsFilter {
        match reason {
            Some(reason) => self.filter_in(self.state.or(Some(StateArg::Dead)), Some(reason.clone())),
            None => self.filter(),
        }
    }

    fn filter_in(&self, state: Option<StateArg>, reason_prefix: Option<String>) -> JobsFilter {
        let Self { topic, state: _, from, to, id_prefix, worker } = self.clone();
        let state = state.map(|state| match state {
            StateArg::Delayed => "delayed",
            StateArg::Ready => "ready",
            StateArg::Reserved => "reserved",
            StateArg::Dead => "dead",
        });
        let state = state.map(str::to_owned);
        JobsFilter { state, topic, from, to, id_prefix, reason_prefix, reserved_by: worker }
    }
}
