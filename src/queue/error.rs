//! Why the queue refused a call or failed. Each error has a stable code on which clients can switch.

use super::ended::{EndKind, Ended};
use crate::{
    job::{CallHeaders, ScheduleName, SigningSecret, State, Timestamp, Topic},
    store::{self, Refusal},
};

/// Result of a queue operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A refusal, after which nothing has changed, or a failure, after which the outcome is unknown unless the variant
/// says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another job has this id.
    #[error(
        "another job has this id; topic, delay or at, ttr, max_attempts, retry, expire, on_expiry, revision, callback and body byte for byte \
         were compared; \
         choose another id, delete it first or, if it is of the same topic, add with \"if_exists\": \"replace\""
    )]
    JobExists {
        /// State of that job, and when it is or was due. `None` if the caller may not use its topic.
        shown: Option<(State, Timestamp)>,
    },
    /// The id is that of a job that was finished or deleted, and its topic remembers ids; nothing changed.
    #[error("{}", remembered_sentence(.shown.as_ref()))]
    IdRemembered {
        /// How that job ended. `None` if the caller may not use its topic.
        shown: Option<Ended>,
    },
    /// The job has a higher revision than the add that was to replace it; nothing changed.
    #[error("revision {stored} of this job was added before, and it is higher than this one")]
    OlderRevision {
        /// The job's revision.
        stored: u64,
    },
    /// The job was replaced while this receipt held it: the receipt is of an older version.
    #[error(
        "the job was replaced by a newer version during this reservation; stop this work: the newer version is delivered \
         separately"
    )]
    JobReplaced,
    /// No job has this id: it is unknown, finished or deleted, and this process does not remember it.
    #[error("no job has this id: it was never added, or it is finished or deleted")]
    JobNotFound,
    /// The job with this id was finished or deleted, and this process remembers how.
    #[error("this job {} at {}", .0.how.sentence(), .0.at)]
    JobEnded(Ended),
    /// The receipt is not that of the current reservation; nothing changed.
    #[error("{}", lost_sentence(*.retaken))]
    LeaseLost {
        /// Whether it is good for nothing any more. If not, its reservation has timed out, and a finish with it counts.
        retaken: bool,
    },
    /// No receipt was sent and the job is not reserved.
    #[error("the job is not reserved: no worker has it")]
    NotReserved,
    /// The attempt that was to be ended is not the present one; nothing changed.
    #[error("the attempt that was meant has ended, and another worker has the job")]
    OtherAttempt,
    /// The job's topic requires receipts and none was sent.
    #[error("the receipt that came with the reservation is required here")]
    ReceiptRequired,
    /// A reserved job cannot be changed, nor deleted by a call that leaves reserved jobs.
    #[error("the job is reserved by a worker; try again once it is back, or release it")]
    JobReserved,
    /// A dead job cannot be changed.
    #[error("the job is a dead letter; requeue it first")]
    JobDead,
    /// The job would expire before it is due; nothing happened.
    #[error("the job would expire before it is due")]
    ExpiresFirst,
    /// The expiry of a dead letter has passed, and the call gave no other one; nothing happened.
    #[error(
        "the job has expired; give another expire with the requeue, or clear_expire, if it is still to be done"
    )]
    JobExpired,
    /// Only a dead job can be requeued.
    #[error("only a dead job can be requeued; this one is {state}")]
    NotDead {
        /// The job's state.
        state: State,
    },
    /// The topic has neither jobs nor settings.
    #[error("this topic has neither jobs nor settings")]
    TopicNotFound,
    /// The jobs of the topic go to a callback; nothing happened.
    #[error(
        "the jobs of topic {topic} go to its callback; remove the callback from its settings to pop them"
    )]
    TopicHasCallback {
        /// The topic.
        topic: Topic,
    },
    /// The topic's intake is paused; nothing happened.
    #[error("this topic's intake is paused; resume it or try again later")]
    IntakePaused,
    /// The pause would have ended already; nothing happened.
    #[error("the pause would end before it begins")]
    PauseInPast,
    /// A setting forbids the callback; nothing happened.
    #[error("this callback is not allowed here; the setting {setting} forbids it")]
    CallbackNotAllowed {
        /// The key of the setting.
        setting: &'static str,
    },
    /// Values of headers were to be kept that cannot be; nothing happened.
    #[error("{why}")]
    HiddenHeaders {
        /// The headers.
        names: Vec<String>,
        /// Why their values cannot be kept.
        why: HiddenHeaders,
    },
    /// The topic has as many secrets as it may have; nothing happened.
    #[error("the topic has {} secrets, which is the most; delete one first", SigningSecret::MAX_COUNT)]
    TooManySecrets,
    /// The topic has no secret with this id.
    #[error("the topic has no secret with this id")]
    SecretNotFound,
    /// The body is larger than the limit.
    #[error("the body is {got} bytes long, the limit is {limit}")]
    BodyTooLarge {
        /// Largest accepted body, in bytes.
        limit: usize,
        /// Its length, in bytes.
        got: usize,
    },
    /// The batch has more items than the limit.
    #[error("the batch has {got} items, the limit is {limit}; split it")]
    BatchTooLarge {
        /// Most items accepted.
        limit: usize,
        /// Items given.
        got: usize,
    },
    /// Too many polls are waiting; nothing happened.
    #[error("{limit} long polls are waiting already; poll with a shorter wait or raise queue.max_waiting")]
    TooManyWaiting {
        /// Most polls waiting at once.
        limit: usize,
    },
    /// For several seconds, as many callers as allowed were reading large parts of the store.
    #[error("{limit} callers read lists or timelines already; try again in a moment")]
    Busy {
        /// Most callers at once.
        limit: usize,
    },
    /// For several seconds, as many lists as allowed were searching the jobs of all topics, or for the beginning of an id.
    #[error("{limit} searches run already; try again in a moment, or list the jobs of one topic")]
    TooManyScans {
        /// Most searches at once.
        limit: usize,
    },
    /// As many bulk operations run as may at the same time; nothing happened.
    #[error(
        "{limit} {}{} run already; wait for one to end, or stop one",
        if *is_dry_run { "dry runs" } else { "bulk operations" },
        if *of_caller { " of this caller" } else { "" }
    )]
    TooManyOperations {
        /// Most at once.
        limit: usize,
        /// Whether the limit is that of dry runs, which are counted apart.
        is_dry_run: bool,
        /// Whether it is that of one caller.
        of_caller: bool,
    },
    /// No bulk operation has this id.
    #[error("no bulk operation has this id; the latest 64 are kept")]
    OperationNotFound,
    /// Another bulk operation has this id; nothing happened.
    #[error("another bulk operation has this id; choose another one, or repeat that request as it was")]
    OperationExists,
    /// The caller's topics have no schedule with this name.
    #[error("no schedule has this name")]
    ScheduleNotFound,
    /// A schedule of a topic that the caller may not use has this name; nothing happened.
    #[error("another schedule has this name; choose another one")]
    ScheduleExists,
    /// The schedule was changed since the caller read it; nothing happened.
    #[error("the schedule has revision {revision}, not {expected}: it was changed since; read it again")]
    RevisionDiffers {
        /// The revision that the caller expected.
        expected: u64,
        /// The one that it has; 0 if there is no schedule.
        revision: u64,
    },
    /// There are as many schedules as there may be; nothing happened.
    #[error("there are {limit} schedules already, which is the most; delete one first")]
    TooManySchedules {
        /// Most schedules.
        limit: usize,
    },
    /// The job of a schedule is refused since a setting was changed; nothing happened.
    #[error("the job of the schedule is refused since a setting was changed: {0}; change the schedule")]
    TemplateRefused(String),
    /// The server is shutting down; nothing happened, but a purge may have deleted a part of its jobs.
    #[error("the server is shutting down; send this again to another one, or once it is back")]
    Draining,
    /// The store cannot be reached or did not answer. Repeating the call is safe.
    #[error("the store does not answer; send this again, that is safe")]
    Unavailable(String),
    /// The store answers, and does not do it. Repeating the call is safe.
    #[error("{reason}; send this again, that is safe")]
    Refused {
        /// Why.
        reason: String,
        /// The same for operators.
        cause: String,
    },
    /// The store is another one than this process has used, or was emptied; nothing happened.
    #[error(
        "the store was emptied or replaced, so that jobs are missing; send this again once its data is back, or the loss \
         is confirmed (`linger store accept`)"
    )]
    Replaced,
    /// The store is full; nothing happened.
    #[error("the store is full; finish or delete jobs, or give it more room")]
    Full(String),
    /// The change was made, but not as durably as configured. Repeating the call is safe.
    #[error("the change could not be made as durable as configured; send this again, that is safe")]
    NotDurable(String),
    /// What is stored of this cannot be read. Everything else goes on.
    #[error("what is stored of this cannot be read; `linger verify` says what is broken")]
    Damaged(String),
    /// The store takes no writes until an operator has examined it.
    #[error("the store has stopped taking writes after a fault; the log says which")]
    Stopped(String),
}

