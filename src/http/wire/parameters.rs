//! Parameters of the path and the query. Unknown, duplicate and invalid ones are refused.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};

use super::{
    suggestions,
    values::{self, ParseResult},
};
use crate::{
    http::{
        access,
        errors::{Fault, Faults, MAX_FAULTS, Problem},
    },
    job::{JobId, OperationId, ScheduleName, SecretId, Topic},
};

/// The query's parameters. A handler reads those that it knows and then calls [`finish`](Self::finish).
pub struct Query {
    /// Names and values; a value is `None` once it was read.
    pairs: Vec<(String, Option<QueryValue>)>,
    /// The names that were read so far, which are the known parameters of this request.
    known: Vec<&'static str>,
    faults: Faults,
}

/// The value of a parameter.
struct QueryValue {
    text: String,
    /// The text if a `+` were not a space, where there is one.
    with_plus: Option<String>,
}

/// The topic in the path, which the caller's token covers, and the id of a secret.
pub struct SecretPath {
    pub topic: Topic,
    pub id: SecretId,
}

/// A request without query parameters.
pub struct NoQuery;

/// The job's id in the path.
pub struct JobPath(pub JobId);

/// The topic in the path, which the caller's token covers.
pub struct TopicPath(pub Topic);

/// The name of a schedule in the path.
pub struct SchedulePath(pub ScheduleName);

/// The id of a bulk operation in the path.
pub struct OperationPath(pub OperationId);

impl Query {
    /// Parses the query as forms are encoded: `+` is a space, escapes are UTF-8.
    pub fn parse(query: &str) -> Self {
        let mut parsed = Self { pairs: Vec::new(), known: Vec::new(), faults: Faults::new(MAX_FAULTS) };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (decode(name), QueryValue::decode(value)) {
                (Some(name), Some(value)) => parsed.pairs.push((name, Some(value))),
                (Some(name), None) => parsed.add_fault(&name, "is not valid percent-encoded UTF-8"),
                (None, _) => parsed.add_fault(name, "is not valid percent-encoded UTF-8"),
            }
        }
        parsed
    }

    fn add_fault(&mut self, name: &str, detail: impl Into<String>) {
        self.faults.push(Fault::in_parameter(name, detail));
    }

    /// The text of a parameter that may be left out.
    pub fn optional_text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        self.remove(name).map(|value| value.text)
    }

    fn remove(&mut self, name: &str) -> Option<QueryValue> {
        let mut found = None;
        for (_, value) in self.pairs.iter_mut().filter(|(key, _)| key == name) {
            let value = value.take();
            if found.is_some() {
                self.faults.push(Fault::in_parameter(name, "must be given once"));
                return None;
            }
            found = value;
        }
        found
    }

    /// Reads a parameter that may be left out. A fault is recorded and reads as left out.
    pub fn optional<T>(&mut self, name: &'static str, parse: impl Fn(&str) -> ParseResult<T>) -> Option<T> {
        self.known.push(name);
        let QueryValue { text, with_plus } = self.remove(name)?;
        let refuse = |detail| match with_plus {
            Some(meant) if parse(&meant).is_ok() => {
                "has a \"+\", which means a space in a query: write it as %2B".to_owned()
            }
            _ => detail,
        };
        parse(&text).map_err(|detail| self.add_fault(name, refuse(detail))).ok()
    }

    /// Refuses a parameter that belongs to another operation but is often sent to this one, with a hint at that other
    /// operation.
    pub fn refuse(&mut self, name: &str, hint: &str) {
        if self.remove(name).is_some() {
            self.add_fault(name, format!("is not a parameter of this call; {hint}"));
        }
    }

    /// Refuses a parameter that was read, because of another one.
    pub fn refuse_value(&mut self, name: &str, detail: &str) {
        self.add_fault(name, detail);
    }

    /// Ends reading: an error if there was any fault. A parameter that was not read is a fault.
    pub fn finish(mut self) -> Result<(), Problem> {
        for (name, value) in &self.pairs {
            if value.is_some() {
                let detail =
                    suggestions::unknown_name(name, &self.known, "a parameter of this call", "parameters");
                self.faults.push(Fault::in_parameter(name, detail));
            }
        }
        if self.faults.is_empty() { Ok(()) } else { Err(Problem::invalid_parameters(self.faults)) }
    }
}

impl QueryValue {
    fn decode(text: &str) -> Option<Self> {
        let with_plus = if text.contains('+') { decode(&text.replace('+', "%2B")) } else { None };
        Some(Self { text: decode(text)?, with_plus })
    }
}

