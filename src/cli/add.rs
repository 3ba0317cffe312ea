//! `linger add`: one job. Many of them, with `--lines`, are in `lines`.

use std::{
    fs::File,
    io::{Read, stdin},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, ValueEnum};
use linger_client::{Due, Expire, Job, NewJob, OnExpiry, Request, Timestamp};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, fstat, tell},
    io::ioctl_fionread,
};
use serde_json::value::RawValue;

use super::{
    exit::{Exit, Failure},
    lines,
    session::{ChangeArgs, Session},
    text::Wording,
    trace::TraceVariables,
};
use crate::{
    files::file_kind,
    job::{JobId, parse_duration},
};

/// Largest body that is read, in bytes: more than any server accepts.
const MAX_BODY: u64 = 64 * 1_024 * 1_024;

/// Arguments of `linger add`.
#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// Topic of the job; with --lines, of the definitions that have none
    #[arg(required_unless_present = "lines")]
    topic: Option<String>,
    /// Body: a JSON value, @FILE for that in a file, - for that on stdin [default: null]
    #[arg(value_name = "JSON|@FILE|-", allow_negative_numbers = true)]
    body: Option<String>,
    /// When it is due, from now [default: at once]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with_all = ["at", "lines"])]
    delay: Option<Duration>,
    /// When it is due, such as 2027-01-01T08:00:00+01:00
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment, conflicts_with = "lines")]
    at: Option<Timestamp>,
    /// Id of the job: a second add of the same job with the same id adds nothing [default: a new one]
    #[arg(long, conflicts_with = "lines")]
    id: Option<String>,
    /// How long a worker has the job [default: the topic's, else 60s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "lines")]
    ttr: Option<Duration>,
    /// Attempts until it is a dead letter; 0 for no limit [default: the topic's, else 16]
    #[arg(long, value_name = "COUNT", conflicts_with = "lines")]
    max_attempts: Option<u32>,
    /// Waits between attempts, such as 15s,3m
    #[arg(long, value_name = "DURATIONS", value_delimiter = ',', value_parser = parse_duration)]
    #[arg(conflicts_with = "lines")]
    retry: Vec<Duration>,
    /// When it expires: a duration after it is due, or a moment [default: the topic's, else never]
    #[arg(long, value_name = "DURATION|MOMENT", value_parser = parse_expire, conflicts_with = "lines")]
    expire: Option<Expire>,
    /// What happens then [default: the topic's, else dead]
    #[arg(long, value_enum, requires = "expire")]
    on_expiry: Option<OnExpiryArg>,
    /// The body is text, not JSON; the job gets it as a JSON string
    #[arg(long, conflicts_with = "lines")]
    raw: bool,
    /// Add a job for each line: its definition as JSON, as POST /jobs takes it. Read from @FILE or stdin
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) fn parse_moment(text: &str) -> Result<Timestamp, String> {
    // The server's reader of moments, so that both accept the same.
    let moment = crate::job::Timestamp::parse(text).map_err(|error| error.to_string())?;
    Timestamp::from_millisecond(moment.as_millis()).map_err(|error| error.to_string())
}

/// What happens to jobs that expire.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum OnExpiryArg {
    /// They become dead letters
    Dead,
    /// They are deleted
    Delete,
}

impl From<OnExpiryArg> for OnExpiry {
    fn from(argument: OnExpiryArg) -> Self {
        match argument {
            OnExpiryArg::Dead => Self::Dead,
            OnExpiryArg::Delete => Self::Delete,
        }
    }
}

/// A duration, or a moment, which has a dash behind its year.
pub(super) fn parse_expire(text: &str) -> Result<Expire, String> {
    match text.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('-') {
        true => parse_moment(text).map(Expire::At),
        false => parse_duration(text).map(Expire::After).map_err(|error| error.to_string()),
    }
}

/// Runs the command.
pub(super) fn run(arguments: &AddArgs) -> ExitCode {
    let AddArgs { topic, body, change, .. } = arguments;
    if arguments.lines {
        return match lines::source(topic.as_deref(), body.as_deref()) {
            Ok((topic, source)) => {
                change.run("add", async |session| lines::add(session, topic, source).await)
            }
            Err(failure) => change.fail("add", &failure),
        };
    }
    match arguments.job() {
        Ok(job) => change.run("add", async |session| add(session, &job).await),
        Err(failure) => change.fail("add", &failure),
    }
}

