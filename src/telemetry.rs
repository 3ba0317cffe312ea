//! Log lines: to stderr, as text for people or JSON for machines. Knows no job, no request and no
//! secret; what goes into a line is for who writes it.

use std::{
    io::IsTerminal,
    panic::{self, PanicHookInfo},
};

use tracing_subscriber::{Layer, filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{Log, LogFormat};

/// Begins logging, for the whole process and once. `rust_log` is the variable `RUST_LOG`; it wins
/// over the configured level unless it is empty or means nothing.
pub fn init(log: &Log, rust_log: Option<&str>) {
    let (filter, refused) = filter(&log.level, rust_log);
    let on_terminal = std::io::stderr().is_terminal();
    let layer = fmt::layer().with_writer(std::io::stderr);
    let json = match log.format {
        LogFormat::Auto => !on_terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let layer = if json {
        layer.json().flatten_event(true).with_span_list(false).boxed()
    } else {
        // `fmt` itself heeds NO_COLOR only by default, which naming a choice overrides.
        let colour = on_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        layer.with_ansi(colour).boxed()
    };
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
    panic::set_hook(Box::new(log_panic));
    if let Some(refused) = refused {
        tracing::warn!(RUST_LOG = refused, "RUST_LOG is not understood; log.level is used");
    }
}

/// The filter in force, and a `RUST_LOG` that could not be read.
fn filter<'a>(level: &str, rust_log: Option<&'a str>) -> (Targets, Option<&'a str>) {
    let wanted = rust_log.filter(|text| !text.trim().is_empty());
    match wanted.map(str::parse) {
        Some(Ok(filter)) => (filter, None),
        not_wanted_or_refused => {
            let filter = level.parse().expect("the configuration has checked log.level");
            (filter, wanted.filter(|_| not_wanted_or_refused.is_some()))
        }
    }
}

/// A panic as a log line, so that JSON stays JSON.
fn log_panic(info: &PanicHookInfo<'_>) {
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let message = info.payload_as_str().unwrap_or("no message");
    let thread = std::thread::current();
    let backtrace = std::backtrace::Backtrace::capture();
    match backtrace.status() {
        std::backtrace::BacktraceStatus::Captured => {
            tracing::error!(thread = thread.name(), location, %backtrace, "panic: {message}");
        }
        _ => tracing::error!(thread = thread.name(), location, "panic: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn enabled(filter: &Targets, level: Level) -> bool {
        filter.would_enable("linger::queue", &level)
    }

    #[test]
    fn rust_log_wins_when_it_means_something() {
        let (plain, refused) = filter("info", None);
        assert!(enabled(&plain, Level::INFO) && !enabled(&plain, Level::DEBUG));
        assert_eq!(refused, None);
        let (narrowed, refused) = filter("info", Some("warn,linger::queue=trace"));
        assert!(enabled(&narrowed, Level::TRACE) && !narrowed.would_enable("hyper", &Level::INFO));
        assert_eq!(refused, None);
    }

    #[test]
    fn rust_log_without_meaning_is_reported_and_passed_over() {
        let (kept, refused) = filter("error", Some("linger=loud"));
        assert!(enabled(&kept, Level::ERROR) && !enabled(&kept, Level::WARN));
        assert_eq!(refused, Some("linger=loud"));
        let (kept, refused) = filter("error", Some(" "));
        assert!(!enabled(&kept, Level::WARN));
        assert_eq!(refused, None);
    }
}
