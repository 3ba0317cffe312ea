//! What the holder of a reservation may do besides finishing: release, touch, bury.

use std::sync::Arc;

use super::single_job::{JobStepOutcome, SingleJob};
use crate::{
    job::{JobId, Reason, Receipt, TopicFilter, Ttr},
    store::{
        Held, NotHeld, Release, Result,
        redis::{connection::call::ScriptCall, reply::unexpected, scripts::Script, time::millis_arg},
    },
};

/// The steps of holders.
pub struct HolderSteps {
    job: Arc<SingleJob>,
}

impl HolderSteps {
    pub fn new(job: Arc<SingleJob>) -> Self {
        Self { job }
    }

    pub async fn release(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        release: Release,
    ) -> Result<Held> {
        let reason = release.reason.as_ref().map(|reason| format!("+{}", reason.as_str()));
        let args = |call: ScriptCall| call.due_args(release.due).optional_arg(reason.clone());
        self.run(Script::Release, scope, id, receipt, args).await
    }

    pub async fn touch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        ttr: Option<Ttr>,
    ) -> Result<Held> {
        let ttr = ttr.map(|ttr| millis_arg(ttr.as_duration()));
        self.run(Script::Touch, scope, id, receipt, |call| call.optional_arg(ttr.clone())).await
    }

    pub async fn bury(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        reason: Option<Reason>,
    ) -> Result<Held> {
        let reason = reason.map(|reason| format!("+{}", reason.as_str()));
        self.run(Script::Bury, scope, id, receipt, |call| call.optional_arg(reason.clone())).await
    }

    async fn run(
        &self,
        script: Script,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        add_args: impl Fn(ScriptCall) -> ScriptCall,
    ) -> Result<Held> {
        let args = |call: ScriptCall| add_args(call.bytes_arg(receipt.as_bytes().to_vec()));
        match self.job.run(script, scope, id, args).await? {
            JobStepOutcome::Done(job) => Ok(Ok(*job)),
            JobStepOutcome::Gone => Ok(Err(NotHeld::Gone)),
            JobStepOutcome::Lost => Ok(Err(NotHeld::Lost)),
            JobStepOutcome::Refused(_) => Err(unexpected("the outcome of a holder's step")),
        }
    }
}
