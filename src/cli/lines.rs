//! `linger add --lines`: a job for each line of definitions, in batches. What a line means is in `definition`.

use std::{collections::HashMap, fs::File, io::stdin, os::fd::AsFd, time::Duration};

use linger_client::Request;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::{
    definition::definition,
    exit::{Exit, Failure},
    line_source::{LineSource, Ready},
    progress::ProgressLine,
    session::Session,
    trace::TraceVariables,
};
use crate::files::file_kind;

/// Most definitions of a batch, and most bytes: well below the limits of a server.
const MAX_BATCH: usize = 100;
const MAX_BATCH_BYTES: usize = 1_024 * 1_024;

/// Between two attempts for the jobs of a batch that the server could not add.
const PAUSE: Duration = Duration::from_millis(200);

/// Reads the arguments `[TOPIC] [@FILE|-]`: the default topic, and where the lines are.
pub(super) fn source<'a>(
    topic: Option<&'a str>,
    from: Option<&'a str>,
) -> Result<(Option<&'a str>, LineSource), Failure> {
    // No topic begins with an @.
    let (topic, from) = match (topic, from) {
        (Some(only), None) if only == "-" || only.starts_with('@') => (None, Some(only)),
        other => other,
    };
    let (file, name) = match from.map(|from| (from, from.strip_prefix('@'))) {
        None | Some(("-", _)) => {
            (stdin().as_fd().try_clone_to_owned().map(File::from).map_err(unreadable)?, "stdin")
        }
        Some((_, Some(path))) => {
            (File::open(path).map_err(|error| Failure::usage(format!("{path}: {error}")))?, path)
        }
        Some((other, None)) => {
            return Err(Failure::usage(format!("{other:?}: --lines reads @FILE, or stdin")));
        }
    };
    Ok((topic, LineSource::new(file, name.to_owned())))
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot read the definitions: {error}"))
}

/// Adds a job for each line, at the latest when the next line has to be waited for. Lines that fail are reported, and the
/// others added.
pub(super) async fn add(
    session: &Session,
    topic: Option<&str>,
    mut source: LineSource,
) -> Result<Exit, Failure> {
    session.confirm_change("add jobs")?;
    let mut tally = Tally::new(session, source.name.clone());
    let (mut batch, mut repetitions) = (Batch::default(), HashMap::new());
    let (mut number, trace) = (0, TraceVariables::read());
    loop {
        let line = match source.next_ready().map_err(unreadable)? {
            Ready::Later => {
                send(session, &mut batch, &mut tally).await?;
                source.next().map_err(unreadable)?
            }
            found => found,
        };
        number += 1;
        let definition = match line {
            Ready::Line(line) => {
                if number == 1
                    && let Some(kind) = file_kind::recognise(&line)
                {
                    return Err(Failure::usage(format!("{}: {kind}", source.name)));
                }
                definition(&line, number, topic, &trace, &mut repetitions)
            }
            Ready::TooLong => Err("is longer than any server accepts".to_owned()),
            Ready::Later | Ready::End => break,
        };
        match definition {
            Ok(Some(definition)) => batch.push(number, definition),
            Ok(None) => {}
            Err(reason) => tally.fail(number, &Failure::usage(reason)),
        }
        tally.progress.add(1);
        if batch.is_full() {
            send(session, &mut batch, &mut tally).await?;
        }
    }
    send(session, &mut batch, &mut tally).await?;
    let Tally { added, known, failed, .. } = tally;
    let exit = tally.exit();
    drop(tally);
    if session.output.is_text() {
        let summary = format!("{added} added, {known} there already, {failed} failed");
        session.output.print(|| summary, "")?;
    }
    Ok(exit)
}

/// Definitions that are sent together, with the numbers of their lines.
#[derive(Default)]
struct Batch {
    definitions: Vec<(usize, Box<RawValue>)>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, number: usize, definition: Box<RawValue>) {
        self.bytes += definition.get().len();
        self.definitions.push((number, definition));
    }

    fn is_full(&self) -> bool {
        self.definitions.len() >= MAX_BATCH || self.bytes >= MAX_BATCH_BYTES
    }
}

/// The results of the lines so far.
struct Tally<'a> {
    session: &'a Session,
    /// The name of the file.
    file: String,
    progress: ProgressLine,
    added: usize,
    known: usize,
    failed: usize,
    /// How the lines that failed did so, taken together.
    failures: Option<Exit>,
}

impl<'a> Tally<'a> {
    fn new(session: &'a Session, file: String) -> Self {
        // In JSON the results may go to the same terminal.
        let progress = if session.output.is_text() {
            ProgressLine::counting("add", "line")
        } else {
            ProgressLine::none()
        };
        Self { session, file, progress, added: 0, known: 0, failed: 0, failures: None }
    }

    fn fail(&mut self, number: usize, failure: &Failure) {
        let failure = failure.clone().about(&format!("{}, line {number}", self.file));
        let exit = self.progress.interrupt(|| self.session.output.fail(&failure));
        self.failed += 1;
        self.failures = Some(Exit::of_all(self.failures.into_iter().chain([exit])));
    }

