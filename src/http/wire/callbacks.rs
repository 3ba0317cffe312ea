//! Callbacks and secrets in JSON: how requests give them, and how responses show them.
//!
//! Values of headers and keys are credentials: neither a response nor the detail of a fault shows one, except for the
//! response to the call that adds a secret.

use std::{collections::HashSet, num::NonZeroU32, sync::Arc, time::Duration};

use axum::{http::StatusCode, response::Response};
use serde_json::value::RawValue;

use super::{
    fields::{self, Fields},
    values::{self, ParseResult},
};
use crate::{
    http::json::{self, ObjectWriter},
    job::{
        CallHeaders, CallMethod, CallRate, Callback, CallbackUrl, HeaderError, SigningKey, SigningSecret,
        TopicCallback, check_name, check_value,
    },
    queue::{AddedSecret, Limits},
};

/// What responses show in place of a header's value. In a `PUT` of a topic it keeps the stored value.
const HIDDEN: &str = "[hidden]";
/// Most calls at a time, as for the setting `callbacks.max_calls`.
const MAX_CONCURRENCY: usize = 100_000;

/// The callback of a topic, and the names of those headers whose stored values stay.
#[derive(Default)]
pub struct NewTopicCallback {
    pub callback: TopicCallback,
    pub kept_headers: Vec<String>,
}

/// What a job and a topic both have, beside the URL.
struct CallOptions {
    method: CallMethod,
    headers: CallHeaders,
    kept_headers: Vec<String>,
    timeout: Option<Duration>,
}

impl CallOptions {
    fn to(self, url: CallbackUrl) -> Callback {
        Callback { url, method: self.method, headers: self.headers, timeout: self.timeout }
    }
}

/// The callback of a job.
pub fn of_job(fields: &mut Fields<'_>, limits: &Limits) -> Option<Arc<Callback>> {
    fields.optional_object("callback", |callback| {
        let url = callback.required("url", url);
        let options = call_options(callback, limits);
        for name in &options.kept_headers {
            callback.add_fault(
                &format!("headers/{name}"),
                "must be the value itself; only a PUT of a topic keeps a stored one",
            );
        }
        Some(Arc::new(options.to(url?)))
    })
}

