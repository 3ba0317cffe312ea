//! A simple HTTP client: one keep-alive connection, which is opened again when it is lost.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use hyper::Method;
use linger_client::{Options, ServerUrl};
use serde_json::Value;

/// Longer than any call takes; tests that wait for less say so themselves.
const LIMIT: Duration = Duration::from_secs(600);

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON; panics when it is something else.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// A text member of the JSON body; panics when it is missing.
    pub fn text(&self, member: &str) -> String {
        self.json()[member].as_str().unwrap_or_else(|| panic!("no {member} in {self:?}")).to_owned()
    }
}

/// The call failed and its effect is unknown: no connection, or it was lost before the answer.
#[derive(Debug)]
pub struct Unknown;

/// One client with one connection, which never sends anything again by itself.
pub struct Client(linger_client::Client);

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        let options = Options { call_timeout: LIMIT, connect_timeout: LIMIT, ..Options::default() };
        let client = linger_client::Client::new(&ServerUrl::new(address.to_string(), false), options);
        Self(client.expect("the options are sound").single_connection())
    }

    pub async fn get(&mut self, path: &str) -> Result<Answer, Unknown> {
        self.send(Method::GET, path, None).await
    }

    pub async fn post(&mut self, path: &str, json: &Value) -> Result<Answer, Unknown> {
        self.send(Method::POST, path, Some(json)).await
    }

    /// Sends one request and reads the whole answer.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        json: Option<&Value>,
    ) -> Result<Answer, Unknown> {
        let body = json.map(|json| Bytes::from(json.to_string())).unwrap_or_default();
        let response = self.0.call(method, path, body).await.map_err(|_| Unknown)?;
        Ok(Answer { status: response.status, body: response.body })
    }
}
