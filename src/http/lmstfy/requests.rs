//! The parameters and bodies of the dialect's calls. A refusal is lmstfy's text, or one of ours where it has no limit.

use std::{borrow::Cow, time::Duration};

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, StatusCode, Uri, request::Parts},
};
use bytes::Bytes;
use ulid::Ulid;

use crate::{
    compat::encoding,
    http::errors::Problem,
    job::{Delay, Due, Expire, ExpiryChange, JobId, NewJob, OnExpiry, Timestamp, Topic, Ttr},
    queue::Requeue,
};

pub type Parsed<T> = Result<T, Problem>;

/// A refusal in lmstfy's words, or in ours where it has no limit.
pub fn refuse(text: impl Into<Cow<'static, str>>) -> Problem {
    Problem::in_dialect(StatusCode::BAD_REQUEST, "invalid_parameter", text)
}

pub fn too_large(text: &'static str) -> Problem {
    Problem::in_dialect(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", text)
}

/// Most jobs of one consume.
const MAX_COUNT: u64 = 100;
/// What counts where a request has no such parameter: lmstfy's configuration as it is delivered.
const DEFAULT_TTL_S: u64 = 86_400;
const DEFAULT_TRIES: u64 = 1;
const DEFAULT_TTR_S: u64 = 120;

const MAX_U32: u64 = u32::MAX as u64;

/// The parameters in a query, as Go reads them: the first of several counts, and others are ignored.
#[derive(Debug)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub fn in_query(uri: &Uri) -> Self {
        Self(form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// A number without a sign, at most `max`; `None` if it is none.
    fn number(&self, name: &str, default: u64, max: u64) -> Option<u64> {
        let Some(text) = self.get(name) else { return Some(default) };
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| is_number && *number <= max)
    }

    /// A whole number from `min` on, which may have a sign.
    fn signed(&self, name: &str, default: i64, min: i64) -> Option<u64> {
        let number = self.get(name).map_or(Some(default), |text| text.parse().ok());
        number.filter(|number| *number >= min).map(i64::unsigned_abs)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self::in_query(&parts.uri))
    }
}

/// How published jobs are to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    delay_s: u32,
    due: Due,
    /// `None`: for ever.
    expire: Option<Expire>,
    tries: u32,
    has_version: bool,
}

impl Publish {
    /// Delays beyond the longest one of the queue are moments, counted from `now`, unless the operator allows less than that
    /// longest one (`max_delay`).
    pub fn parse(query: &Parameters, headers: &HeaderMap, max_delay: Delay, now: Timestamp) -> Parsed<Self> {
        let delay_s = query.number("delay", 0, MAX_U32).ok_or_else(|| refuse("invalid delay"))?;
        let ttl_s = query.number("ttl", DEFAULT_TTL_S, MAX_U32).ok_or_else(|| refuse("invalid ttl"))?;
        if ttl_s > 0 && ttl_s < delay_s {
            return Err(refuse("ttl is shorter than delay"));
        }
        let tries = query
            .number("tries", DEFAULT_TRIES, u64::from(u16::MAX))
            .ok_or_else(|| refuse("invalid tries"))?;
        if tries == 0 {
            return Err(refuse("tries shouldn't be zero"));
        }
        let seconds = Duration::from_secs;
        let due = match Delay::new(seconds(delay_s)) {
            Ok(delay) if delay <= max_delay => Due::After(delay),
            Err(_) if max_delay == Delay::LONGEST => Due::At(now.after(seconds(delay_s))),
            Ok(_) | Err(_) => {
                let limit = max_delay.as_duration().as_secs();
                return Err(refuse(format!("delay must be at most {limit} here")));
            }
        };
        // Counted from the due time, which is the store's, so that the two cannot cross where clocks differ.
        let expire = (ttl_s > 0).then(|| match (due, Delay::new(seconds(ttl_s - delay_s))) {
            (Due::After(_), Ok(after_due)) => Expire::After(after_due),
            (Due::After(_) | Due::At(_), _) => Expire::At(now.after(seconds(ttl_s))),
        });
        Ok(Self {
            delay_s: u32::try_from(delay_s).unwrap_or(u32::MAX),
            due,
            expire,
            tries: u32::try_from(tries).unwrap_or(u32::MAX),
            has_version: has_version(headers),
        })
    }

