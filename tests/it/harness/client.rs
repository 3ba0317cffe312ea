//! An HTTP client as plain as a worker's: one keep-alive connection, made again when it is gone.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request,
    client::conn::http1::{SendRequest, handshake},
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

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

/// Nobody knows whether it happened: no connection, or it was cut before the answer.
#[derive(Debug)]
pub struct Unknown;

/// One client with one connection.
pub struct Client {
    address: SocketAddr,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, connection: None }
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
        let mut request = Request::builder().method(method).uri(path).header(HOST, self.address.to_string());
        if json.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(json.map(|json| Bytes::from(json.to_string())).unwrap_or_default());
        let answer = self.exchange(request.body(body).expect("a valid request")).await;
        if answer.is_err() {
            self.connection = None;
        }
        answer
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, Unknown> {
        let connection = match &mut self.connection {
            Some(open) if !open.is_closed() => open,
            other => other.insert(connect(self.address).await?),
        };
        connection.ready().await.map_err(|_| Unknown)?;
        let response = connection.send_request(request).await.map_err(|_| Unknown)?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|_| Unknown)?.to_bytes();
        Ok(Answer { status: head.status.as_u16(), body })
    }
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, Unknown> {
    let stream = TcpStream::connect(address).await.map_err(|_| Unknown)?;
    stream.set_nodelay(true).map_err(|_| Unknown)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| Unknown)?;
    tokio::spawn(connection);
    Ok(sender)
}
