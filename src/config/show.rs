//! Formats the settings in force as TOML, in the order of the defaults.

use std::fmt::Write;

use config::{Value, ValueKind};

use super::{
    layers::{DEFAULTS, Layers, Sources, find, source_of},
    redis_url::RedisUrl,
};

const REDACTED: &str = "<redacted>";

/// The settings in force, with secrets redacted and sources named.
pub(super) fn show(layers: &Layers, sources: &Sources) -> String {
    let mut shown = format!("# Settings of linger {} in force.", env!("CARGO_PKG_VERSION"));
    match &sources.file {
        Some(file) => shown.push_str(&format!(" File: {}\n", file.display())),
        None => shown.push_str(" No file.\n"),
    }
    let mut section = "";
    for (in_section, key) in documented() {
        if in_section != section {
            section = in_section;
            write!(shown, "\n[{section}]\n").expect("a String takes any text");
        }
        let dotted = format!("{section}.{key}");
        let value = find(&layers.effective, &dotted).expect("a checked configuration has every key");
        write!(shown, "{key} = {}", toml(&dotted, value)).expect("a String takes any text");
        if value.origin().is_some() {
            write!(shown, "  # {}", source_of(&dotted, value)).expect("a String takes any text");
        }
        shown.push('\n');
    }
    shown
}

/// Section and key of every setting, in the order of the defaults.
pub(super) fn documented() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut section = "";
    DEFAULTS.lines().filter_map(move |line| {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            return None;
        }
        let (key, _) = line.split_once(" = ").filter(|_| !line.starts_with('#'))?;
        Some((section, key))
    })
}

fn toml(key: &str, value: &Value) -> String {
    match &value.kind {
        ValueKind::String(text) if text.is_empty() => "\"\"".to_owned(),
        ValueKind::String(_) if key.ends_with("password") => quoted(REDACTED),
        ValueKind::String(url) if key == "redis.url" => {
            quoted(&RedisUrl::parse(url).map_or(REDACTED.to_owned(), |url| url.to_string()))
        }
        ValueKind::String(text) => quoted(text),
        ValueKind::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| toml(key, item)).collect();
            format!("[{}]", items.join(", "))
        }
        kind => kind.to_string(),
    }
}

/// A TOML basic string. JSON strings are valid ones, except for DEL.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}
