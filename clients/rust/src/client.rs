//! The client: its options, and the way of a call through attempts and repeats. The calls themselves are in `jobs`,
//! `batches`, `topics`, `schedules` and `stats`.
//!
//! A failed call is sent again for ten seconds, with pauses that grow and heed `Retry-After`, where that is safe:
//! `request` says for each call what a repeat may do, and `error` whether a failed one may have happened. An add
//! without an id and a pop are sent again only when the server has not seen or not begun them. An answer counts only if it has
//! the form of Linger's: a success with the fields that the call needs, or 204; a refusal with a `code`. Anything
//! else is from a proxy, a login or another service, and then commands fail and workers try again.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{Method, header::HeaderValue};
use tokio::time::timeout;

use crate::{
    connection::Target,
    error::{Error, Refusal},
    pool::Pool,
    repeat::Repeats,
    request::{Repeat, Request, Response},
    tls::{self, Trust},
    url::ServerUrl,
};

/// How a client calls its server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Sent as `Authorization: Bearer`.
    pub token: Option<String>,
    /// Which certificate is accepted from an `https://` server.
    pub trust: Trust,
    /// Connects to this address whatever the name of the server leads to.
    pub address: Option<SocketAddr>,
    /// How long opening a connection may take.
    pub connect_timeout: Duration,
    /// How long one attempt may take, beside what the call itself waits for.
    pub call_timeout: Duration,
    /// How long after its beginning a failed call may be sent again; zero for never. For a call that waits, such as a
    /// long poll, the time begins with its first failure.
    pub repeat_for: Duration,
    /// Most connections at a time; further calls wait for one.
    pub max_connections: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            trust: Trust::default(),
            address: None,
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(30),
            repeat_for: Duration::from_secs(10),
            max_connections: 64,
        }
    }
}

/// Why a client cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The token cannot be sent.
    #[error("the token holds characters that no header can carry")]
    Token,
    /// The host name cannot be sent.
    #[error("{0} cannot be sent as the name of a host")]
    Host(String),
    /// The root certificates cannot be used.
    #[error("{0}")]
    Roots(String),
}

/// Calls one server. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    target: Arc<Target>,
    pool: Arc<Pool>,
    call_timeout: Duration,
    repeat_for: Duration,
    /// Whether nothing is sent again but what the server has not begun.
    repeats_only_unbegun: bool,
}

