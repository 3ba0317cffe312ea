//! Parses the kinds of values that settings have, from TOML or the environment. A problem says what would be valid; it
//! quotes the value only if that cannot be a secret.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use config::ValueKind;

use crate::job::parse_duration;

/// What is wrong with a value and how to fix it.
pub(super) type ValueProblem = String;

pub(super) fn text(kind: &ValueKind) -> Result<String, ValueProblem> {
    match kind {
        ValueKind::String(text) => Ok(text.clone()),
        _ => Err("must be a string, in quotes".to_owned()),
    }
}

/// Text, or `None` when it is empty.
pub(super) fn optional_text(kind: &ValueKind) -> Result<Option<String>, ValueProblem> {
    Ok(Some(text(kind)?).filter(|text| !text.is_empty()))
}

pub(super) fn flag(kind: &ValueKind) -> Result<bool, ValueProblem> {
    match kind {
        ValueKind::Boolean(flag) => Ok(*flag),
        ValueKind::String(text) if text == "true" => Ok(true),
        ValueKind::String(text) if text == "false" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

pub(super) fn path(kind: &ValueKind) -> Result<PathBuf, ValueProblem> {
    match text(kind)? {
        text if text.is_empty() => Err("must name a path".to_owned()),
        text => Ok(text.into()),
    }
}

/// The name of a file, or `None` if it is empty. An invalid name is not quoted: it may be the secret that belongs in
/// the file.
pub(super) fn optional_file(kind: &ValueKind) -> Result<Option<PathBuf>, ValueProblem> {
    let name = optional_text(kind)?;
    // A token of Linger has 64 characters after its prefix; tokens of early versions had 43.
    let is_token = |name: &str| name.starts_with("linger_") && name.len() >= 40 && !name.contains(['/', '.']);
    let is_content = |name: &str| name.contains(char::is_control) || name.starts_with("-----BEGIN");
    match name {
        Some(name) if is_token(&name) || is_content(&name) => {
            Err("must be the name of a file, not its content".to_owned())
        }
        name => Ok(name.map(PathBuf::from)),
    }
}

/// A value as a fault quotes it. A value that may be a URL with a password is not quoted, whatever its key.
pub(super) fn quoted(text: &str) -> String {
    let may_hold_password = text.contains("://") && text.contains('@');
    if may_hold_password { "the value".to_owned() } else { format!("{text:?}") }
}

/// A list of strings: an array, or one string with commas, as in the environment.
pub(super) fn list(kind: &ValueKind) -> Result<Vec<String>, ValueProblem> {
    let items: Vec<String> = match kind {
        ValueKind::Array(items) => items.iter().map(|item| text(&item.kind)).collect::<Result<_, _>>()?,
        ValueKind::String(text) if text.trim().is_empty() => Vec::new(),
        ValueKind::String(text) => text.split(',').map(|item| item.trim().to_owned()).collect(),
        _ => return Err("must be a list such as [\"one\", \"two\"]".to_owned()),
    };
    if items.iter().any(String::is_empty) {
        return Err("must not contain an empty item".to_owned());
    }
    Ok(items)
}

/// A list of host names without ports. A leading `*.` stands for any labels.
pub(super) fn host_names(kind: &ValueKind) -> Result<Vec<String>, ValueProblem> {
    let names = list(kind)?;
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_legal);
    match names.iter().find(|name| !is_name(name.strip_prefix("*.").unwrap_or(name))) {
        Some(name) => Err(format!(
            "{} is not the name of a host without a port, such as queue.example.com or *.example.com",
            quoted(name)
        )),
        None => Ok(names),
    }
}

/// An address and a port; a port alone is one of the loopback address.
pub(super) fn address(kind: &ValueKind) -> Result<SocketAddr, ValueProblem> {
    let text = text(kind)?;
    // Other machines are let in only where an address says so.
    let of_loopback = text.strip_prefix("localhost:").unwrap_or(&text);
    if let Ok(port) = of_loopback.parse()
        && of_loopback.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| {
        let hint =
            "must be a port, or an IP address and a port: 9277, 127.0.0.1:9277, 0.0.0.0:9277 or [::1]:9277";
        format!("{} {hint}", quoted(&text))
    })
}

/// An address as [`address`] reads it, or `None` if it is empty.
pub(super) fn optional_address(kind: &ValueKind) -> Result<Option<SocketAddr>, ValueProblem> {
    if optional_text(kind)?.is_none() { Ok(None) } else { address(kind).map(Some) }
}

/// A duration from `min` to `max`, as text or as a number of seconds.
pub(super) fn duration(kind: &ValueKind, min: Duration, max: Duration) -> Result<Duration, ValueProblem> {
    let text = match kind {
        ValueKind::String(text) => text.clone(),
        ValueKind::I64(seconds) => seconds.to_string(),
        ValueKind::Float(seconds) => seconds.to_string(),
        _ => return Err("must be a duration such as \"15s\" or \"250ms\"".to_owned()),
    };
    let duration = parse_duration(&text).map_err(|error| format!("{} {error}", quoted(&text)))?;
    if duration < min || duration > max {
        return Err(format!("{text:?} must be from {min:?} to {max:?}"));
    }
    Ok(duration)
}

pub(super) fn count(kind: &ValueKind, min: u64, max: u64) -> Result<u64, ValueProblem> {
    let number = match kind {
        ValueKind::I64(number) => u64::try_from(*number).ok(),
        ValueKind::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| format!("{} must be a whole number from {min} to {max}", shown(kind)))
}

const SIZES: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

