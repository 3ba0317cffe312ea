//! The one table from the queue's errors to HTTP statuses.

use axum::http::StatusCode;

use super::{ExtensionMember, Fault, Faults, MAX_FAULTS, Problem};
use crate::queue::{Error, HiddenHeaders};

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let mut problem = Self::new(status_of(&error), error.code(), error.to_string());
        let fields = &mut *problem.0;
        match error {
            Error::JobExists { shown: Some((state, due_at)) } => {
                fields.extension = ExtensionMember::Existing { state, due_at };
            }
            Error::OlderRevision { stored } => fields.extension = ExtensionMember::Revision(stored),
            Error::LeaseLost { retaken } => fields.extension = ExtensionMember::Retaken(retaken),
            Error::JobEnded(ended) | Error::IdRemembered { shown: Some(ended) } => {
                fields.extension = ExtensionMember::Ended(ended);
            }
            Error::NotDead { state } => fields.extension = ExtensionMember::State(state),
            Error::BodyTooLarge { limit, got } | Error::BatchTooLarge { limit, got } => {
                fields.extension = ExtensionMember::Limit { limit, got };
            }
            Error::TooManyWaiting { .. }
            | Error::Busy { .. }
            | Error::TooManyScans { .. }
            | Error::Replaced => fields.retry_after_s = Some(1),
            // Long enough for a restart, or for a load balancer to choose another server.
            Error::Draining => fields.retry_after_s = Some(5),
            Error::Unavailable(cause)
            | Error::Refused { cause, .. }
            | Error::NotDurable(cause)
            | Error::Damaged(cause)
            | Error::Stopped(cause) => {
                fields.retry_after_s = Some(1);
                fields.cause = Some(cause);
            }
            Error::Full(cause) => fields.cause = Some(cause),
            Error::HiddenHeaders { names, why } => {
                return Self::invalid_request(hidden_headers(&names, why));
            }
            Error::PauseInPast => {
                return Self::invalid_request(fault("/until", "must be in the future"));
            }
            Error::ExpiresFirst => {
                return Self::invalid_job(fault("/expire", "must not end before the job is due"));
            }
            Error::JobExists { shown: None }
            | Error::IdRemembered { shown: None }
            | Error::JobReplaced
            | Error::JobExpired
            | Error::JobNotFound
            | Error::NotReserved
            | Error::OtherAttempt
            | Error::ReceiptRequired
            | Error::JobReserved
            | Error::JobDead
            | Error::TopicNotFound
            | Error::TopicHasCallback { .. }
            | Error::IntakePaused
            | Error::CallbackNotAllowed { .. }
            | Error::TooManySecrets
            | Error::SecretNotFound
            | Error::TooManyOperations { .. }
            | Error::OperationNotFound
            | Error::OperationExists
            | Error::ScheduleNotFound
            | Error::ScheduleExists
            | Error::RevisionDiffers { .. }
            | Error::TooManySchedules { .. }
            | Error::TemplateRefused(_) => {}
        }
        problem
    }
}

fn fault(pointer: &str, detail: &str) -> Faults {
    Fault::at_pointer(pointer.to_owned(), detail.to_owned()).into()
}

fn hidden_headers(names: &[String], why: HiddenHeaders) -> Faults {
    let mut faults = Faults::new(MAX_FAULTS);
    for name in names {
        // Names of headers have no slash; a tilde is escaped.
        let pointer = format!("/callback/headers/{}", name.replace('~', "~0"));
        faults.push(Fault::at_pointer(pointer, why.to_string()));
    }
    faults
}

