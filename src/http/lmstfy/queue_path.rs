//! What a request names in its path and query before its own parameters: namespace, queue, job and token.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, Method, Uri, request::Parts},
};
use percent_encoding::percent_decode_str;

use super::requests::Parameters;
use crate::{
    compat::names,
    http::errors::Problem,
    job::{JobId, Topic},
};

/// Longest name of a namespace or a queue in lmstfy. Together they are a topic here, which may be shorter.
const MAX_NAME: usize = 255;
const TOO_LONG: &str = "namespace or queue name too long";
const BAD_NAMESPACE: &str = "namespace name contains forbidden characters";
const BAD_QUEUE: &str = "queue name contains forbidden characters";

/// The namespace of a call, its queue or queues, and its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePath {
    namespace: String,
    /// The only queue, or several with commas between them where the call consumes.
    queue: String,
    job: Option<String>,
    /// Whether it ends behind the queue.
    is_queue: bool,
    is_size: bool,
}

impl QueuePath {
    /// Reads the path of a route: `/api/{namespace}/{queue}...`. Names of other paths are empty.
    pub fn parse(uri: &Uri) -> Self {
        let decode = |segment: &str| percent_decode_str(segment).decode_utf8_lossy().into_owned();
        let mut segments = uri.path().split('/').skip(2);
        let [namespace, queue] = [(); 2].map(|()| segments.next().map(decode).unwrap_or_default());
        let rest: Vec<&str> = segments.collect();
        let job = if let ["job", job] = rest[..] { Some(decode(job)) } else { None };
        let is_size = matches!(rest[..], ["size"] | ["deadletter", "size"]);
        Self { namespace, queue, job, is_queue: rest.is_empty(), is_size }
    }

    /// Checks the names. Only a consume may name several queues, and queues that begin with `_`.
    ///
    /// # Errors
    /// The first fault, in lmstfy's words.
    pub fn check(&self, method: &Method) -> Result<(), Problem> {
        let is_consume = *method == Method::GET && self.is_queue;
        let is_name = |name: &str, extra: &[u8]| {
            !name.is_empty()
                && name.bytes().all(|byte| {
                    byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || extra.contains(&byte)
                })
        };
        if !is_consume && [&self.namespace, &self.queue].iter().any(|name| name.len() > MAX_NAME) {
            return Err(Problem::malformed(TOO_LONG));
        }
        if !is_name(&self.namespace, b"") {
            return Err(Problem::malformed(BAD_NAMESPACE));
        }
        let is_queue = if is_consume {
            is_name(&self.queue, b",")
        } else {
            !self.queue.starts_with('_') && is_name(&self.queue, b"")
        };
        if !is_queue {
            return Err(Problem::malformed(BAD_QUEUE));
        }
        self.topics().map(drop)
    }

    /// The topics of its queues, in their order.
    ///
    /// # Errors
    /// A name that is too long for a topic.
    pub fn topics(&self) -> Result<Vec<Topic>, Problem> {
        let queues = self.queue.split(',').filter(|queue| !queue.is_empty());
        queues.map(|queue| topic_of(&self.namespace, queue)).collect()
    }

    /// The topic of its only queue.
    ///
    /// # Errors
    /// As [`topics`](Self::topics).
    pub fn topic(&self) -> Result<Topic, Problem> {
        topic_of(&self.namespace, &self.queue)
    }

    /// Whether it asks for the size of a queue or of its dead letters.
    pub fn is_size(&self) -> bool {
        self.is_size
    }

    /// The job that it names; `None` if no job can have that name.
    pub fn job(&self) -> Option<JobId> {
        names::id_of(self.job.as_ref()?.as_bytes()).ok()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for QueuePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self::parse(&parts.uri))
    }
}

/// The topic of a queue. Neither part of its name has the separator.
fn topic_of(namespace: &str, queue: &str) -> Result<Topic, Problem> {
    Topic::parse(&format!("{namespace}:{queue}")).map_err(|_| Problem::malformed(TOO_LONG))
}

/// The namespace and the queue that a topic stands for.
pub fn queue_of(topic: &Topic) -> (&str, &str) {
    topic.as_str().split_once(':').unwrap_or(("", topic.as_str()))
}

