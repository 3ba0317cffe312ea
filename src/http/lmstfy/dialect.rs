//! The dialect at the edge: names and tokens are checked before anything else, and refusals are objects with one text.

use axum::{
    extract::Request,
    http::{HeaderValue, Method, Response, StatusCode, header},
};

use super::{
    queue_path::{QueuePath, Token},
    requests, responses,
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
        path.check(request.method(), request.uri())?;
        let token = Token::in_request(request.headers(), request.uri())?;
        request.headers_mut().remove("x-token");
        // That server asks for no token to tell a size. Where there are tokens, this one does.
        let is_needed = !request.uri().path().ends_with("/size");
        let caller = match authenticator.authenticate_token(token.as_bytes()) {
            Ok(_) if is_needed && token.as_bytes().is_none() => return Err(Problem::no_token()),
            Ok(caller) => caller,
            Err(AuthError::Missing) => return Err(Problem::no_token()),
            Err(_) => return Err(Problem::unknown_token()),
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
        let (status, text) = match problem.status() {
            StatusCode::UNAUTHORIZED if problem.detail() == Problem::no_token().detail() => {
                (StatusCode::UNAUTHORIZED, "token not found")
            }
            StatusCode::UNAUTHORIZED => (StatusCode::UNAUTHORIZED, "invalid token"),
            StatusCode::PAYLOAD_TOO_LARGE if problem.detail() != requests::JOB_TOO_LARGE => {
                (StatusCode::PAYLOAD_TOO_LARGE, "body too large")
            }
            StatusCode::REQUEST_TIMEOUT => (StatusCode::BAD_REQUEST, responses::UNREADABLE_BODY),
            _ if problem.detail() == Problem::BROKEN_BODY => {
                (StatusCode::BAD_REQUEST, responses::UNREADABLE_BODY)
            }
            status if status.is_server_error() => (status, "internal error"),
            status => (status, problem.detail()),
        };
        let mut response = Response::new(responses::error_bytes(text));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(responses::MEDIA_TYPE));
        response
    }
}
