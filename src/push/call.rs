//! One call: a request to an endpoint and its answer. Follows no redirect, and knows no job.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, StatusCode, Uri,
    body::{Body, Incoming},
    http::uri::PathAndQuery,
};

use super::{
    connect::{Connector, Target},
    connection::{Connection, Message},
    deadline::Deadline,
    failure::CallFailure,
    pool::Pool,
    resolve::Resolver,
};
use crate::{
    clock::Clock,
    config::CallbackSettings,
    job::{CallMethod, Origin, Topic},
};

/// What to send, and where.
#[derive(Clone)]
pub struct Request {
    /// Whom to connect to.
    pub origin: Origin,
    /// Path and query.
    pub target: String,
    /// The method.
    pub method: CallMethod,
    /// All headers, in the order in which they are sent.
    pub headers: HeaderMap,
    /// The body; empty if the method has none.
    pub body: Bytes,
    /// From looking up the name to the end of the answer's head.
    pub timeout: Duration,
}

/// Shows neither path nor headers nor body.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method.as_str(), self.origin)
    }
}

/// An answer, whatever it says.
#[derive(Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The first bytes of the body, at most [`Answer::BODY_KEPT`].
    pub body: Vec<u8>,
}

impl Answer {
    /// How much of a body is kept, in bytes.
    pub const BODY_KEPT: usize = 512;
    /// How much of a body is read, in bytes, so that the connection can be used again.
    const BODY_READ: usize = 16 * 1_024;
    /// How long a body is read.
    const BODY_TIMEOUT: Duration = Duration::from_secs(1);
}

/// Shows the status only.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)
    }
}

/// What a call begins with. Dropping it closes its connection.
pub struct Prepared(CallStart);

enum CallStart {
    /// The setting with this key forbids the call.
    Refused(&'static str),
    Reused(Connection),
    New(Target),
}

impl Prepared {
    /// The setting `key` forbids the call.
    #[must_use]
    pub fn refused(key: &'static str) -> Self {
        Self(CallStart::Refused(key))
    }
}

/// Calls endpoints over HTTP/1.1.
pub struct Caller {
    settings: CallbackSettings,
    connector: Connector,
    pool: Arc<Pool>,
    clock: Arc<dyn Clock>,
}

impl Caller {
    /// A caller with these settings. Must be used within a runtime.
    ///
    /// # Errors
    /// What is wrong with `callbacks.ca_file`.
    pub fn new(
        settings: CallbackSettings,
        clock: Arc<dyn Clock>,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, String> {
        let connector = Connector::new(&settings, clock.clone(), resolver)?;
        let pool = Pool::new(clock.clone(), settings.max_calls, settings.max_calls_per_host);
        Ok(Self { settings, connector, pool, clock })
    }

    /// Finds what a call to `origin` begins with: a connection that can be used again, or else the lookup of its name. Waits
    /// until the lookup may begin, since other lookups of the topic may hang.
    pub async fn prepare(&self, topic: Option<&Topic>, origin: &Origin) -> Prepared {
        if let Some(key) = self.settings.forbidden_by(origin) {
            return Prepared::refused(key);
        }
        Prepared(match self.pool.checkout(origin) {
            Some(connection) => CallStart::Reused(connection),
            None => CallStart::New(self.connector.look_up(topic, &origin.host).await),
        })
    }

    /// Sends a request and returns the answer with the beginning of its body. Dropping the future closes the connection.
    ///
    /// # Errors
    /// As [`call_for_head`](Self::call_for_head).
    pub async fn call(&self, request: Request) -> Result<Answer, CallFailure> {
        let prepared = self.prepare(None, &request.origin).await;
        let (mut answer, unread) = self.call_for_head(request, prepared).await?;
        unread.read(&mut answer.body).await;
        Ok(answer)
    }

    /// Sends a request and returns the answer without its body, and the body to read. Dropping the future, or the body,
    /// closes the connection.
    ///
    /// If a connection that was used before ends before the answer, the request is sent once more on a new one.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn call_for_head(
        &self,
        request: Request,
        prepared: Prepared,
    ) -> Result<(Answer, UnreadBody), CallFailure> {
        let (origin, deadline) = (&request.origin, Deadline::after(&self.clock, request.timeout));
        let target = match prepared.0 {
            CallStart::Refused(key) => return Err(CallFailure::AddressRefused { key }),
            CallStart::New(target) => target,
            CallStart::Reused(connection) => {
                match self.exchange(connection, message(&request)?, origin, &deadline).await {
                    Err(CallFailure::Reset) => {}
                    result => return result,
                }
                let target = deadline.run(self.connector.look_up(None, &origin.host)).await;
                target.ok_or(CallFailure::Timeout)?
            }
        };
        let connection = self.connector.connect(origin, target, &deadline).await?;
        self.exchange(connection, message(&request)?, origin, &deadline).await
    }

