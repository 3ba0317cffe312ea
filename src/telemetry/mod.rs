//! The log: lines on stderr, as text for people or JSON for machines. Knows no job, no request and no secret; the
//! callers decide what a line contains.

mod log_queue;

use std::{
    io::{self, IsTerminal},
    panic::{self, PanicHookInfo},
    time::Duration,
};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer, filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    config::{LogFormat, LogSettings},
    metrics::LogMetrics,
};
use log_queue::LogQueue;

/// How long the process waits at exit for its last lines to be written.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

/// Most bytes of lines that wait to be written.
const MAX_QUEUED_BYTES: usize = 1_024 * 1_024;

/// The log of the process. Dropping it flushes.
#[derive(Debug)]
pub struct Logging(LogQueue);

impl Logging {
    /// Waits until every line is written, for a second at most.
    pub fn flush(&self) {
        self.0.flush(FLUSH_LIMIT);
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Starts logging for the whole process. Call it once.
///
/// # Errors
/// When the system has no threads or files left.
pub fn init(log: &LogSettings, metrics: LogMetrics) -> io::Result<Logging> {
    let filter = log.filter.parse().expect("the configuration has checked the filter");
    let on_terminal = io::stderr().is_terminal();
    let queue = LogQueue::to_stderr(MAX_QUEUED_BYTES, metrics)?;
    let layer = fmt::layer().with_writer(queue.clone());
    let json = match log.format {
        LogFormat::Auto => !on_terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let layer = if json {
        layer.json().flatten_event(true).with_span_list(false).boxed()
    } else {
        // `fmt` respects NO_COLOR only by default, which an explicit choice overrides.
        let colour = on_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        layer.with_ansi(colour).boxed()
    };
    tracing_subscriber::registry().with(layer.with_filter(silence_libraries(filter))).init();
    panic::set_hook(Box::new(log_panic));
    Ok(Logging(queue))
}

/// Filters out the lines of the libraries for Redis and TLS, unless the filter names them: Linger logs the same events
/// itself, with addresses and causes, and every client could have lines of TLS written.
fn silence_libraries(filter: Targets) -> Targets {
    ["fred", "rustls"].into_iter().fold(filter, |filter, library| {
        let named = filter.iter().any(|(target, _)| target.starts_with(library));
        if named { filter } else { filter.with_target(library, LevelFilter::OFF) }
    })
}

/// Logs a panic as a line, so that the log stays JSON.
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

    #[test]
    fn libraries_are_silent_unless_the_filter_names_them() {
        let filter = |text: &str| silence_libraries(text.parse().expect("a filter"));
        assert!(!filter("debug").would_enable("fred::router", &Level::WARN));
        assert!(!filter("info,fred=debug").would_enable("rustls::msgs::handshake", &Level::WARN));
        assert!(filter("debug").would_enable("linger::queue", &Level::DEBUG));
        assert!(filter("info,fred=debug").would_enable("fred::router", &Level::DEBUG));
    }
}
