//! `linger add`: one job. Many of them, with `--lines`, are in `lines`.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use linger_client::{Added, Due, Expire, FinishedJob, IfExists, Job, NewJob, Request, Response, Timestamp};

use super::{
    exit::{Exit, Failure},
    job_args::{JobArgs, OnExpiryArg, parse_expire, parse_moment},
    json_argument, lines,
    session::{ChangeArgs, Session},
    text::Wording,
    trace::TraceVariables,
};
use crate::job::{JobId, parse_duration};

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
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "at")]
    delay: Option<Duration>,
    /// When it is due, such as 2027-01-01T08:00:00+01:00
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment)]
    at: Option<Timestamp>,
    /// Id of the job: a second add of the same job with the same id adds nothing [default: a new one]
    #[arg(long)]
    id: Option<String>,
    /// Replace the job of this topic that has this id, if there is one
    #[arg(long, requires = "id")]
    replace: bool,
    /// Revision of the job: --replace then replaces only a job with a lower one or none
    #[arg(long, value_name = "NUMBER", requires = "id")]
    revision: Option<u64>,
    #[command(flatten)]
    job: JobArgs,
    /// When it expires: a duration after it is due, or a moment [default: the topic's, else never]
    #[arg(long, value_name = "DURATION|MOMENT", value_parser = parse_expire)]
    expire: Option<Expire>,
    /// What happens then [default: the topic's, else dead]
    #[arg(long, value_enum, requires = "expire")]
    on_expiry: Option<OnExpiryArg>,
    /// The body is text, not JSON; the job gets it as a JSON string
    #[arg(long)]
    raw: bool,
    /// Add a job for each line: its definition as JSON, as POST /jobs takes it. Read from @FILE or stdin
    #[arg(long, conflicts_with_all = ["delay", "at", "id", "JobArgs", "expire", "raw", "replace", "revision"])]
    lines: bool,
    #[command(flatten)]
    change: ChangeArgs,
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
        if self.body.is_none() {
            json_argument::expect_no_body_on_stdin(
                "stdin is read only if the body is -: add - to send it, or null to send none",
            )?;
        }
        let delay = self.delay.map(Due::Delay);
        let TraceVariables { traceparent, tracestate } = TraceVariables::read();
        let body = self.body.as_deref().map(|body| json_argument::body(body, self.raw)).transpose()?;
        Ok(self.job.apply(NewJob {
            id: Some(self.id.clone().unwrap_or_else(|| JobId::generate().to_string())),
            due: delay.or(self.at.map(Due::At)),
            expire: self.expire,
            on_expiry: self.on_expiry.map(Into::into),
            revision: self.revision,
            if_exists: self.replace.then_some(IfExists::Replace),
            traceparent,
            tracestate,
            body,
            ..NewJob::new(self.topic.clone().unwrap_or_default())
        }))
    }
}

async fn add(session: &Session, job: &NewJob) -> Result<Exit, Failure> {
    session.confirm_change(&format!("add a job to {}", job.topic))?;
    let response = session.call(&Request::add(job)).await?;
    print_added(session, &response)
}

/// Prints the job that a call added, or one that was there already.
pub(super) fn print_added(session: &Session, response: &Response) -> Result<Exit, Failure> {
    if let Ok(Added::Finished(_)) = Added::read(response) {
        session.print(response, |FinishedJob { id, ended, .. }: FinishedJob| {
            let since = session.wording().since(ended.at);
            format!("{id}  finished {since} ago  (was finished before; nothing was added)")
        })?;
        return Ok(Exit::Done);
    }
    let is_new = response.status == 201 || response.is_replacement();
    session.print(response, |job: Job| {
        // A new job is seen as of its add, so that the delay reads as it was given.
        let wording = if is_new { Wording::new(job.created_at) } else { session.wording() };
        let repeat = match response.status {
            201 => "",
            _ if response.is_replacement() => "  (replaced an older version)",
            _ => "  (was there already)",
        };
        format!("{}{repeat}", wording.job(&job))
    })?;
    Ok(Exit::Done)
}
