//! The log: section `[log]`, and `RUST_LOG`, which takes precedence.

use std::ffi::OsString;

use config::ValueKind;
use tracing_subscriber::filter::Targets;

use super::{
    fault::ConfigFault,
    reader::Reader,
    values::{self, ValueProblem},
};

/// The variable that takes precedence over `log.level`.
const RUST_LOG: &str = "RUST_LOG";

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Section `[log]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// The format of lines.
    pub format: LogFormat,
    /// The filter in force, from `log.level` or `RUST_LOG`: directives that [`Targets`] parses.
    pub filter: String,
}

impl LogSettings {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let formats = [("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)];
        Self {
            format: reader.choice("log.format", &formats),
            filter: reader.get("log.level", |kind: &ValueKind| filter(&values::text(kind)?)),
        }
    }

    /// Replaces the filter with that of `RUST_LOG`, unless that is unset or blank.
    pub(super) fn apply_rust_log(
        &mut self,
        environment: &[(OsString, OsString)],
        faults: &mut Vec<ConfigFault>,
    ) {
        let Some((_, value)) = environment.iter().find(|(name, _)| name == RUST_LOG) else { return };
        let read = value.to_str().ok_or_else(|| "is not UTF-8 text".to_owned());
        match read.map(str::trim) {
            Ok("") => {}
            Ok(text) => match filter(text) {
                Ok(filter) => self.filter = filter,
                Err(problem) => faults.push(fault(problem)),
            },
            Err(problem) => faults.push(fault(problem)),
        }
    }
}

fn fault(problem: ValueProblem) -> ConfigFault {
    ConfigFault { key: String::new(), source: format!("environment variable {RUST_LOG}"), problem }
}

/// Parses a filter in which every directive names a level. [`Targets`] alone would take a bare word that is no level,
/// such as `warning`, for the name of a module, and silence everything else.
fn filter(text: &str) -> Result<String, ValueProblem> {
    let directives: Vec<&str> = text.split(',').map(str::trim).collect();
    for directive in &directives {
        let level = directive.rsplit_once('=').map_or(*directive, |(_, level)| level.trim());
        if !LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
            return Err(unknown_level(level));
        }
    }
    let filter = directives.join(",");
    match filter.parse::<Targets>() {
        Ok(_) => Ok(filter),
        Err(_) => Err(format!(
            "{} must be a level or a list such as info,linger::queue=debug",
            values::quoted(text)
        )),
    }
}

fn unknown_level(word: &str) -> ValueProblem {
    let distance = |level: &str| strsim::damerau_levenshtein(&word.to_ascii_lowercase(), level);
    let nearest = LEVELS.into_iter().min_by_key(|level| distance(level));
    match nearest.filter(|level| distance(level) <= 3 && distance(level) < level.len()) {
        Some(level) => format!("{word:?} is not a level; did you mean {level}?"),
        None => format!(
            "{} is not a level, which are error, warn, info, debug, trace and off; \
             the level of one module is set as in info,linger::queue=debug",
            values::quoted(word)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directive_names_a_level() {
        for (text, expected) in [
            ("info", "info"),
            ("WARN", "WARN"),
            ("off", "off"),
            (" warn , linger::queue=trace ", "warn,linger::queue=trace"),
            ("linger=debug", "linger=debug"),
        ] {
            assert_eq!(filter(text).as_deref(), Ok(expected));
        }
        for (text, part) in [
            ("warning", "\"warning\" is not a level; did you mean warn?"),
            ("debgu", "did you mean debug?"),
            ("verbose", "\"verbose\" is not a level, which are error, warn,"),
            ("info,hyper", "\"hyper\" is not a level"),
            ("linger=loud", "\"loud\" is not a level"),
            ("linger=infos", "did you mean info?"),
            ("", "\"\" is not a level"),
            ("info,,", "\"\" is not a level"),
        ] {
            let problem = filter(text).expect_err("is refused");
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }

    #[test]
    fn rust_log_takes_precedence_unless_blank_and_is_checked_like_the_key() {
        let applied = |value: &str| {
            let mut log = LogSettings { format: LogFormat::Auto, filter: "info".to_owned() };
            let mut faults = Vec::new();
            log.apply_rust_log(&[(RUST_LOG.into(), value.into())], &mut faults);
            (log.filter, faults.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(applied("debug"), ("debug".to_owned(), Vec::new()));
        assert_eq!(applied(" "), ("info".to_owned(), Vec::new()));
        let refused = "environment variable RUST_LOG: \"warning\" is not a level; did you mean warn?";
        assert_eq!(applied("warning").1, [refused]);
    }
}
