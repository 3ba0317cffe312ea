//! Decides what to do with a job after its call, from the answer or the failure. Pure.

use std::time::{Duration, UNIX_EPOCH};

use hyper::{
    HeaderMap, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, LOCATION, RETRY_AFTER},
};

use super::{call::Answer, failure::CallFailure};
use crate::job::{Delay, DurationError, Job, Reason, Timestamp, Ttr, parse_duration};

/// What to do with a job after its call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is finished.
    Finish,
    /// The endpoint will finish it: the reservation is extended.
    Hold {
        /// By how much, from now. At most the longest TTR: the endpoint has accepted the job, and must not be called again
        /// because it asked for more.
        ttr: Ttr,
    },
    /// It is released, and due again later.
    Fail {
        /// Why.
        reason: Reason,
        /// When it is due again.
        retry_in: Delay,
        /// Whether the endpoint answered.
        answered: bool,
        /// Whether the endpoint did not answer or said that it is overloaded.
        overloaded: bool,
        /// How long the endpoint asks not to be called at all, at most [`MAX_REST`].
        rest: Option<Duration>,
    },
    /// It is a dead letter.
    Bury {
        /// Why.
        reason: Reason,
    },
}

impl Outcome {
    /// A word for logs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Finish => "finish",
            Self::Hold { .. } => "hold",
            Self::Fail { .. } => "fail",
            Self::Bury { .. } => "bury",
        }
    }
}

/// The longest time for which `Retry-After` keeps an endpoint from being called at all.
pub const MAX_REST: Duration = Duration::from_secs(60);

/// Extends a reservation, in an answer of 2xx.
const LINGER_HOLD: &str = "linger-hold";
/// Sets the next attempt, or refuses it, in any other answer.
const LINGER_RETRY: &str = "linger-retry";

/// The longest that an endpoint may postpone the next attempt.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// Longest detail of a reason, in bytes.
const MAX_DETAIL: usize = 512;

/// The scheduled delay after this attempt plus up to a tenth of it, in proportion to `random` (from 0 to 1), so that jobs
/// that failed together do not return together.
#[must_use]
pub fn step_after(job: &Job, random: f64) -> Duration {
    let step = job.spec.retry.after_release(job.attempts);
    (step + step.mul_f64(random.clamp(0.0, 1.0) / 10.0)).min(Delay::MAX)
}

/// Decides what to do with a job. `step` is the scheduled delay. The endpoint may replace it, up to [`MAX_RETRY_AFTER`];
/// `Retry-After` can only lengthen it.
#[must_use]
pub fn judge(answered: &Result<Answer, CallFailure>, step: Duration, now: Timestamp) -> Outcome {
    match answered {
        Ok(answer) if answer.status.is_success() => judge_success(answer, step),
        Ok(answer) => judge_refusal(answer, step, now),
        Err(failure) => Outcome::Fail {
            reason: reason(failure.word(), &failure.detail()),
            retry_in: delay(step),
            answered: false,
            overloaded: true,
            rest: None,
        },
    }
}

fn judge_success(answer: &Answer, step: Duration) -> Outcome {
    match own_header(&answer.headers, LINGER_HOLD, |text| Ttr::new(duration_up_to(text, Ttr::MAX)?).ok()) {
        Ok(None) => Outcome::Finish,
        Ok(Some(ttr)) => Outcome::Hold { ttr },
        Err(detail) => fail("bad_answer", &detail, step, None),
    }
}

fn judge_refusal(answer: &Answer, step: Duration, now: Timestamp) -> Outcome {
    let status = answer.status;
    let word = format!("http_{}", status.as_u16());
    let detail = match answer.headers.get(LOCATION).filter(|_| status.is_redirection()) {
        Some(target) => format!("not followed to {}", String::from_utf8_lossy(target.as_bytes())),
        None => body_detail(answer),
    };
    if status == StatusCode::GONE {
        return Outcome::Bury { reason: reason(&word, &detail) };
    }
    let retry_after = retry_after(&answer.headers, now);
    let retry_in = match own_header(&answer.headers, LINGER_RETRY, |text| parse_retry(text, MAX_RETRY_AFTER))
    {
        Ok(Some(Retry::Never)) => return Outcome::Bury { reason: reason(&word, &detail) },
        Ok(Some(Retry::In(delay))) => delay,
        Ok(None) => retry_after.map_or(step, |after| step.max(after.min(MAX_RETRY_AFTER))),
        Err(detail) => return fail("bad_answer", &detail, step, Some(answer)),
    };
    let mut outcome = fail(&word, &detail, retry_in, Some(answer));
    if let Outcome::Fail { rest, .. } = &mut outcome {
        let may_rest = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        *rest = retry_after.filter(|_| may_rest).map(|after| after.min(MAX_REST));
    }
    outcome
}