/// A token as clients send it: `[pool:]token`, in a header, or else in the query. Empty if there is none.
#[derive(Debug, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The only pool that every server of lmstfy has.
    const POOL: &str = "default";

    /// # Errors
    /// A pool that does not exist.
    pub fn in_request(headers: &HeaderMap, uri: &Uri) -> Result<Self, Problem> {
        let header =
            headers.get("x-token").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let given = header.filter(|token| !token.is_empty());
        let given =
            given.or_else(|| Parameters::in_query(uri).get("token").map(str::to_owned)).unwrap_or_default();
        match given.split_once(':') {
            None => Ok(Self(given)),
            Some((Self::POOL, token)) => Ok(Self(token.to_owned())),
            Some(_) => Err(Problem::no_route("pool not found")),
        }
    }

    /// The token itself; `None` if there is none.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        (!self.0.is_empty()).then_some(self.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(method: Method, path: &str) -> Result<QueuePath, String> {
        let uri: Uri = path.parse().expect("is a URI");
        let path = QueuePath::parse(&uri);
        path.check(&method).map(|()| path).map_err(|problem| problem.detail().to_owned())
    }

    #[test]
    fn a_path_names_namespace_queue_and_job() {
        let path = checked(Method::PUT, "/api/n-s/q_1/job/a%2Fb").expect("is valid");
        assert_eq!((&*path.namespace, &*path.queue), ("n-s", "q_1"));
        assert_eq!(path.job(), Some(JobId::parse("a=2Fb").expect("is an id")));
        assert_eq!(path.topic().expect("is short").as_str(), "n-s:q_1");
        assert_eq!(queue_of(&path.topic().expect("is short")), ("n-s", "q_1"));
        let several = checked(Method::GET, "/api/n/,_a,,b").expect("is valid").topics().expect("are short");
        assert_eq!(several.iter().map(Topic::as_str).collect::<Vec<_>>(), ["n:_a", "n:b"]);
        assert_eq!(
            checked(Method::GET, "/api/n/,").map(|path| path.topics().map_or(1, |all| all.len())),
            Ok(0)
        );
    }

    #[test]
    fn names_are_refused_in_the_order_of_lmstfy() {
        let long = "x".repeat(256);
        for (method, path, refusal) in [
            (Method::PUT, format!("/api/%20/{long}"), TOO_LONG),
            (Method::GET, format!("/api/n/{}", "x".repeat(127)), TOO_LONG),
            (Method::PUT, "/api/n%20s/_q".to_owned(), BAD_NAMESPACE),
            (Method::GET, "/api/a.b/q".to_owned(), BAD_NAMESPACE),
            (Method::PUT, "/api/n/_q".to_owned(), BAD_QUEUE),
            (Method::GET, "/api/n/_q/size".to_owned(), BAD_QUEUE),
            (Method::PUT, "/api/n/a,b".to_owned(), BAD_QUEUE),
            (Method::GET, "/api/n/a;b".to_owned(), BAD_QUEUE),
        ] {
            assert_eq!(checked(method, &path), Err(refusal.to_owned()), "{path}");
        }
    }

    #[test]
    fn a_token_is_in_the_header_or_the_query() {
        let token = |header: Option<&str>, path: &str| {
            let headers =
                header.map(|value| ("x-token".parse().expect("a name"), value.parse().expect("a value")));
            Token::in_request(&headers.into_iter().collect(), &path.parse().expect("is a URI"))
                .map(|token| token.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
                .map_err(|problem| problem.detail().to_owned())
        };
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(token(Some("01H"), "/api/n/q?token=x"), some("01H"));
        assert_eq!(token(Some(""), "/api/n/q?a=b&token=x%3Dy"), some("x=y"));
        assert_eq!(token(Some("default:01H"), "/"), some("01H"));
        assert_eq!(token(Some("other:01H"), "/"), Err("pool not found".to_owned()));
        assert_eq!(token(None, "/?token=default:"), Ok(None));
        assert_eq!(token(None, "/"), Ok(None));
    }
}
