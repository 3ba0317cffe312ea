//! `linger topic set`: changes some settings of a topic.

use std::time::Duration;

use clap::Args;
use linger_client::{OnExpiry, Request, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    exit::{Exit, Failure},
    job_args::OnExpiryArg,
    session::{ChangeArgs, Session},
};
use crate::job::parse_duration;

/// The names of settings that can be unset.
const UNSETTABLE: [&str; 12] = [
    "ttr",
    "retry",
    "max-attempts",
    "require-receipt",
    "late-finish",
    "expire",
    "on-expiry",
    "dedup",
    "callback",
    "callback-timeout",
    "callback-rate",
    "callback-concurrency",
];

/// Arguments of `linger topic set`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("settings").required(true).multiple(true))]
pub(super) struct SetArgs {
    /// Name of the topic
    topic: String,
    /// How long a worker has a job
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, group = "settings")]
    ttr: Option<Duration>,
    /// Waits between attempts, such as 15s,3m
    #[arg(long, value_name = "DURATIONS", value_delimiter = ',', value_parser = parse_duration, group = "settings")]
    retry: Vec<Duration>,
    /// Attempts until a job is a dead letter; 0 for no limit
    #[arg(long, value_name = "COUNT", group = "settings")]
    max_attempts: Option<u32>,
    /// Whether a finish needs the receipt
    #[arg(long, value_name = "BOOL", group = "settings")]
    require_receipt: Option<bool>,
    /// Whether to accept a finish after the TTR, if no other worker has had the job since
    #[arg(long, value_name = "BOOL", group = "settings")]
    late_finish: Option<bool>,
    /// How long after their due time jobs expire
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, group = "settings")]
    expire: Option<Duration>,
    /// What happens to jobs that expire
    #[arg(long, value_enum, group = "settings")]
    on_expiry: Option<OnExpiryArg>,
    /// For how long the ids of finished and deleted jobs are remembered, up to 7d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, group = "settings")]
    dedup: Option<Duration>,
    /// The URL that is called with each due job, so that no worker has to pop it
    #[arg(long, value_name = "URL", group = "settings")]
    callback_url: Option<String>,
    /// How long a call may take
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, group = "settings")]
    callback_timeout: Option<Duration>,
    /// Most calls a second, over all processes
    #[arg(long, value_name = "CALLS", group = "settings")]
    callback_rate: Option<f64>,
    /// Most calls at a time, of each process
    #[arg(long, value_name = "CALLS", group = "settings")]
    callback_concurrency: Option<u32>,
    /// Settings that get the server's default again; callback is all of the callback
    #[arg(long, value_name = "SETTING", value_delimiter = ',', group = "settings")]
    #[arg(value_parser = UNSETTABLE)]
    unset: Vec<String>,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Reads the settings, changes some and writes all of them, as the API replaces them as a whole. What this version does
/// not know stays; hidden values are accepted back. The API has no guard against another change in between.
pub(super) async fn set(session: &Session, arguments: &SetArgs) -> Result<Response, Failure> {
    #[derive(Deserialize)]
    struct Present {
        settings: Map<String, Value>,
    }
    let topic = &arguments.topic;
    session.confirm_change(&format!("change the settings of {topic}"))?;
    let mut settings = match session.call(&Request::topic(topic)).await {
        Ok(response) => session.read::<Present>(&response)?.settings,
        Err(failure) if failure.exit == Exit::Absent => Map::new(),
        Err(failure) => return Err(failure),
    };
    let mut callback = match settings.remove("callback") {
        Some(Value::Object(callback)) => callback,
        _ => Map::new(),
    };
    for name in &arguments.unset {
        match name.strip_prefix("callback-") {
            Some(member) => drop(callback.remove(member)),
            None if name == "callback" => callback.clear(),
            None => drop(settings.remove(&name.replace('-', "_"))),
        }
    }
    let text = |duration: Duration| Value::from(format!("{}ms", duration.as_millis()));
    let steps: Vec<_> = arguments.retry.iter().copied().map(text).collect();
    for (name, value) in [
        ("ttr", arguments.ttr.map(text)),
        ("retry", (!steps.is_empty()).then(|| steps.into())),
        ("max_attempts", arguments.max_attempts.map(Value::from)),
        ("require_receipt", arguments.require_receipt.map(Value::from)),
        ("late_finish", arguments.late_finish.map(Value::from)),
        ("expire", arguments.expire.map(text)),
        ("dedup", arguments.dedup.map(text)),
        ("on_expiry", arguments.on_expiry.map(|on_expiry| json!(OnExpiry::from(on_expiry)))),
    ] {
        settings.extend(value.map(|value| (name.to_owned(), value)));
    }
    for (name, value) in [
        ("url", arguments.callback_url.clone().map(Value::from)),
        ("timeout", arguments.callback_timeout.map(text)),
        ("rate", arguments.callback_rate.map(Value::from)),
        ("concurrency", arguments.callback_concurrency.map(Value::from)),
    ] {
        callback.extend(value.map(|value| (name.to_owned(), value)));
    }
    if !callback.is_empty() {
        settings.insert("callback".to_owned(), callback.into());
    }
    session.call(&Request::put_settings(topic, &settings)).await
}
