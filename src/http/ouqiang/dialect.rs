//! The dialect at the edge: no tokens, bodies with every method, and refusals that look like answers.

use axum::{
    extract::Request,
    http::{HeaderValue, Method, Response, StatusCode, header},
};

use super::responses;
use crate::{
    auth::{Authenticator, Caller},
    http::{
        edge::{Dialect, RequiredScope},
        errors::Problem,
    },
    job::TopicFilter,
};

/// What a body is answered with that broke off, or came too slowly. The old server has no other reason to say it.
const UNREADABLE_BODY: &str = "读取request body失败";

/// The dialect of ouqiang/delay-queue.
pub struct Ouqiang {
    /// The topics that its clients may use.
    topics: TopicFilter,
}

impl Ouqiang {
    pub fn new(topics: TopicFilter) -> Self {
        Self { topics }
    }
}

impl Default for Ouqiang {
    /// For all topics.
    fn default() -> Self {
        Self::new(TopicFilter::ALL)
    }
}

impl Dialect for Ouqiang {
    fn authenticate(&self, _: &Authenticator, _: RequiredScope, _: &mut Request) -> Result<Caller, Problem> {
        Ok(Caller::anonymous(self.topics.clone()))
    }

    fn is_anonymous(&self) -> bool {
        true
    }

    fn accepts_body(&self, _: &Method) -> bool {
        true
    }

    fn render(&self, problem: &Problem, _: &str) -> Response<Vec<u8>> {
        let (status, body) = match problem.code() {
            "not_found" => (StatusCode::NOT_FOUND, b"404 page not found\n".to_vec()),
            "request_timeout" => (StatusCode::OK, responses::failure(UNREADABLE_BODY)),
            _ if problem.detail() == Problem::BROKEN_BODY => {
                (StatusCode::OK, responses::failure(UNREADABLE_BODY))
            }
            _ => (StatusCode::OK, responses::failure(problem.detail())),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(responses::MEDIA_TYPE));
        response
    }
}
