//! Parameters of the path and the query, refused when unknown, given twice or not readable.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};

use super::{
    suggestions,
    values::{self, Read},
};
use crate::http::{
    access,
    errors::{Fault, Faults, MAX_FAULTS, Problem},
};
use crate::job::{JobId, Topic};

/// The query's parameters; a handler takes those it knows and then calls [`end`](Self::end).
pub struct Query {
    pairs: Vec<(String, Option<String>)>,
    /// The parameters that this call has, as far as they were asked for.
    known: Vec<&'static str>,
    faults: Faults,
}

/// A call without query parameters.
pub struct NoQuery;

/// The job's id from the path.
pub struct JobPath(pub JobId);

/// The topic from the path, which the caller may use.
pub struct TopicPath(pub Topic);

impl Query {
    /// Parses the query as forms are encoded: `+` is a space, escapes are UTF-8.
    pub fn parse(query: &str) -> Self {
        let mut parsed = Self { pairs: Vec::new(), known: Vec::new(), faults: Faults::new(MAX_FAULTS) };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (decode(name), decode(value)) {
                (Some(name), Some(value)) => parsed.pairs.push((name, Some(value))),
                (Some(name), None) => parsed.fault(&name, "is not valid percent-encoded UTF-8"),
                (None, _) => parsed.fault(name, "is not valid percent-encoded UTF-8"),
            }
        }
        parsed
    }

    fn fault(&mut self, name: &str, detail: impl Into<String>) {
        self.faults.push(Fault::parameter(name, detail));
    }

    /// The text of a parameter that may be left out.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        self.single(name)
    }

    fn single(&mut self, name: &str) -> Option<String> {
        let mut found = None;
        for (_, value) in self.pairs.iter_mut().filter(|(key, _)| key == name) {
            let value = value.take();
            if found.is_some() {
                self.faults.push(Fault::parameter(name, "must be given once"));
                return None;
            }
            found = value;
        }
        found
    }

    /// Reads a parameter that may be left out; a fault is kept and reads as left out.
    pub fn take<T>(&mut self, name: &'static str, read: impl FnOnce(&str) -> Read<T>) -> Option<T> {
        let text = self.text(name)?;
        read(&text).map_err(|detail| self.fault(name, detail)).ok()
    }

    /// Refuses a parameter of another call that is often meant, with a hint at that call.
    pub fn refuse(&mut self, name: &str, hint: &str) {
        if self.single(name).is_some() {
            self.fault(name, format!("is not a parameter of this call; {hint}"));
        }
    }

    /// Refuses the call when anything was at fault or is left over.
    pub fn end(mut self) -> Result<(), Problem> {
        for (name, value) in &self.pairs {
            if value.is_some() {
                let detail =
                    suggestions::unknown(name, &self.known, "a parameter of this call", "parameters");
                self.faults.push(Fault::parameter(name, detail));
            }
        }
        if self.faults.is_empty() { Ok(()) } else { Err(Problem::parameters(self.faults)) }
    }
}

/// Undoes the encoding of forms; `None` when an escape is broken or the result is not UTF-8.
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

/// An opaque cursor over `text`: hexadecimal, so that no client has to escape it.
pub fn cursor(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// What a cursor was made from.
pub fn read_cursor(text: &str) -> Read<String> {
    let bytes = text.as_bytes();
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(hex(*high)? << 4 | hex(*low)?),
        _ => None,
    };
    let decoded: Option<Vec<u8>> = bytes.chunks(2).map(pair).collect();
    decoded.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(bad_cursor)
}

/// What is wrong with a cursor that is not ours.
pub fn bad_cursor() -> String {
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
        Query::parse(parts.uri.query().unwrap_or_default()).end().map(|()| Self)
    }
}

/// The path's only parameter, read by `read`.
async fn path_parameter<S: Send + Sync, T>(
    parts: &mut Parts,
    state: &S,
    name: &str,
    read: fn(&str) -> Read<T>,
) -> Result<T, Problem> {
    let refuse = |detail: String| Problem::parameters(Fault::parameter(name, detail).into());
    let parameters = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| refuse("is not valid percent-encoded UTF-8".to_owned()))?;
    let (_, text) = parameters.iter().next().expect("the route of this handler has a parameter");
    read(text).map_err(refuse)
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
        access::check_topic(&access::calling(parts), &topic)?;
        Ok(Self(topic))
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
    fn refuses_what_is_unknown_twice_or_broken() {
        for query in ["wiat=5", "wait=1&wait=2", "wait=%ff", "%ff=1", "wait=x", "wait=1&&other"] {
            let mut read = Query::parse(query);
            read.take("wait", values::duration_text);
            assert!(read.end().is_err(), "{query}");
        }
        let mut read = Query::parse("wait=1&");
        assert!(read.take("wait", values::duration_text).is_some());
        assert!(read.end().is_ok());
    }

    #[test]
    fn cursors_read_back_and_refuse_others() {
        assert_eq!(read_cursor(&cursor("1700-a+b~é")).as_deref(), Ok("1700-a+b~é"));
        for text in ["0", "zz", "ff", "616"] {
            assert!(read_cursor(text).is_err(), "{text}");
        }
    }
}
