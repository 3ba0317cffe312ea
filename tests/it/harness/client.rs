//! A simple HTTP client: one keep-alive connection, which is opened again when it is lost.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use hyper::Method;
use linger_client::{Options, ServerUrl};
use serde_json::Value;

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

/// A client with one connection that never repeats a call.
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

    /// Sends one request and reads the whole response.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        json: Option<&Value>,
    ) -> Result<Response, Unknown> {
        let body = json.map(|json| Bytes::from(json.to_string())).unwrap_or_default();
        let response = self.0.call(method, path, body).await.map_err(|_| Unknown)?;
        Ok(Response { status: response.status, body: response.body })
    }
}