/// The status of each error. Exhaustive on purpose: a new error must be added here.
fn status_of(error: &Error) -> StatusCode {
    match error {
        Error::JobNotFound
        | Error::JobEnded(_)
        | Error::TopicNotFound
        | Error::SecretNotFound
        | Error::OperationNotFound
        | Error::ScheduleNotFound => StatusCode::NOT_FOUND,
        Error::JobExists { .. }
        | Error::IdRemembered { .. }
        | Error::OlderRevision { .. }
        | Error::JobReplaced
        | Error::LeaseLost { .. }
        | Error::NotReserved
        | Error::OtherAttempt
        | Error::JobReserved
        | Error::JobDead
        | Error::NotDead { .. }
        | Error::JobExpired
        | Error::TopicHasCallback { .. }
        | Error::IntakePaused
        | Error::TooManySecrets
        | Error::TooManyOperations { .. }
        | Error::OperationExists
        | Error::ScheduleExists
        | Error::TooManySchedules { .. } => StatusCode::CONFLICT,
        Error::RevisionDiffers { .. } => StatusCode::PRECONDITION_FAILED,
        Error::BodyTooLarge { .. } | Error::BatchTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Error::ReceiptRequired
        | Error::CallbackNotAllowed { .. }
        | Error::HiddenHeaders { .. }
        | Error::TemplateRefused(_)
        | Error::PauseInPast
        | Error::ExpiresFirst => StatusCode::UNPROCESSABLE_ENTITY,
        Error::TooManyWaiting { .. }
        | Error::Busy { .. }
        | Error::TooManyScans { .. }
        | Error::Draining
        | Error::Unavailable(_)
        | Error::Refused { .. }
        | Error::Replaced
        | Error::NotDurable(_)
        | Error::Damaged(_)
        | Error::Stopped(_) => StatusCode::SERVICE_UNAVAILABLE,
        Error::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::http::{HeaderMap, header};

    use super::*;
    use crate::{
        http::handlers::operations::OPENAPI,
        job::{State, Timestamp, Topic},
        queue::{EndKind, Ended, HiddenHeaders},
    };

    /// Every error of the queue with its status and the seconds of `Retry-After`.
    fn errors() -> [(Error, u16, Option<&'static str>); 45] {
        let cause = || "cause".to_owned();
        let ended = Ended { how: EndKind::Finished, at: Timestamp::from_millis(0), by: None };
        let deleted = Ended { how: EndKind::Deleted, ..ended.clone() };
        let ended = Error::JobEnded(ended);
        let exists = Error::JobExists { shown: Some((State::Ready, Timestamp::from_millis(0))) };
        [
            (exists, 409, None),
            (Error::IdRemembered { shown: None }, 409, None),
            (Error::IdRemembered { shown: Some(deleted) }, 409, None),
            (Error::OlderRevision { stored: 7 }, 409, None),
            (Error::JobReplaced, 409, None),
            (Error::JobNotFound, 404, None),
            (ended, 404, None),
            (Error::LeaseLost { retaken: true }, 409, None),
            (Error::NotReserved, 409, None),
            (Error::OtherAttempt, 409, None),
            (Error::ReceiptRequired, 422, None),
            (Error::JobReserved, 409, None),
            (Error::JobDead, 409, None),
            (Error::NotDead { state: State::Ready }, 409, None),
            (Error::TopicNotFound, 404, None),
            (Error::IntakePaused, 409, None),
            (Error::CallbackNotAllowed { setting: "callbacks.in_jobs" }, 422, None),
            (Error::HiddenHeaders { names: Vec::new(), why: HiddenHeaders::NotStored }, 422, None),
            (Error::TooManySecrets, 409, None),
            (Error::SecretNotFound, 404, None),
            (Error::TopicHasCallback { topic: Topic::parse("t").expect("valid") }, 409, None),
            (Error::BodyTooLarge { limit: 1, got: 2 }, 413, None),
            (Error::BatchTooLarge { limit: 1, got: 2 }, 413, None),
            (Error::TooManyWaiting { limit: 1 }, 503, Some("1")),
            (Error::Busy { limit: 1 }, 503, Some("1")),
            (Error::ExpiresFirst, 422, None),
            (Error::PauseInPast, 422, None),
            (Error::JobExpired, 409, None),
            (Error::TooManyScans { limit: 2 }, 503, Some("1")),
            (Error::TooManyOperations { limit: 4, is_dry_run: false, of_caller: true }, 409, None),
            (Error::OperationNotFound, 404, None),
            (Error::OperationExists, 409, None),
            (Error::ScheduleNotFound, 404, None),
            (Error::ScheduleExists, 409, None),
            (Error::RevisionDiffers { expected: 1, revision: 2 }, 412, None),
            (Error::TooManySchedules { limit: 1 }, 409, None),
            (Error::TemplateRefused(cause()), 422, None),
            (Error::Draining, 503, Some("5")),
            (Error::Unavailable(cause()), 503, Some("1")),
            (Error::Refused { reason: cause(), cause: cause() }, 503, Some("1")),
            (Error::Replaced, 503, Some("1")),
            (Error::Full(cause()), 507, None),
            (Error::NotDurable(cause()), 503, Some("1")),
            (Error::Damaged(cause()), 503, Some("1")),
            (Error::Stopped(cause()), 503, Some("1")),
        ]
    }

    #[test]
    fn every_error_has_its_status_and_its_code() {
        for (error, status, retry_after) in errors() {
            let code = error.code();
            let (problem, mut headers) = (Problem::from(error), HeaderMap::new());
            problem.add_headers(&mut headers);
            assert_eq!(problem.status().as_u16(), status, "{code}");
            let header = headers.get(header::RETRY_AFTER).map(|value| value.to_str().expect("digits"));
            assert_eq!(header, retry_after, "{code}");
        }
    }

    #[test]
    fn the_contract_lists_exactly_the_codes_that_exist() {
        let own = [
            Problem::malformed(""),
            Problem::invalid_parameters(Faults::new(1)),
            Problem::invalid_job(Faults::new(1)),
            Problem::invalid_request(Faults::new(1)),
            Problem::confirmation_required(),
            Problem::cross_site(),
            Problem::foreign_host(),
            Problem::no_token(),
            Problem::wrong_scheme(),
            Problem::several_credentials(),
            Problem::unknown_token(),
            Problem::forbidden(""),
            Problem::forbidden_topic(),
            Problem::no_route(""),
            Problem::method_not_allowed("GET", ""),
            Problem::media_type(""),
            Problem::slow(),
            Problem::request_too_large(1),
            Problem::overloaded(),
            Problem::not_begun(""),
            Problem::unready(String::new()),
            Problem::internal(),
        ];
        let own = own.iter().map(Problem::code).chain(errors().into_iter().map(|(error, ..)| error.code()));
        let listed = OPENAPI.split("    Code:\n").nth(1).expect("lists the codes");
        let listed = listed.split("    Fault:\n").next().expect("ends before the faults");
        let listed: BTreeSet<_> = listed.lines().filter_map(|line| line.strip_prefix("        - ")).collect();
        assert_eq!(own.collect::<BTreeSet<_>>(), listed);
    }

    #[test]
    fn a_refusal_with_only_a_status_becomes_a_problem() {
        let problem = |status: u16| Problem::from_status(StatusCode::from_u16(status).expect("a status"));
        assert_eq!((problem(404).code(), problem(404).status().as_u16()), ("not_found", 404));
        assert_eq!((problem(418).code(), problem(418).status().as_u16()), ("malformed_request", 400));
        assert_eq!((problem(502).code(), problem(502).status().as_u16()), ("internal", 500));
    }
}
