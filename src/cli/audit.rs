//! `linger audit`: who asked for which change, and what came of it.

use std::process::ExitCode;

use clap::Args;
use linger_client::{Request, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{exit::Exit, session::ReadArgs, text::Wording};
use crate::messages::printable::escape_line;

/// Arguments of `linger audit`.
#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// Only calls about this topic
    topic: Option<String>,
    /// Only calls by this caller, as its token is named
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Most calls
    #[arg(long, value_name = "COUNT", default_value = "50")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000))]
    limit: u64,
    /// Where to go on, as an earlier list has said
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    read: ReadArgs,
}

/// A call of the list.
#[derive(Deserialize)]
struct Call {
    at: Timestamp,
    by: String,
    from_browser: bool,
    method: String,
    path: String,
    request: Option<Box<RawValue>>,
    status: Option<u16>,
}

/// Runs the command.
pub(super) fn run(AuditArgs { topic, by, limit, cursor, read }: &AuditArgs) -> ExitCode {
    #[derive(Deserialize)]
    struct Page {
        calls: Vec<Call>,
        next_cursor: Option<String>,
    }
    read.run("audit", async |session| {
        let request = Request::audit(topic.as_deref(), by.as_deref(), *limit, cursor.as_deref());
        let response = session.call(&request).await?;
        session.print(&response, |Page { calls, next_cursor }| {
            if calls.is_empty() {
                return "no call was noted".to_owned();
            }
            let wording = session.wording();
            let lines = calls.iter().map(|call| call.line(&wording));
            let more = next_cursor.map(|next| format!("There are more: --cursor {}", escape_line(&next)));
            lines.chain(more).collect::<Vec<_>>().join("\n")
        })?;
        Ok(Exit::Done)
    })
}

impl Call {
    /// `2026-11-29 14:05:11 +01:00  ann (dashboard)  POST /topics/mail/pause  200  {"reason":"..."}`.
    fn line(&self, wording: &Wording) -> String {
        let by = match (&*self.by, self.from_browser) {
            ("", true) => "dashboard".to_owned(),
            (by, true) => format!("{} (dashboard)", escape_line(by)),
            (by, false) => escape_line(by).into_owned(),
        };
        let call = format!("{} {}", self.method, escape_line(&self.path));
        let status = self.status.map_or_else(|| "outcome unknown".to_owned(), |status| status.to_string());
        let request = self.request.as_ref().map(|request| escape_line(request.get()).into_owned());
        let parts = [Some(wording.moment(self.at)), Some(by), Some(call), Some(status), request];
        parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn a_line_says_when_who_what_and_with_which_outcome() {
        let wording = Wording::in_zone("2026-11-29T14:00:00Z".parse().expect("is a moment"), TimeZone::UTC);
        let line = |json: &str| serde_json::from_str::<Call>(json).expect("is a call").line(&wording);
        let paused = r#"{"at":"2026-11-29T13:59:00.000Z","by":"ann","from_browser":true,"method":"POST",
            "path":"/topics/mail/pause","request":{"reason":"a\u0007b"},"status":200}"#;
        let moment = wording.moment("2026-11-29T13:59:00Z".parse().expect("is a moment"));
        assert_eq!(
            line(paused),
            format!(r#"{moment}  ann (dashboard)  POST /topics/mail/pause  200  {{"reason":"a\u0007b"}}"#)
        );
        let killed = r#"{"at":"2026-11-29T13:59:00.000Z","by":"10.0.0.7","from_browser":false,"method":"DELETE",
            "path":"/topics/mail?confirm=mail"}"#;
        assert_eq!(
            line(killed),
            format!("{moment}  10.0.0.7  DELETE /topics/mail?confirm=mail  outcome unknown")
        );
    }
}
