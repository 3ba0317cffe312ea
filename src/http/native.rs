//! Our own API as a dialect: bearer tokens, bodies where a method has a meaning for them, and problems as JSON.

use axum::{
    body::Bytes,
    extract::Request,
    http::{Method, Response},
};

use super::{
    access,
    edge::{self, Dialect, RequiredScope},
    errors::Problem,
};
use crate::auth::{Authenticator, Caller};

/// The dialect of our own API.
pub struct Native;

impl Dialect for Native {
    fn authenticate(
        &self,
        authenticator: &Authenticator,
        required: RequiredScope,
        request: &mut Request,
    ) -> Result<Caller, Problem> {
        access::authorize(authenticator, required, request)
    }

    fn accepts_body(&self, method: &Method) -> bool {
        matches!(*method, Method::POST | Method::PUT | Method::PATCH)
    }

    fn render(&self, problem: &Problem, request_id: &str) -> Response<Vec<u8>> {
        problem.render(request_id)
    }
}

/// The response for a connection beyond the limit, whose request is not parsed.
pub fn too_many_connections() -> Response<Bytes> {
    edge::too_many_connections(&Native)
}