    /// A job of `topic` with this payload and an id of its own.
    pub fn job(&self, topic: &Topic, payload: &Bytes, now: Timestamp) -> NewJob {
        NewJob {
            id: Some(self.new_id(now)),
            topic: topic.clone(),
            due: self.due,
            ttr: None,
            max_attempts: Some(self.tries),
            retry: None,
            expire: self.expire,
            on_expiry: self.expire.map(|_| OnExpiry::Delete),
            revision: None,
            replaces: false,
            callback: None,
            trace: None,
            body: encoding::body_of(payload),
        }
    }

    /// A ULID whose last four bytes are the delay in seconds, the lowest byte first: its clients may read it.
    fn new_id(&self, now: Timestamp) -> JobId {
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        let random = u128::from(rand::random::<u64>()) << 32 | u128::from(self.delay_s.swap_bytes());
        let ulid = Ulid::from_parts(millis, random);
        let id = if self.has_version { format!("1{ulid}") } else { ulid.to_string() };
        JobId::parse(&id).expect("letters and digits are an id")
    }
}

/// Refuses a payload that is longer than `max_body`.
pub fn check_size(payload: &[u8], max_body: usize) -> Parsed<()> {
    if payload.len() > max_body { Err(too_large("body too large")) } else { Ok(()) }
}

/// Whether the client wants jobs of the version that may have attributes.
fn has_version(headers: &HeaderMap) -> bool {
    headers.get("enable-job-version").is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"yes"))
}

/// Refuses the attributes of a job, which would be lost.
pub fn refuse_attributes(headers: &HeaderMap) -> Parsed<()> {
    let mut names = headers.iter().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name.as_str());
    if has_version(headers) && names.any(|name| name.starts_with("job-attr-")) {
        return Err(refuse("job attributes are not supported"));
    }
    Ok(())
}

/// What a consume asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Consume {
    pub ttr: Ttr,
    pub wait: Duration,
    pub count: usize,
}

/// A TTR of 0 is the shortest one.
pub fn consume(query: &Parameters) -> Parsed<Consume> {
    let ttr_s = query.number("ttr", DEFAULT_TTR_S, MAX_U32).ok_or_else(|| refuse("invalid ttr"))?;
    let timeout_s = query.number("timeout", 0, MAX_U32).ok_or_else(|| refuse("invalid timeout"))?;
    let count = query
        .number("count", 1, MAX_COUNT)
        .filter(|count| *count > 0)
        .ok_or_else(|| refuse("invalid count"))?;
    let ttr = Ttr::new(Duration::from_secs(ttr_s.max(1)))
        .map_err(|_| refuse(format!("ttr must be at most {} here", Ttr::MAX.as_secs())))?;
    Ok(Consume { ttr, wait: Duration::from_secs(timeout_s), count: usize::try_from(count).unwrap_or(1) })
}

/// The refusal of a consume that names no queue.
pub fn no_queue() -> Problem {
    refuse("invalid queue name(s)")
}

/// How many dead letters are respawned, and how.
pub fn respawn(query: &Parameters, now: Timestamp) -> Parsed<(usize, Requeue)> {
    let limit = limit(query)?;
    let ttl_s = query.signed("ttl", DEFAULT_TTL_S.cast_signed(), 0).ok_or_else(|| refuse("invalid ttl"))?;
    let ttl = Duration::from_secs(ttl_s);
    let expire = Delay::new(ttl).map_or_else(|_| Expire::At(now.after(ttl)), Expire::After);
    let expiry = match ttl_s {
        0 => ExpiryChange::Clear,
        _ => ExpiryChange::Set(expire, Some(OnExpiry::Delete)),
    };
    Ok((limit, Requeue { expiry, ..Requeue::default() }))
}