/// Why the stored value of a header cannot be kept; the message says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HiddenHeaders {
    /// There is no stored value.
    #[error("has no stored value that could stay; give the value")]
    NotStored,
    /// The callback is to go to another scheme, host or port than the stored one.
    #[error("must be given again, because the scheme, host or port of the URL changes")]
    OtherOrigin,
    /// With the other headers they are too large.
    #[error("makes the headers larger than {} bytes in all", CallHeaders::MAX_BYTES)]
    TooLarge,
}

impl Error {
    /// A change of a schedule was tried many times, and others were faster each time; nothing happened.
    pub(super) fn keeps_changing(schedule: &ScheduleName) -> Self {
        Self::Unavailable(format!("schedule {schedule} keeps changing"))
    }

    /// The stable code of the API.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::JobExists { .. } => "job_exists",
            Self::IdRemembered { shown: Some(Ended { how: EndKind::Deleted, .. }) } => "job_deleted",
            Self::IdRemembered { .. } => "job_exists",
            Self::OlderRevision { .. } => "stale_revision",
            Self::JobReplaced => "job_replaced",
            Self::JobNotFound | Self::JobEnded(_) => "job_not_found",
            Self::LeaseLost { .. } => "lease_lost",
            Self::NotReserved => "not_reserved",
            Self::OtherAttempt => "other_attempt",
            Self::ReceiptRequired => "receipt_required",
            Self::JobReserved => "job_reserved",
            Self::JobDead => "job_dead",
            Self::NotDead { .. } => "not_dead",
            Self::ExpiresFirst => "invalid_job",
            Self::JobExpired => "job_expired",
            Self::TopicNotFound => "topic_not_found",
            Self::TopicHasCallback { .. } => "topic_has_callback",
            Self::IntakePaused => "intake_paused",
            Self::CallbackNotAllowed { .. } => "callback_not_allowed",
            Self::HiddenHeaders { .. } | Self::PauseInPast => "invalid_request",
            Self::TooManySecrets => "too_many_secrets",
            Self::SecretNotFound => "secret_not_found",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::BatchTooLarge { .. } => "batch_too_large",
            Self::TooManyWaiting { .. } => "too_many_waiting",
            Self::Busy { .. } | Self::TooManyScans { .. } => "busy",
            Self::TooManyOperations { .. } => "too_many_operations",
            Self::OperationNotFound => "operation_not_found",
            Self::OperationExists => "operation_exists",
            Self::ScheduleNotFound => "schedule_not_found",
            Self::ScheduleExists => "schedule_exists",
            Self::RevisionDiffers { .. } => "revision_differs",
            Self::TooManySchedules { .. } => "too_many_schedules",
            Self::TemplateRefused(_) => "invalid_job",
            Self::Draining => "draining",
            Self::Unavailable(_) | Self::Refused { .. } | Self::Damaged(_) | Self::Stopped(_) => {
                "store_unavailable"
            }
            Self::Replaced => "store_replaced",
            Self::Full(_) => "store_full",
            Self::NotDurable(_) => "not_durable",
        }
    }
}

