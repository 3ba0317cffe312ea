//! What a protocol over HTTP has of its own at the edge: how a client says who it is, which requests have bodies, and the form
//! of a refusal.

use axum::{
    extract::Request,
    http::{Method, Response},
};

use super::route::RequiredScope;
use crate::{
    auth::{Authenticator, Caller},
    http::errors::Problem,
};

/// A protocol over HTTP. Everything else about a request is the same for all of them.
pub trait Dialect: Send + Sync + 'static {
    /// The client that sent a request. Removes the credential from the request: no code after it needs that. If nothing is
    /// required ([`RequiredScope::Public`]), a client without a valid credential is [`Caller::unprivileged`].
    ///
    /// # Errors
    /// Why the request may not use a route for which this scope is `required`.
    fn authenticate(
        &self,
        authenticator: &Authenticator,
        required: RequiredScope,
        request: &mut Request,
    ) -> Result<Caller, Problem>;

    /// Whether its clients send no credential. Then only the `Host` header reveals a web page, and it is checked even if the
    /// settings do not ask for that because others must send tokens.
    fn is_anonymous(&self) -> bool {
        false
    }

    /// Whether requests with this method have a body. A body with any other method is read and refused if it says anything,
    /// except by routes that answer whatever a request brings.
    fn accepts_body(&self, method: &Method) -> bool;

    /// The response for a problem, which may also come from the framework. The headers that belong to the problem in whatever
    /// form, such as `Connection: close`, are added to it.
    fn render(&self, problem: &Problem, request_id: &str) -> Response<Vec<u8>>;
}
