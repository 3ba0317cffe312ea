//! A simple HTTP client: one keep-alive connection, which is opened again when it is lost.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use hyper::Method;
use linger_client::{Options, ServerUrl};
use serde_json::Value;

use super::{blocking_http::is_not_begun, wait::TimeLimit};

/// Longer than any call takes, long polls included. Tests that need a shorter limit have their own.
const CALL_TIMEOUT: Duration = Duration::from_secs(150);

/// A server's response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub body: Bytes,
}

impl Response {
    /// The body as JSON; panics when it is something else.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// A text member of the JSON body; panics when it is missing.
    pub fn text(&self, member: &str) -> String {
        self.json()[member].as_str().unwrap_or_else(|| panic!("no {member} in {self:?}")).to_owned()
    }
}

/// The call failed and its effect is unknown: no connection, or it was lost before the response.
#[derive(Debug)]
pub struct Unknown;

/// A client with one connection that repeats no call but one that the server has not begun.
pub struct Client(linger_client::Client);

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        let options =
            Options { call_timeout: CALL_TIMEOUT, connect_timeout: CALL_TIMEOUT, ..Options::default() };
        let client = linger_client::Client::new(&ServerUrl::new(address.to_string(), false), options);
        Self(client.expect("the options are valid").single_connection())
    }

    pub async fn get(&mut self, path: &str) -> Result<Response, Unknown> {
        self.send(Method::GET, path, None).await
    }

    pub async fn post(&mut self, path: &str, json: &Value) -> Result<Response, Unknown> {
        self.send(Method::POST, path, Some(json)).await
    }

    /// Sends one request and reads the whole response. A request that the server has not begun, because its process was
    /// paused, is sent again, as the answer asks: a busy machine can hold up any process for over a second.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        json: Option<&Value>,
    ) -> Result<Response, Unknown> {
        let body = json.map(|json| Bytes::from(json.to_string())).unwrap_or_default();
        let time_limit = TimeLimit::new();
        loop {
            let response = self.0.call(method.clone(), path, body.clone()).await.map_err(|_| Unknown)?;
            if !is_not_begun(response.status, &response.body) {
                return Ok(Response { status: response.status, body: response.body });
            }
            time_limit.check(|| format!("{path} is not begun"));
            time_limit.pause().await;
        }
    }
}