impl fmt::Debug for Client {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.target.url.to_string()).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server at `url`. Connects with the first call.
    ///
    /// # Errors
    /// When the token, the host or the root certificates cannot be used.
    pub fn new(url: &ServerUrl, options: Options) -> Result<Self, OptionsError> {
        let Options { token, trust, address, connect_timeout, call_timeout, repeat_for, max_connections } =
            options;
        let authority = url.authority();
        let host = HeaderValue::from_str(authority).map_err(|_| OptionsError::Host(authority.to_owned()))?;
        let bearer = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}"))).transpose();
        let mut bearer = bearer.map_err(|_| OptionsError::Token)?;
        if let Some(bearer) = &mut bearer {
            bearer.set_sensitive(true);
        }
        let tls = url.is_secure().then(|| tls::client_config(&trust)).transpose();
        let tls = tls.map_err(OptionsError::Roots)?;
        let target = Target { url: url.clone(), address, host, bearer, tls, connect_timeout };
        let pool = Arc::new(Pool::new(max_connections));
        Ok(Self { target: Arc::new(target), pool, call_timeout, repeat_for, repeats_only_unbegun: false })
    }

    /// A client of the same server with one connection of its own, one call at a time, and no repeats but of calls that
    /// the server has not begun. A measurement needs that: what is carried out is just what it asked for.
    #[must_use]
    pub fn single_connection(&self) -> Self {
        Self { pool: Arc::new(Pool::new(1)), repeats_only_unbegun: true, ..self.clone() }
    }

    /// Opens a connection, so that the first call need not.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn connect(&self) -> Result<(), Error> {
        self.pool.acquire(&self.target, "connect").await.map(|lease| lease.give_back())
    }

    /// Sends one call and reads the whole answer, whatever its status. Never sends it again.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn exchange(&self, request: &Request) -> Result<Response, Error> {
        self.attempt(request, self.call_timeout + request.wait).await
    }

    /// Sends one call, whose answer has to come within `limit`.
    async fn attempt(&self, request: &Request, limit: Duration) -> Result<Response, Error> {
        let (call, mut was_sent) = (request.name, false);
        let attempt = async {
            let mut lease = self.pool.acquire(&self.target, call).await?;
            let response = lease.connection.exchange(&self.target, request, &mut was_sent).await?;
            lease.give_back();
            Ok(response)
        };
        match timeout(limit, attempt).await {
            Ok(answered) => answered,
            Err(_) => Err(Error::TimedOut { call, limit, was_sent }),
        }
    }

    /// Sends a call of the API that has no method here, with JSON or an empty body; see
    /// [`exchange`](Self::exchange).
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn call(&self, method: Method, path: &str, body: Bytes) -> Result<Response, Error> {
        let mut request = Request::new("call", method, path);
        request.body = body;
        self.exchange(&request).await
    }

    /// Sends a call, and again as long as that is safe and of use; the answer is a success. No attempt but the
    /// first goes on after the time for repeats, beside what the call itself waits for.
    ///
    /// # Errors
    /// When the server refuses the call, or does not answer.
    pub async fn send(&self, request: &Request) -> Result<Response, Error> {
        let new_repeats = || Repeats::within(self.repeat_for);
        let mut repeats = request.wait.is_zero().then(new_repeats);
        let mut may_have_happened = false;
        let mut limit = self.call_timeout;
        loop {
            let answer = self.attempt(request, limit + request.wait).await;
            let failure = match answer.and_then(|response| keep_gone(request, may_have_happened, response)) {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            let is_excluded = self.repeats_only_unbegun && !failure.is_not_begun();
            if is_excluded || !request.may_follow(&failure) {
                return Err(failure.after_attempt(may_have_happened));
            }
            may_have_happened |= failure.may_have_happened();
            let left = repeats.get_or_insert_with(new_repeats).pause(failure).await?;
            limit = self.call_timeout.min(left);
        }
    }
}