/// A number of bytes, as a number or as text with a unit.
pub(super) fn size(kind: &ValueKind, min: u64, max: u64) -> Result<u64, ValueProblem> {
    let bytes = match kind {
        ValueKind::I64(bytes) => u64::try_from(*bytes).ok(),
        ValueKind::String(text) => {
            let text = text.trim();
            let unit =
                SIZES.iter().find_map(|(name, factor)| Some((text.strip_suffix(name)?.trim_end(), *factor)));
            let (number, factor) = unit.unwrap_or((text, 1));
            number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor))
        }
        _ => None,
    };
    let Some(bytes) = bytes else {
        return Err(format!("{} must be a size such as \"256KiB\" or \"4MiB\"", shown(kind)));
    };
    if !(min..=max).contains(&bytes) {
        return Err(format!("{} must be from {} to {}", shown(kind), size_text(min), size_text(max)));
    }
    Ok(bytes)
}

/// A size in the largest unit that divides it.
fn size_text(bytes: u64) -> String {
    let unit = SIZES[..4].iter().rev().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    unit.map_or_else(|| format!("{bytes}B"), |(name, factor)| format!("{}{name}", bytes / factor))
}

/// One of a few words.
pub(super) fn choice<T: Copy>(kind: &ValueKind, choices: &[(&str, T)]) -> Result<T, ValueProblem> {
    let found = match kind {
        ValueKind::String(text) => choices.iter().find(|(word, _)| word == text),
        _ => None,
    };
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
        format!("{} must be one of {}", shown(kind), words.join(", "))
    })
}

fn shown(kind: &ValueKind) -> String {
    match kind {
        ValueKind::String(text) => quoted(text),
        ValueKind::Table(_) | ValueKind::Array(_) | ValueKind::Nil => "the value".to_owned(),
        kind => kind.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> ValueKind {
        ValueKind::String(text.to_owned())
    }

    #[test]
    fn sizes_have_units_and_bounds() {
        let read = |text: &str| size(&string(text), 1, 1 << 30);
        for (text, bytes) in [
            ("1", 1),
            ("256KiB", 262_144),
            ("4 MiB", 4_194_304),
            ("2KB", 2_000),
            ("7B", 7),
            ("1GiB", 1 << 30),
        ] {
            assert_eq!(read(text), Ok(bytes), "{text}");
        }
        assert_eq!(size(&ValueKind::I64(64), 1, 100), Ok(64));
        for text in [
            "",
            "KiB",
            "-1",
            "1.5MiB",
            "1kib",
            "1M",
            "99999999999999999999",
            "18446744073709551615TiB",
            "4MiBMiB",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read("2GiB"), Err("\"2GiB\" must be from 1B to 1GiB".to_owned()));
        assert!(size(&ValueKind::I64(-1), 0, 100).is_err());
    }

    #[test]
    fn durations_are_text_or_seconds_within_bounds() {
        let read = |kind: &ValueKind| duration(kind, Duration::from_millis(1), Duration::from_secs(60));
        assert_eq!(read(&string("250ms")), Ok(Duration::from_millis(250)));
        assert_eq!(read(&ValueKind::I64(2)), Ok(Duration::from_secs(2)));
        assert_eq!(read(&ValueKind::Float(0.25)), Ok(Duration::from_millis(250)));
        assert_eq!(read(&string("2m")), Err("\"2m\" must be from 1ms to 60s".to_owned()));
        assert!(read(&string("soon")).is_err());
        assert!(read(&ValueKind::Float(f64::NAN)).is_err());
        assert!(read(&ValueKind::I64(-3)).is_err());
        assert!(read(&ValueKind::Boolean(true)).is_err());
    }

    #[test]
    fn lists_are_arrays_or_have_commas() {
        assert_eq!(list(&string("a, b")), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(list(&string("")), Ok(Vec::new()));
        assert_eq!(list(&vec!["a"].into()), Ok(vec!["a".to_owned()]));
        assert!(list(&string("a,,b")).is_err());
        assert!(list(&vec![1].into()).is_err());
    }

    #[test]
    fn faults_of_counts_and_choices_say_what_is_valid() {
        assert_eq!(count(&string("12"), 1, 20), Ok(12));
        assert_eq!(count(&ValueKind::I64(0), 1, 20), Err("0 must be a whole number from 1 to 20".to_owned()));
        assert!(count(&string("1e3"), 1, 2_000).is_err());
        let choices = [("one", 1), ("two", 2)];
        assert_eq!(choice(&string("two"), &choices), Ok(2));
        assert_eq!(
            choice(&string("Two"), &choices),
            Err("\"Two\" must be one of \"one\", \"two\"".to_owned())
        );
    }

    #[test]
    fn possible_secrets_are_not_quoted() {
        for text in ["-----BEGIN PRIVATE KEY-----", "linger_0123456789012345678901234567890123456789", "a\nb"]
        {
            let problem = optional_file(&string(text)).expect_err("is no name of a file");
            assert_eq!(problem, "must be the name of a file, not its content");
        }
        for text in ["linger_tokens.toml", "/etc/linger_tokens/0123456789012345678901234567890123456789"] {
            assert_eq!(optional_file(&string(text)), Ok(Some(text.into())));
        }
        let url = string("redis://:hunter2@host");
        for problem in [address(&url).err(), choice(&url, &[("one", 1)]).err(), size(&url, 0, 1).err()] {
            assert!(problem.is_some_and(|problem| !problem.contains("hunter2")));
        }
    }

    #[test]
    fn an_address_needs_a_port() {
        assert!(address(&string("[::1]:0")).is_ok());
        for text in ["9277", "localhost:9277"] {
            assert_eq!(address(&string(text)), Ok(SocketAddr::from(([127, 0, 0, 1], 9_277))), "{text}");
        }
        for text in ["", "127.0.0.1", ":9277", "+9277", "localhost", "queue:9277", "70000", "1.2.3.4:70000"] {
            assert!(address(&string(text)).is_err(), "{text}");
        }
    }
}