fn remembered_sentence(shown: Option<&Ended>) -> String {
    let Some(Ended { how, at, .. }) = shown else {
        return "another job had this id, and the id is still remembered; choose another id".to_owned();
    };
    match how {
        EndKind::Deleted => format!(
            "a job with this id was deleted at {at}, and its id is still remembered; to add it again in the same topic, add \
             with \"if_exists\": \"replace\""
        ),
        EndKind::Finished | EndKind::FinishedLate | EndKind::Expired => format!(
            "another job with this id was finished at {at}, and its id is still remembered; choose another id or, in the \
             same topic, add with \"if_exists\": \"replace\""
        ),
    }
}

fn lost_sentence(retaken: bool) -> &'static str {
    if retaken {
        "this receipt is from an earlier reservation: another worker holds the job, or it waits again"
    } else {
        "the reservation of this receipt timed out; no other worker has had the job since, so that a finish still counts"
    }
}

impl From<Refusal> for Error {
    /// The error for what the store has refused. A caller that may see more says more: how a job ended, or which job has the id.
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Gone | Refusal::NotAsSeen => Self::JobNotFound,
            Refusal::Lost => Self::LeaseLost { retaken: true },
            Refusal::TimedOut => Self::LeaseLost { retaken: false },
            Refusal::NotReserved => Self::NotReserved,
            Refusal::ReceiptRequired => Self::ReceiptRequired,
            Refusal::InState(State::Dead) => Self::JobDead,
            Refusal::InState(State::Reserved | State::Delayed | State::Ready) => Self::JobReserved,
            Refusal::Exists { .. } => Self::JobExists { shown: None },
            Refusal::OlderRevision { stored } => Self::OlderRevision { stored },
            Refusal::Replaced => Self::JobReplaced,
            Refusal::EndedBefore(_) => Self::IdRemembered { shown: None },
            Refusal::IntakePaused => Self::IntakePaused,
            Refusal::ExpiresFirst => Self::ExpiresFirst,
            Refusal::Expired => Self::JobExpired,
        }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Unavailable(why) => Self::Unavailable(why),
            store::Error::Refused { reason, cause } => Self::Refused { reason, cause },
            store::Error::Replaced => Self::Replaced,
            store::Error::Full(why) => Self::Full(why),
            store::Error::NotDurable(why) => Self::NotDurable(why),
            store::Error::Damaged(why) => Self::Damaged(why),
            store::Error::Stopped(why) => Self::Stopped(why),
        }
    }
}
