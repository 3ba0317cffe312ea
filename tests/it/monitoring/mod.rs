//! What is shipped for monitoring: the alerts, their runbooks, the board and the table of metrics agree with each other
//! and with what servers really show.

mod alerts;
mod scraped;

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn read_yaml(file: &str) -> Value {
    serde_saphyr::from_str(&read(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// The rules of the shipped alerts.
fn alerts() -> Vec<Value> {
    let file = read_yaml("deploy/prometheus/alerts.yml");
    let alerts: Vec<Value> =
        list(&file["groups"]).iter().flat_map(|group| list(&group["rules"]).to_vec()).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    alerts
}

/// The names of metrics that an expression, or another text, uses. Those of histograms are without the ending.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| ["linger_", "process_"].iter().any(|start| word.starts_with(start)));
    names.map(|name| family(name).to_owned()).collect()
}

/// The name of a series without what a histogram adds.
fn family(name: &str) -> &str {
    let endings = ["_seconds_bucket", "_seconds_sum", "_seconds_count"];
    match endings.iter().find(|ending| name.ends_with(**ending)) {
        Some(_) => name.rsplit_once('_').map_or(name, |(family, _)| family),
        None => name,
    }
}