/// How many dead letters a call is about.
pub fn limit(query: &Parameters) -> Parsed<usize> {
    let limit = query.signed("limit", 1, 1).ok_or_else(|| refuse("invalid limit"))?;
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_millis(1_767_225_600_000)
    }

    fn query(text: &str) -> Parameters {
        Parameters::in_query(&format!("/?{text}").parse().expect("is a URI"))
    }

    /// With the text of a refusal.
    fn refused<T>(parsed: Parsed<T>) -> Result<T, String> {
        parsed.map_err(|problem| problem.detail().to_owned())
    }

    fn publish(text: &str) -> Result<Publish, String> {
        refused(Publish::parse(&query(text), &HeaderMap::new(), Delay::LONGEST, now()))
    }

    fn delay(seconds: u64) -> Delay {
        Delay::new(Duration::from_secs(seconds)).expect("is short")
    }

    #[test]
    fn the_first_of_several_parameters_counts() {
        let query = query("a=1&b=x+y%21&a=2&c&=d");
        assert_eq!(
            [query.get("a"), query.get("b"), query.get("c"), query.get("x")],
            [Some("1"), Some("x y!"), Some(""), None]
        );
    }

    #[test]
    fn a_publish_has_the_defaults_of_lmstfy() {
        let parsed = publish("other=1").expect("is valid");
        assert_eq!(
            (parsed.due, parsed.expire, parsed.tries),
            (Due::After(delay(0)), Some(Expire::After(delay(86_400))), 1)
        );
        let parsed = publish("delay=60&ttl=60&tries=65535").expect("is valid");
        assert_eq!(
            (parsed.due, parsed.expire, parsed.tries),
            (Due::After(delay(60)), Some(Expire::After(delay(0))), 65_535)
        );
        assert_eq!(publish("ttl=0&delay=4294967295").map(|parsed| parsed.expire), Ok(None));
        let far = publish("delay=4294967294&ttl=4294967295").expect("is valid");
        let at = |seconds| now().after(Duration::from_secs(seconds));
        assert_eq!((far.due, far.expire), (Due::At(at(4_294_967_294)), Some(Expire::At(at(4_294_967_295)))));
    }

    #[test]
    fn parameters_are_refused_in_the_order_of_lmstfy() {
        for (text, refusal) in [
            ("delay=-1&ttl=x", "invalid delay"),
            ("delay=+1", "invalid delay"),
            ("delay=4294967296", "invalid delay"),
            ("delay=", "invalid delay"),
            ("delay=1.5", "invalid delay"),
            ("ttl=1s&tries=x", "invalid ttl"),
            ("delay=2&ttl=1&tries=0", "ttl is shorter than delay"),
            ("tries=65536", "invalid tries"),
            ("tries=0", "tries shouldn't be zero"),
        ] {
            assert_eq!(publish(text), Err(refusal.to_owned()), "{text}");
        }
        let max = Publish::parse(&query("delay=61&ttl=0"), &HeaderMap::new(), delay(60), now());
        assert_eq!(refused(max), Err("delay must be at most 60 here".to_owned()));
        for (text, refusal) in [
            ("ttr=x&timeout=x", "invalid ttr"),
            ("timeout=x&count=0", "invalid timeout"),
            ("count=0", "invalid count"),
            ("count=101", "invalid count"),
            ("ttr=2592001", "ttr must be at most 2592000 here"),
        ] {
            assert_eq!(refused(consume(&query(text))), Err(refusal.to_owned()), "{text}");
        }
        for text in ["limit=0", "limit=-1", "limit=x&ttl=-1", "limit="] {
            assert_eq!(refused(respawn(&query(text), now())), Err("invalid limit".to_owned()), "{text}");
        }
        assert_eq!(refused(respawn(&query("limit=%2B2&ttl=-1"), now())), Err("invalid ttl".to_owned()));
    }

    #[test]
    fn a_consume_has_the_defaults_of_lmstfy() {
        let ttr = |seconds| Ttr::new(Duration::from_secs(seconds)).expect("is a TTR");
        let parsed = consume(&query("")).expect("is valid");
        assert_eq!(parsed, Consume { ttr: ttr(120), wait: Duration::ZERO, count: 1 });
        let parsed = consume(&query("ttr=0&timeout=3&count=100")).expect("is valid");
        assert_eq!(parsed, Consume { ttr: ttr(1), wait: Duration::from_secs(3), count: 100 });
    }

    #[test]
    fn an_id_is_a_ulid_with_the_delay_in_its_last_bytes() {
        let topic = Topic::parse("n:q").expect("is a topic");
        let id = |parsed: Publish| parsed.job(&topic, &Bytes::new(), now()).id.expect("has one").to_string();
        let text = id(publish("delay=258&ttl=0").expect("is valid"));
        let ulid = Ulid::from_string(&text).expect("is a ULID");
        assert_eq!(ulid.timestamp_ms(), 1_767_225_600_000);
        assert_eq!(ulid.to_bytes()[12..], [2, 1, 0, 0]);
        let versioned = id(Publish { has_version: true, ..publish("").expect("is valid") });
        assert_eq!((versioned.len(), &versioned[..1]), (27, "1"));
    }

    #[test]
    fn attributes_are_refused_where_they_count() {
        let check = |headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
            refused(refuse_attributes(&headers.collect()))
        };
        assert_eq!(check(&[("job-attr-a", "b")]), Ok(()));
        assert_eq!(check(&[("enable-job-version", "yes"), ("job-attr-a", "")]), Ok(()));
        assert!(check(&[("enable-job-version", "Yes"), ("job-attr-a", "b")]).is_err());
    }
}