/// A success as it is, also the server's 404 where an earlier attempt may have removed what the call is about; else the refusal.
fn keep_gone(request: &Request, may_have_happened: bool, response: Response) -> Result<Response, Error> {
    let may_be_gone = response.status == 404 && may_have_happened && request.repeat == Repeat::SafeUntilGone;
    if may_be_gone {
        let code = Refusal::new(404, None, response.body.clone()).code;
        if ["job_not_found", "schedule_not_found"].contains(&code.as_str()) {
            return Ok(response);
        }
    }
    response.success()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Added, NewJob, PopRequest,
        test_server::{CUT, SILENCE, TestServer, answer},
    };

    const JOB: &str = r#"{"id":"a","topic":"t","state":"ready","created_at":"2026-11-21T05:40:00.000Z",
        "due_at":"2026-11-21T05:40:00.000Z","ttr":60,"attempts":0,"max_attempts":16,"body":null}"#;
    const GONE: &str = r#"{"status":404,"code":"job_not_found","detail":"there is no such job"}"#;
    const AWAY: &str = r#"{"status":503,"code":"store_unavailable","detail":"the store is away"}"#;
    const NOT_BEGUN: &str = r#"{"status":503,"code":"not_begun","detail":"the server was paused"}"#;

    #[tokio::test]
    async fn an_add_with_an_id_is_repeated_until_it_is_answered() {
        let answers = vec![CUT.to_owned(), answer(503, "retry-after: 1\r\n", AWAY), answer(200, "", JOB)];
        let server = TestServer::start(answers).await;
        let (began, client) = (tokio::time::Instant::now(), server.client());
        let added = client.add(&NewJob::new("t").id("a")).await.expect("the third attempt succeeds");
        assert!(matches!(&added, Added::Repeated(job) if job.id == "a"), "{added:?}");
        assert!(began.elapsed() >= Duration::from_secs(1), "Retry-After is kept");
        assert_eq!(server.lines(), ["POST /jobs HTTP/1.1"; 3]);
    }

    #[tokio::test]
    async fn a_call_that_would_do_more_is_sent_once() {
        let server = TestServer::start(vec![CUT.to_owned(), answer(503, "", AWAY)]).await;
        let failure = server.client().add(&NewJob::new("t")).await.expect_err("is cut");
        assert!(matches!(failure, Error::Cut { call: "add", .. }), "{failure:?}");
        let failure = server.client().pop("t", &PopRequest::default()).await.expect_err("is refused");
        assert_eq!(failure.to_string(), "pop: the server answers 503: store_unavailable, the store is away");
        assert_eq!(server.lines().len(), 2);
    }

    #[tokio::test]
    async fn repeats_end_when_the_server_asks_for_more_time_than_there_is() {
        let server = TestServer::start(vec![answer(503, "retry-after: 60\r\n", AWAY)]).await;
        let failure = server.client().version().await.expect_err("is refused");
        let wanted = failure.refusal().and_then(|refusal| refusal.retry_after);
        assert_eq!((wanted, server.lines().len()), (Some(Duration::from_secs(60)), 1));
        // More than the clock can count.
        let server =
            TestServer::start(vec![answer(503, "retry-after: 18446744073709551615\r\n", AWAY)]).await;
        server.client().version().await.expect_err("is refused");
    }

    #[tokio::test]
    async fn a_job_that_is_gone_after_a_lost_answer_was_removed_by_it() {
        let not_found = || answer(404, "", GONE);
        let answers =
            vec![CUT.to_owned(), not_found(), not_found(), CUT.to_owned(), not_found(), not_found()];
        let server = TestServer::start(answers).await;
        let client = server.client();
        client.finish("a", Some("9f")).await.expect("the first attempt finished it");
        let failure = client.finish("a", Some("9f")).await.expect_err("there was none");
        assert_eq!(failure.refusal().map(|refusal| refusal.code.as_str()), Some("job_not_found"));
        assert!(client.delete("a").await.expect("is answered"), "the first attempt deleted it");
        assert!(!client.delete("a").await.expect("is answered"));
    }

    /// The page of a proxy, a login, or another service.
    #[tokio::test]
    async fn an_answer_that_is_not_lingers_is_never_taken_for_one() {
        let page = || answer(200, "content-type: text/html\r\n", "<html>hi</html>");
        let redirect = answer(302, "location: https://login.example/\r\n", "");
        let of_proxy = answer(404, "", "<html>no such page</html>");
        let other_json = answer(200, "", r#"{"status":"up"}"#);
        let pages = (0..4).map(|_| page()).chain([redirect, CUT.to_owned(), of_proxy, other_json, page()]);
        let server = TestServer::start(pages.collect()).await;
        let client = server.client();
        let foreign = |failure: Error| {
            assert!(failure.to_string().contains("the answer is not Linger's: "), "{failure}");
            failure.to_string()
        };
        let finished = foreign(client.finish("a", Some("9f")).await.expect_err("is a page"));
        let expected = "the answer is not Linger's: 200 text/html: <html>hi</html> (204 was expected)";
        assert_eq!(finished, format!("finish: {expected}"));
        foreign(client.delete("a").await.expect_err("is a page"));
        foreign(client.get("a").await.expect_err("is a page"));
        foreign(client.put_settings("t", &()).await.expect_err("is a page"));
        let redirected = foreign(client.finish("a", None).await.expect_err("is a redirect"));
        assert!(redirected.ends_with("302: a redirect to https://login.example/"), "{redirected}");
        foreign(client.delete("a").await.expect_err("the proxy knows nothing of the job"));
        foreign(client.ready().await.expect_err("another service is up"));
        foreign(client.ready().await.expect_err("is a page"));
    }

    #[tokio::test]
    async fn a_call_that_would_do_more_is_sent_again_when_it_was_not_begun() {
        let server = TestServer::start(vec![answer(503, "", NOT_BEGUN), answer(204, "", "")]).await;
        let client = server.client().single_connection();
        assert!(client.pop("t", &PopRequest::default()).await.expect("the second one is answered").is_none());
        assert_eq!(server.lines().len(), 2);
    }

    #[tokio::test]
    async fn a_single_connection_repeats_nothing_that_may_have_happened_and_is_reopened() {
        let answers = vec![CUT.to_owned(), answer(503, "", AWAY), answer(200, "", r#"{"deleted":3}"#)];
        let server = TestServer::start(answers).await;
        let client = server.client().single_connection();
        assert!(matches!(client.purge("t").await, Err(Error::Cut { .. })));
        assert!(matches!(client.purge("t").await, Err(Error::Refused { .. })));
        assert_eq!(client.purge("t").await.expect("is answered"), 3);
    }

    #[tokio::test]
    async fn a_server_that_speaks_something_else_is_recognised() {
        let server =
            TestServer::start(vec!["\u{15}\u{3}\u{1}\0\u{2}".to_owned(), "SSH-2.0\r\n".to_owned()]).await;
        let client = server.client();
        let failure = client.version().await.expect_err("is no HTTP");
        assert!(matches!(failure, Error::WrongScheme { server_speaks_tls: true, .. }), "{failure:?}");
        let failure = client.single_connection().version().await.expect_err("is no HTTP");
        assert!(matches!(failure, Error::Unreadable { .. }), "{failure:?}");
    }

    #[tokio::test]
    async fn a_silent_server_is_given_up_in_time() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = ServerUrl::new(listener.local_addr().expect("has one").to_string(), false);
        let limit = Duration::from_millis(50);
        let options = Options { call_timeout: limit, repeat_for: Duration::ZERO, ..Options::default() };
        let client = Client::new(&url, options).expect("the options are sound");
        let failure = client.version().await.expect_err("no answer comes");
        assert_eq!(failure.to_string(), "version: no answer within 50ms");
        drop(listener);
        let patient = Options { repeat_for: Duration::ZERO, ..Options::default() };
        let client = Client::new(&url, patient).expect("the options are sound");
        let failure = client.version().await.expect_err("no server listens");
        assert!(matches!(failure, Error::NotConnected { is_permanent: false, .. }), "{failure:?}");
    }

    #[tokio::test]
    async fn a_repeat_has_no_more_time_than_is_left() {
        let server = TestServer::start(vec![answer(503, "", AWAY), SILENCE.to_owned()]).await;
        // Longer than a machine stands still before the second attempt.
        let limit = Duration::from_secs(3);
        let options = Options { call_timeout: limit, repeat_for: limit, ..Options::default() };
        let client = Client::new(&server.url, options).expect("the options are sound");
        let failure = client.version().await.expect_err("the second attempt is not answered");
        let Error::TimedOut { limit: left, .. } = failure else { panic!("{failure:?}") };
        assert!(left < limit, "{left:?}");
    }

    #[tokio::test]
    async fn the_wait_of_a_poll_is_no_time_for_repeats() {
        let server = TestServer::start(vec![SILENCE.to_owned(), answer(204, "", "")]).await;
        // A machine may stand still for two thirds of the time for repeats.
        let [call_timeout, repeat_for, wait] = [50, 3_000, 3_100].map(Duration::from_millis);
        let options = Options { call_timeout, repeat_for, ..Options::default() };
        let client = Client::new(&server.url, options).expect("the options are sound");
        let poll = Request::pop("t", &PopRequest { wait, ..PopRequest::default() }).repeat(Repeat::Safe);
        assert_eq!(client.send(&poll).await.expect("the repeat is answered").status, 204);
    }

    #[test]
    fn options_that_cannot_be_used_are_refused() {
        let url: ServerUrl = "https://linger".parse().expect("is a URL");
        let token = Options { token: Some("a\nb".to_owned()), ..Options::default() };
        assert_eq!(Client::new(&url, token).err(), Some(OptionsError::Token));
        let file = Options { trust: Trust::RootsFile("/nonexistent".into()), ..Options::default() };
        let refused = Client::new(&url, file).expect_err("there is no such file");
        assert!(refused.to_string().starts_with("/nonexistent: "), "{refused}");
    }
}