/// The callback of a topic. Without a URL it only limits the calls for jobs with callbacks of their own.
pub fn of_topic(fields: &mut Fields<'_>, limits: &Limits) -> Option<NewTopicCallback> {
    fields.optional_object("callback", |callback| {
        let given = |names: &[&'static str], callback: &Fields<'_>| {
            names.iter().copied().filter(|name| callback.has(name)).collect::<Vec<_>>()
        };
        if !callback.has("url") {
            given(&["method", "headers", "timeout"], callback)
                .into_iter()
                .for_each(|name| callback.add_fault(name, "must be given together with a url"));
        }
        if given(&["url", "rate", "concurrency"], callback).is_empty() {
            callback.add_fault("", "must have a url, a rate or a concurrency");
        }
        let url = callback.optional("url", url);
        let mut options = call_options(callback, limits);
        let rate = callback.optional("rate", rate);
        let concurrency = callback.optional("concurrency", concurrency);
        let kept_headers = std::mem::take(&mut options.kept_headers);
        let target = url.map(|url| options.to(url));
        Some(NewTopicCallback { callback: TopicCallback { target, rate, concurrency }, kept_headers })
    })
}

fn call_options(callback: &mut Fields<'_>, limits: &Limits) -> CallOptions {
    let method = callback.optional("method", method).unwrap_or_default();
    let (headers, kept_headers) = callback.optional_object("headers", headers).unwrap_or_default();
    let timeout = callback.optional("timeout", |raw| timeout(raw, limits.callbacks.max_timeout));
    CallOptions { method, headers, kept_headers, timeout }
}

fn url(raw: &RawValue) -> ParseResult<CallbackUrl> {
    CallbackUrl::parse(&values::text(raw)?).map_err(|error| error.to_string())
}

fn method(raw: &RawValue) -> ParseResult<CallMethod> {
    let methods = || CallMethod::ALL.map(CallMethod::as_str).join(", ");
    CallMethod::parse(&values::text(raw)?).ok_or_else(|| format!("must be one of {}", methods()))
}

fn timeout(raw: &RawValue, max: Duration) -> ParseResult<Duration> {
    let out_of_range = || {
        let seconds = crate::job::format_seconds(max);
        format!("must be between 1 s and {seconds} s (callbacks.max_timeout)")
    };
    let timeout = values::duration(raw)?;
    Callback::check_timeout(timeout).ok().filter(|timeout| *timeout <= max).ok_or_else(out_of_range)
}

fn rate(raw: &RawValue) -> ParseResult<CallRate> {
    let number = raw.get().parse().map_err(|_| "must be a number of calls a second".to_owned())?;
    CallRate::new(number).map_err(|error| error.to_string())
}

fn concurrency(raw: &RawValue) -> ParseResult<NonZeroU32> {
    let number = values::whole_number(raw, 1, MAX_CONCURRENCY)?;
    Ok(u32::try_from(number).ok().and_then(NonZeroU32::new).expect("the number is in the range"))
}

/// The headers with values, and the names of those whose stored values stay.
fn headers(headers: &mut Fields<'_>) -> Option<(CallHeaders, Vec<String>)> {
    let (mut given, mut kept, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    let entries = headers.take_entries();
    if entries.len() > CallHeaders::MAX_COUNT {
        headers.add_fault("", HeaderError::TooMany { got: entries.len() }.to_string());
        return None;
    }
    let mut all_valid = true;
    for (name, raw) in entries {
        let lower = name.to_ascii_lowercase();
        let value = match check_name(&name) {
            Ok(()) if !seen.insert(lower.clone()) => Err(HeaderError::Repeated.to_string()),
            Ok(()) => values::text(raw)
                .and_then(|value| check_value(&value).map(|()| value).map_err(|error| error.to_string())),
            Err(error) => Err(error.to_string()),
        };
        match value {
            Ok(value) if value == HIDDEN => kept.push(lower),
            Ok(value) => given.push((lower, value.into_owned())),
            Err(detail) => {
                headers.add_entry_fault(&name, detail);
                all_valid = false;
            }
        }
    }
    if !all_valid {
        return None;
    }
    match CallHeaders::new(given) {
        Ok(given) => Some((given, kept)),
        Err(error) => {
            headers.add_fault("", error.to_string());
            None
        }
    }
}

/// Writes the callback of a job in the form in which it is given, with hidden values of headers.
pub fn write_callback(object: &mut ObjectWriter<'_>, callback: &Callback) {
    object.text("url", callback.url.as_str());
    object.text("method", callback.method.as_str());
    if !callback.headers.is_empty() {
        object.object("headers", |headers| {
            callback.headers.iter().for_each(|(name, _)| headers.text(name, HIDDEN));
        });
    }
    if let Some(timeout) = callback.timeout {
        object.seconds("timeout", timeout);
    }
}

/// Writes the callback of a request as it was given, with hidden values of headers.
pub(super) fn write_given(object: &mut ObjectWriter<'_>, callback: &RawValue) {
    for (name, raw) in fields::accepted_entries(callback) {
        match (&*name, raw.get()) {
            (_, "null") => {}
            ("headers", _) => object.object("headers", |headers| {
                fields::accepted_entries(raw).iter().for_each(|(name, _)| headers.text(name, HIDDEN));
            }),
            (name, json) => object.raw(name, json.as_bytes()),
        }
    }
}

/// Writes the callback of a topic, if it has one.
pub fn write_topic_callback(object: &mut ObjectWriter<'_>, callback: &TopicCallback) {
    if *callback == TopicCallback::default() {
        return;
    }
    object.object("callback", |object| {
        if let Some(target) = &callback.target {
            write_callback(object, target);
        }
        if let Some(rate) = callback.rate {
            object.number("rate", rate);
        }
        if let Some(concurrency) = callback.concurrency {
            object.number("concurrency", concurrency);
        }
    });
}

/// The body of a call that adds a secret: the client's own key, if it gave one.
pub fn own_key(fields: &mut Fields<'_>) -> Option<SigningKey> {
    fields.optional("secret", |raw| SigningKey::parse(&values::text(raw)?).map_err(|error| error.to_string()))
}

/// The response to adding a secret: the only one that shows it.
pub fn added_secret(added: &AddedSecret) -> Response {
    let (status, secret) = match added {
        AddedSecret::New(secret) => (StatusCode::CREATED, secret),
        AddedSecret::Known(secret) => (StatusCode::OK, secret),
    };
    let mut response = json::object_response(|object| {
        write_secret(object, secret);
        object.text("secret", &secret.key.reveal());
    });
    *response.status_mut() = status;
    response
}

/// The secrets of a topic, without their keys.
pub fn secrets(secrets: &[SigningSecret]) -> Response {
    json::object_response(|object| {
        object.list("secrets", secrets, |secret, out| {
            let mut object = ObjectWriter::new(out);
            write_secret(&mut object, secret);
            object.end();
        });
    })
}

fn write_secret(object: &mut ObjectWriter<'_>, secret: &SigningSecret) {
    object.text("id", &secret.id.to_string());
    object.timestamp("created_at", secret.created_at);
}