    fn exit(&self) -> Exit {
        let done = (self.added + self.known > 0).then_some(Exit::Done);
        Exit::of_all(done.into_iter().chain(self.failures))
    }
}

/// Sends a batch. One that is refused as a whole, such as for its size, is sent in halves, so that only the lines at fault
/// fail.
async fn send(session: &Session, batch: &mut Batch, tally: &mut Tally<'_>) -> Result<(), Failure> {
    let mut parts = vec![std::mem::take(batch).definitions];
    while let Some(mut part) = parts.pop() {
        let (Some((first, _)), Some((last, _))) = (part.first(), part.last()) else { continue };
        let (first, last) = (*first, *last);
        match send_part(session, &part, tally).await {
            Ok(()) => {}
            Err(failure) if failure.is_about_content() && part.len() == 1 => tally.fail(first, &failure),
            Err(failure) if failure.is_about_content() => {
                let rest = part.split_off(part.len() / 2);
                parts.extend([rest, part]);
            }
            Err(failure) => {
                let about =
                    format!("{}, lines {first} to {last}, which may be added again safely", tally.file);
                return Err(failure.about(&about));
            }
        }
    }
    Ok(())
}

/// Sends definitions; again, for a while, those that the server could not add.
async fn send_part(
    session: &Session,
    part: &[(usize, Box<RawValue>)],
    tally: &mut Tally<'_>,
) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Results {
        results: Vec<Box<RawValue>>,
    }
    let mut open: Vec<_> = part.iter().collect();
    let mut waited = Duration::ZERO;
    while !open.is_empty() {
        let definitions: Vec<_> = open.iter().map(|(_, definition)| definition).collect();
        let response = session.call(&Request::add_batch(&definitions)).await?;
        let Results { results } = session.read(&response)?;
        if results.len() != open.len() {
            let reason = format!("{} results for {} lines", results.len(), open.len());
            return Err(Failure::new(Exit::Failed, reason));
        }
        let is_last = waited >= session.timeout();
        let mut again = Vec::new();
        for (index, (line, result)) in open.into_iter().zip(results).enumerate() {
            if !report((line.0, index), &result, is_last, tally)? {
                again.push(line);
            }
        }
        open = again;
        if !open.is_empty() {
            session.clock.sleep(PAUSE).await;
            waited += PAUSE;
        }
    }
    Ok(())
}

/// Reports the result of a line, which has an index in its batch; false if it should be sent again.
fn report(
    (number, index): (usize, usize),
    result: &RawValue,
    is_last: bool,
    tally: &mut Tally<'_>,
) -> Result<bool, Failure> {
    #[derive(Deserialize)]
    struct Item {
        status: u16,
        problem: Option<Box<RawValue>>,
    }
    let session = tally.session;
    let item: Item = session.part(result)?;
    match (item.status, item.problem) {
        (500.., _) if !is_last => return Ok(false),
        (201, _) => tally.added += 1,
        (200, _) => tally.known += 1,
        (status, problem) => {
            let document = problem.as_ref().map_or("", |problem| problem.get());
            tally.fail(number, &Failure::of_item(status, &of_line(document, index, number)));
            return Ok(true);
        }
    }
    if !session.output.is_text() {
        session.output.print(String::new, result.get())?;
    }
    Ok(true)
}

/// A problem document about an item of a batch as one about a line: its number is added, and the item's place in the batch,
/// which the user does not see, is taken from the pointers.
fn of_line(document: &str, index: usize, number: usize) -> String {
    let Ok(mut problem) = serde_json::from_str::<Map<String, Value>>(document) else {
        return document.to_owned();
    };
    let place = format!("/jobs/{index}");
    let strip = |member: Option<&mut Value>| {
        if let Some(Value::String(text)) = member
            && let Some(rest) = text.strip_prefix(&place)
            && !rest.starts_with(|c: char| c.is_ascii_digit())
        {
            *text = if rest.starts_with(' ') { format!("the definition{rest}") } else { rest.to_owned() };
        }
    };
    strip(problem.get_mut("detail"));
    let errors = problem.get_mut("errors").and_then(Value::as_array_mut);
    errors.into_iter().flatten().for_each(|error| strip(error.get_mut("pointer")));
    problem.insert("line".to_owned(), number.into());
    Value::Object(problem).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_an_item_is_told_of_its_line() {
        let problem = r#"{"status":422,"detail":"/jobs/1/id may only hold x","errors":[{"pointer":"/jobs/1/id","detail":"x"}]}"#;
        let expected = r#"{"status":422,"detail":"/id may only hold x","errors":[{"pointer":"/id","detail":"x"}],"line":7}"#;
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("is JSON");
        assert_eq!(read(&of_line(problem, 1, 7)), read(expected));
        assert_eq!(read(&of_line(r#"{"detail":"/jobs/12 is wrong"}"#, 1, 7))["detail"], "/jobs/12 is wrong");
        assert_eq!(
            read(&of_line(r#"{"detail":"/jobs/1 is wrong"}"#, 1, 7))["detail"],
            "the definition is wrong"
        );
        assert_eq!(of_line("<html>", 1, 7), "<html>");
    }
}