/// A failure of a job whose endpoint answered.
fn fail(word: &str, detail: &str, retry_in: Duration, refusal: Option<&Answer>) -> Outcome {
    let overloaded = refusal.is_some_and(|answer| matches!(answer.status.as_u16(), 429 | 502 | 503 | 504));
    Outcome::Fail {
        reason: reason(word, detail),
        retry_in: delay(retry_in),
        answered: true,
        overloaded,
        rest: None,
    }
}

/// What `linger-retry` says.
#[derive(Debug, Clone, Copy)]
enum Retry {
    Never,
    In(Duration),
}

fn parse_retry(text: &str, max: Duration) -> Option<Retry> {
    if text == "no" { Some(Retry::Never) } else { duration_up_to(text, max).map(Retry::In) }
}

/// Reads a header of Linger's own; the error says what is wrong with it.
fn own_header<T>(
    headers: &HeaderMap,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(format!("more than one header {name}"));
    }
    let parsed = value.to_str().ok().and_then(|text| parse(text.trim()));
    parsed.map(Some).ok_or_else(|| format!("cannot read the header {name}"))
}

/// A duration, shortened to `max`; `None` if the text is none.
fn duration_up_to(text: &str, max: Duration) -> Option<Duration> {
    match parse_duration(text) {
        Ok(duration) => Some(duration.min(max)),
        Err(DurationError::TooLarge) => Some(max),
        Err(DurationError::Negative | DurationError::TooLong | DurationError::Malformed) => None,
    }
}

/// The beginning of a body, or a description of one that is not text: a reason is for people.
fn body_detail(answer: &Answer) -> String {
    let encoding = answer.headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity");
    let text = String::from_utf8_lossy(&answer.body);
    let kind = match encoding {
        Some(_) if answer.body.is_empty() => return String::new(),
        Some(encoding) => format!("encoded as {}", String::from_utf8_lossy(encoding.as_bytes())),
        None if is_readable(&text) => return text.into_owned(),
        None => "not text".to_owned(),
    };
    let length = answer.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match length {
        Some(length) => format!("a body of {length} bytes, {kind}"),
        None => format!("a body, {kind}"),
    }
}

/// Whether at most a tenth of a text is control characters and bytes that are no UTF-8. A text in another character set, or
/// one that is cut within a character, has some.
fn is_readable(text: &str) -> bool {
    let is_unreadable = |c: char| c == char::REPLACEMENT_CHARACTER || c.is_control() && !c.is_whitespace();
    let unreadable = text.chars().filter(|c| is_unreadable(*c)).count();
    unreadable <= text.chars().count().div_ceil(10)
}

/// How long `Retry-After` asks to wait: a number of seconds, or an HTTP date. What is neither is ignored.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number has room for mean a long time.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let moment = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let now = Duration::from_millis(now.as_millis().unsigned_abs());
    Some(moment.saturating_sub(now))
}

fn delay(duration: Duration) -> Delay {
    Delay::new(duration).unwrap_or(Delay::LONGEST)
}

/// A reason that begins with a word. Control characters of the detail become spaces.
fn reason(word: &str, detail: &str) -> Reason {
    let shown: String = detail.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let detail = shown.trim();
    let detail = &detail[..detail.floor_char_boundary(MAX_DETAIL)];
    let text = if detail.is_empty() { word.to_owned() } else { format!("{word}: {detail}") };
    Reason::new(&text).expect("word and detail are shorter than a reason may be")
}

#[cfg(test)]
mod tests;