/// Decodes the encoding of forms; `None` if an escape is invalid or the result is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let (high, low) = (hex(bytes.next()?)?, hex(bytes.next()?)?);
                out.push(high << 4 | low);
            }
            b'+' => out.push(b' '),
            other => out.push(other),
        }
    }
    String::from_utf8(out).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| u8::try_from(value).expect("a hexadecimal digit is below 16"))
}

/// Encodes `text` as an opaque cursor: in hexadecimal, so that no client has to escape it.
pub fn encode_cursor(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The text that a cursor encodes.
pub fn decode_cursor(text: &str) -> ParseResult<String> {
    let bytes = text.as_bytes();
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(hex(*high)? << 4 | hex(*low)?),
        _ => None,
    };
    let decoded: Option<Vec<u8>> = bytes.chunks(2).map(pair).collect();
    decoded.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(invalid_cursor)
}

/// The detail for a cursor that no response contained.
pub fn invalid_cursor() -> String {
    "must be the next_cursor of the page before".to_owned()
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for NoQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Query::parse(parts.uri.query().unwrap_or_default()).finish().map(|()| Self)
    }
}

/// Parses a parameter of the path.
async fn path_parameter<S: Send + Sync, T>(
    parts: &mut Parts,
    state: &S,
    name: &str,
    parse: fn(&str) -> ParseResult<T>,
) -> Result<T, Problem> {
    let refuse = |detail: String| Problem::invalid_parameters(Fault::in_parameter(name, detail).into());
    let parameters = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| refuse("is not valid percent-encoded UTF-8".to_owned()))?;
    let (_, text) = parameters
        .iter()
        .find(|(key, _)| *key == name)
        .expect("the route of every handler with a path parameter has it");
    parse(text).map_err(refuse)
}

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_parameter(parts, state, "id", values::job_id_text).await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TopicPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let topic = path_parameter(parts, state, "topic", values::topic_text).await?;
        access::check_topic(&access::caller_of(parts), &topic)?;
        Ok(Self(topic))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OperationPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let id = |text: &str| OperationId::parse(text).map_err(|error| error.to_string());
        path_parameter(parts, state, "id", id).await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SchedulePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = |text: &str| ScheduleName::parse(text).map_err(|error| error.to_string());
        path_parameter(parts, state, "name", name).await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SecretPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let TopicPath(topic) = TopicPath::from_request_parts(parts, state).await?;
        let id = |text: &str| {
            SecretId::parse(text).ok_or_else(|| "must be the id of a secret: 16 digits 0-9 a-f".to_owned())
        };
        Ok(Self { topic, id: path_parameter(parts, state, "id", id).await? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_forms_strictly() {
        assert_eq!(decode("a%20b+c%C3%A9").as_deref(), Some("a b cé"));
        for broken in ["%", "%4", "%zz", "%ff", "%c3"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }

    #[test]
    fn refuses_unknown_duplicate_and_invalid_parameters() {
        for query in ["wiat=5", "wait=1&wait=2", "wait=%ff", "%ff=1", "wait=x", "wait=1&&other"] {
            let mut parsed = Query::parse(query);
            parsed.optional("wait", values::duration_text);
            assert!(parsed.finish().is_err(), "{query}");
        }
        let mut parsed = Query::parse("wait=1&");
        assert!(parsed.optional("wait", values::duration_text).is_some());
        assert!(parsed.finish().is_ok());
    }

    #[test]
    fn a_plus_that_was_not_meant_as_a_space_is_named() {
        let faults = |query: &str| {
            let mut parsed = Query::parse(query);
            parsed.optional("from", values::timestamp_text);
            parsed.finish().err().map(|problem| format!("{problem:?}"))
        };
        let detail = faults("from=2027-01-01T00:00:00+01:00").expect("is refused");
        assert!(detail.contains("%2B"), "{detail}");
        let detail = faults("from=a+b").expect("is refused");
        assert!(detail.contains("RFC 3339") && !detail.contains("%2B"), "{detail}");
        for valid in ["from=2027-01-01T00:00:00%2B01:00", "from=2027-01-01+00:00:00Z"] {
            assert_eq!(faults(valid), None, "{valid}");
        }
    }

    #[test]
    fn cursors_decode_to_their_text_and_others_are_refused() {
        assert_eq!(decode_cursor(&encode_cursor("1700-a+b~é")).as_deref(), Ok("1700-a+b~é"));
        for text in ["0", "zz", "ff", "616"] {
            assert!(decode_cursor(text).is_err(), "{text}");
        }
    }
}