    /// How many connections are idle.
    #[cfg(test)]
    pub(super) fn idle_connections(&self) -> usize {
        self.pool.len()
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        message: Message,
        origin: &Origin,
        deadline: &Deadline,
    ) -> Result<(Answer, UnreadBody), CallFailure> {
        let answer = deadline.run(connection.exchange(message)).await.unwrap_or(Err(CallFailure::Timeout))?;
        let (head, body) = answer.into_parts();
        let unread = UnreadBody {
            body,
            connection,
            origin: origin.clone(),
            pool: self.pool.clone(),
            clock: self.clock.clone(),
            is_http: head.status != StatusCode::SWITCHING_PROTOCOLS,
        };
        Ok((Answer { status: head.status, headers: head.headers, body: Vec::new() }, unread))
    }
}

/// The body of an answer, on its connection.
pub struct UnreadBody {
    body: Incoming,
    connection: Connection,
    origin: Origin,
    pool: Arc<Pool>,
    clock: Arc<dyn Clock>,
    /// Whether the connection still speaks HTTP after this answer.
    is_http: bool,
}

impl UnreadBody {
    /// Reads the body for a second at most, keeps its beginning, and returns the connection to the pool if the body was
    /// read to its end.
    pub async fn read(mut self, kept: &mut Vec<u8>) {
        let deadline = Deadline::after(&self.clock, Answer::BODY_TIMEOUT);
        let read = read_body(&mut self.connection, &mut self.body, kept);
        let was_read = deadline.run(read).await.unwrap_or(false);
        // The body belongs to the connection until it is dropped.
        drop(self.body);
        if was_read && self.is_http {
            self.pool.checkin(self.origin, self.connection);
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").finish_non_exhaustive()
    }
}

/// Reads a body, and keeps its beginning. Returns whether it was read to its end.
async fn read_body(connection: &mut Connection, body: &mut Incoming, kept: &mut Vec<u8>) -> bool {
    let mut left = Answer::BODY_READ;
    while !body.is_end_stream() {
        // At the end of a body of unknown length, or if it cannot be read, in which case the connection is not idle.
        let Some(bytes) = connection.next_bytes(body).await else { return true };
        kept.extend(bytes.iter().take(Answer::BODY_KEPT - kept.len()));
        match left.checked_sub(bytes.len()) {
            Some(rest) => left = rest,
            None => return false,
        }
    }
    true
}

fn message(request: &Request) -> Result<Message, CallFailure> {
    let target = PathAndQuery::try_from(request.target.as_str());
    let target = target.map_err(|_| CallFailure::Connect("the URL cannot be sent".to_owned()))?;
    let mut message = Message::new(Full::new(request.body.clone()));
    *message.method_mut() = match request.method {
        CallMethod::Post => Method::POST,
        CallMethod::Put => Method::PUT,
        CallMethod::Patch => Method::PATCH,
        CallMethod::Get => Method::GET,
        CallMethod::Delete => Method::DELETE,
    };
    *message.uri_mut() = Uri::from(target);
    *message.headers_mut() = request.headers.clone();
    Ok(message)
}