impl AddArgs {
    /// The job as given. Without an id it gets one, by which the server recognises a repeat.
    fn job(&self) -> Result<NewJob, Failure> {
        if self.body.is_none() && stdin_may_have_bytes() {
            return Err(Failure::usage(
                "stdin is read only if the body is -: add - to send it, or null to send none",
            ));
        }
        let delay = self.delay.map(Due::Delay);
        let TraceVariables { traceparent, tracestate } = TraceVariables::read();
        Ok(NewJob {
            topic: self.topic.clone().unwrap_or_default(),
            id: Some(self.id.clone().unwrap_or_else(|| JobId::generate().to_string())),
            due: delay.or(self.at.map(Due::At)),
            ttr: self.ttr,
            max_attempts: self.max_attempts,
            retry: self.retry.clone(),
            expire: self.expire,
            on_expiry: self.on_expiry.map(Into::into),
            callback: None,
            traceparent,
            tracestate,
            body: self.body.as_deref().map(|body| self.json(body)).transpose()?,
        })
    }

    fn json(&self, given: &str) -> Result<Box<RawValue>, Failure> {
        let (text, source) = match given.strip_prefix('@') {
            _ if given == "-" => (read(stdin().lock(), "stdin")?, "stdin"),
            Some(path) => {
                let file = File::open(path).map_err(|error| Failure::usage(format!("{path}: {error}")))?;
                (read(file, path)?, path)
            }
            None => (given.to_owned(), "the body"),
        };
        if self.raw {
            return Ok(serde_json::value::to_raw_value(&text).expect("any text is a JSON string"));
        }
        let text = text.strip_prefix(file_kind::BYTE_ORDER_MARK).map(str::to_owned).unwrap_or(text);
        RawValue::from_string(text).map_err(|error| {
            Failure::usage(format!("{source} is not JSON: {error}; --raw takes text as it is"))
        })
    }
}

fn read(from: impl Read, name: &str) -> Result<String, Failure> {
    let unusable = |reason: &dyn std::fmt::Display| Failure::usage(format!("{name}: {reason}"));
    let mut bytes = Vec::new();
    from.take(MAX_BODY + 1).read_to_end(&mut bytes).map_err(|error| unusable(&error))?;
    if bytes.len() as u64 > MAX_BODY {
        return Err(unusable(&format_args!("is larger than {MAX_BODY} bytes")));
    }
    let kind = file_kind::recognise(&bytes).unwrap_or("is not UTF-8 text");
    String::from_utf8(bytes).map_err(|_| unusable(&kind))
}

/// Whether stdin may have a body. Reading it unasked would take the lines of a shell's loop around the
/// command, or wait for ever where a pipe is only inherited.
fn stdin_may_have_bytes() -> bool {
    let stdin = stdin();
    let Ok(stat) = fstat(&stdin) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let length = u64::try_from(stat.st_size).unwrap_or(0);
            tell(&stdin).map_or(true, |position| position < length)
        }
        FileType::Fifo | FileType::Socket => {
            let mut polled = [PollFd::new(&stdin, PollFlags::IN | PollFlags::RDHUP)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let is_known = poll(&mut polled, Some(&now)).is_ok();
            let has_ended = is_known && polled[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP);
            !(has_ended && ioctl_fionread(&stdin).is_ok_and(|left| left == 0))
        }
        _ => false,
    }
}

async fn add(session: &Session, job: &NewJob) -> Result<Exit, Failure> {
    session.confirm_change(&format!("add a job to {}", job.topic))?;
    let response = session.call(&Request::add(job)).await?;
    let is_new = response.status == 201;
    session.print(&response, |job: Job| {
        // A new job is seen as of its add, so that the delay reads as it was given.
        let wording = if is_new { Wording::new(job.created_at) } else { session.wording() };
        let repeat = if is_new { "" } else { "  (was there already)" };
        format!("{}{repeat}", wording.job(&job))
    })?;
    Ok(Exit::Done)
}
