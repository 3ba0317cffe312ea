//! The dialect at the edge: names and tokens are checked before anything else, and refusals are objects with one text.

use axum::{
    extract::Request,
    http::{HeaderValue, Method, Response, StatusCode, header},
};

use super::{
    bulk,
    queue_path::{QueuePath, Token},
    responses,
};
use crate::{
    auth::{AuthError, Authenticator, Caller},
    http::{
        access,
        edge::{Dialect, RequiredScope},
        errors::Problem,
    },
};

/// The dialect of lmstfy.
pub struct Lmstfy;

impl Dialect for Lmstfy {
    fn authenticate(
        &self,
        authenticator: &Authenticator,
        required: RequiredScope,
        request: &mut Request,
    ) -> Result<Caller, Problem> {
        // Only of paths that it does not know.
        if required == RequiredScope::Public {
            return Ok(Caller::unprivileged());
        }
        let path = QueuePath::parse(request.uri());
        path.check(request.method())?;
        let token = Token::in_request(request.headers(), request.uri())?;
        request.headers_mut().remove("x-token");
        // lmstfy asks for no token to tell a size. Where there are tokens, this server does.
        let is_needed = !path.is_size();
        let refuse = |text| Err(Problem::in_dialect(StatusCode::UNAUTHORIZED, "unauthorized", text));
        let caller = match authenticator.authenticate_token(token.as_bytes()) {
            Ok(_) if is_needed && token.as_bytes().is_none() => return refuse("token not found"),
            Ok(caller) => caller,
            Err(AuthError::Missing) => return refuse("token not found"),
            Err(_) => return refuse("invalid token"),
        };
        if let (false, RequiredScope::Of(scope)) = (required.is_met_by(&caller), required) {
            return Err(Problem::forbidden(scope.as_str()));
        }
        path.topics()?.iter().try_for_each(|topic| access::check_topic(&caller, topic))?;
        Ok(caller)
    }

    fn accepts_body(&self, _: &Method) -> bool {
        true
    }

    fn render(&self, problem: &Problem, _: &str) -> Response<Vec<u8>> {
        let (status, text) = match problem.code() {
            "body_too_large" if problem.detail() != bulk::JOB_TOO_LARGE => {
                (problem.status(), "body too large")
            }
            "request_timeout" => (StatusCode::BAD_REQUEST, responses::UNREADABLE_BODY),
            "malformed_request" if problem.detail() == Problem::BROKEN_BODY => {
                (StatusCode::BAD_REQUEST, responses::UNREADABLE_BODY)
            }
            "internal" | "not_durable" | "store_unavailable" | "store_replaced" | "store_full" => {
                (problem.status(), "internal error")
            }
            _ => (problem.status(), problem.detail()),
        };
        let mut response = Response::new(responses::error_bytes(text));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(responses::MEDIA_TYPE));
        response
    }
}
