//! `linger add --lines`: a job for each line of definitions, in batches. A definition without an id gets one from its
//! content, so that a second run adds nothing.

use std::{collections::HashMap, fs::File, io::stdin, os::fd::AsFd, time::Duration};

use linger_client::Request;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{
    exit::{Exit, Failure},
    line_source::{LineSource, Ready},
    session::Session,
    trace::TraceVariables,
};

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
    let file = match from.map(|from| (from, from.strip_prefix('@'))) {
        None | Some(("-", _)) => stdin().as_fd().try_clone_to_owned().map(File::from).map_err(unreadable)?,
        Some((_, Some(path))) => {
            File::open(path).map_err(|error| Failure::usage(format!("{path}: {error}")))?
        }
        Some((other, None)) => {
            return Err(Failure::usage(format!("{other:?}: --lines reads @FILE, or stdin")));
        }
    };
    Ok((topic, LineSource::new(file)))
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
    let (mut tally, mut batch, mut repetitions) = (Tally::default(), Batch::default(), HashMap::new());
    let (mut number, trace) = (0, TraceVariables::read());
    loop {
        let line = match source.next_ready().map_err(unreadable)? {
            Ready::Line(line) => Some(line),
            Ready::Later => {
                send(session, &mut batch, &mut tally).await?;
                source.next().map_err(unreadable)?
            }
            Ready::End => None,
        };
        // The reader of JSON reports what is not text.
        let text = |line| String::from_utf8(line).unwrap_or_else(|_| "not UTF-8 text".to_owned());
        let Some(line) = line.map(text) else { break };
        number += 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        match complete(&line, topic, &trace, &mut repetitions) {
            Ok(definition) => batch.push(number, definition),
            Err(reason) => tally.fail(session, number, &Failure::usage(reason)),
        }
        if batch.is_full() {
            send(session, &mut batch, &mut tally).await?;
        }
    }
    send(session, &mut batch, &mut tally).await?;
    let Tally { added, known, failed, .. } = tally;
    if session.output.is_text() {
        let summary = format!("{added} added, {known} there already, {failed} failed");
        session.output.print(|| summary, "")?;
    }
    Ok(tally.exit())
}

/// Inserts into a definition what it lacks: the topic, an id made of the content and of how often it came before, and the
/// trace context.
fn complete(
    line: &str,
    topic: Option<&str>,
    trace: &TraceVariables,
    repetitions: &mut HashMap<[u8; 16], u32>,
) -> Result<Box<RawValue>, String> {
    #[derive(Deserialize)]
    struct Definition {
        id: Option<String>,
        topic: Option<String>,
        traceparent: Option<IgnoredAny>,
        tracestate: Option<IgnoredAny>,
    }
    let text = line.trim_ascii();
    let given: Definition =
        serde_json::from_str(text).map_err(|error| format!("is no definition of a job: {error}"))?;
    let mut text = text.to_owned();
    if let (None, Some(topic)) = (&given.topic, topic) {
        text = insert(&text, "topic", topic)?;
    }
    if given.id.is_none() {
        let hash = Sha256::digest(text.as_bytes());
        let content: [u8; 16] = hash[..16].try_into().expect("a hash has 32 bytes");
        let count = repetitions.entry(content).and_modify(|count| *count += 1).or_insert(1);
        let hex: String = content.iter().map(|byte| format!("{byte:02x}")).collect();
        text = insert(&text, "id", &format!("{hex}-{count}"))?;
    }
    // After the id, which must not depend on the trace.
    if given.traceparent.is_none() && given.tracestate.is_none() {
        let TraceVariables { traceparent, tracestate } = trace;
        for (name, value) in [("tracestate", tracestate), ("traceparent", traceparent)] {
            if let Some(value) = value {
                text = insert(&text, name, value)?;
            }
        }
    }
    RawValue::from_string(text).map_err(|error| format!("is no definition of a job: {error}"))
}

/// Inserts a member into an object, whose other bytes stay as they are.
fn insert(object: &str, name: &str, value: &str) -> Result<String, String> {
    let rest = object.strip_prefix('{').ok_or("is no definition of a job: it must be a JSON object")?;
    let comma = if rest.trim_ascii_start().starts_with('}') { "" } else { "," };
    Ok(format!("{{\"{name}\":{}{comma}{rest}", serde_json::Value::from(value)))
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

/// What became of the lines so far.
#[derive(Default)]
struct Tally {
    added: usize,
    known: usize,
    failed: usize,
    /// How the lines that failed did so, taken together.
    failures: Option<Exit>,
}

impl Tally {
    fn fail(&mut self, session: &Session, number: usize, failure: &Failure) {
        let exit = session.output.fail(&failure.clone().about(&format!("line {number}")));
        self.failed += 1;
        self.failures = Some(Exit::of_all(self.failures.into_iter().chain([exit])));
    }

    fn exit(&self) -> Exit {
        let done = (self.added + self.known > 0).then_some(Exit::Done);
        Exit::of_all(done.into_iter().chain(self.failures))
    }
}

/// Sends a batch; again, for a while, the definitions that the server could not add.
async fn send(session: &Session, batch: &mut Batch, tally: &mut Tally) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Results {
        results: Vec<Box<RawValue>>,
    }
    let mut open = std::mem::take(batch).definitions;
    let mut waited = Duration::ZERO;
    while let (Some((first, _)), Some((last, _))) = (open.first(), open.last()) {
        let about = format!("lines {first} to {last}, which may be added again safely");
        let definitions: Vec<_> = open.iter().map(|(_, definition)| definition).collect();
        let response = session.call(&Request::add_batch(&definitions)).await;
        let response = response.map_err(|failure| failure.about(&about))?;
        let Results { results } = session.read(response.text()?)?;
        if results.len() != open.len() {
            let reason = format!("{} results for {} lines", results.len(), open.len());
            return Err(Failure::new(Exit::Failed, reason));
        }
        let is_last = waited >= session.timeout();
        let mut again = Vec::new();
        for ((number, definition), result) in open.into_iter().zip(results) {
            if !report(session, number, result.get(), is_last, tally)? {
                again.push((number, definition));
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

/// Reports the result of a line; false if it should be sent again.
fn report(
    session: &Session,
    number: usize,
    result: &str,
    is_last: bool,
    tally: &mut Tally,
) -> Result<bool, Failure> {
    #[derive(Deserialize)]
    struct Item {
        status: u16,
        problem: Option<Box<RawValue>>,
    }
    let item: Item = session.read(result)?;
    match (item.status, item.problem) {
        (500.., _) if !is_last => return Ok(false),
        (201, _) => tally.added += 1,
        (200, _) => tally.known += 1,
        (status, problem) => {
            let document = problem.as_ref().map_or("", |problem| problem.get());
            tally.fail(session, number, &Failure::of_item(status, document));
            return Ok(true);
        }
    }
    if !session.output.is_text() {
        session.output.print(String::new, result)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_gets_what_it_lacks_and_keeps_its_bytes() {
        let mut repetitions = HashMap::new();
        let mut completed = |line: &str, topic| {
            let untraced = TraceVariables::default();
            complete(line, topic, &untraced, &mut repetitions).map(|definition| definition.get().to_owned())
        };
        let whole = r#"{"id":"a","topic":"t","body":{"n":  1.0}}"#;
        assert_eq!(completed(&format!("  {whole}\r\n"), Some("other")).as_deref(), Ok(whole));
        let hash = |text: &str| {
            let hex: String = Sha256::digest(text)[..16].iter().map(|byte| format!("{byte:02x}")).collect();
            hex
        };
        let (bare, other) = (r#"{ "topic":"t", "body":1e400}"#, r#"{"topic":"t","body":2}"#);
        for (line, count) in [(bare, 1), (other, 1), (bare, 2)] {
            let expected = format!(r#"{{"id":"{}-{count}",{}"#, hash(line), &line[1..]);
            assert_eq!(completed(line, None).as_deref(), Ok(expected.as_str()));
        }
        let expected = format!(r#"{{"id":"{}-1","topic":"t"}}"#, hash(r#"{"topic":"t"}"#));
        assert_eq!(completed("{}", Some("t")).as_deref(), Ok(expected.as_str()));
        for wrong in ["", "7", "[]", "{", "{} {}", r#"{"id":7}"#] {
            assert!(completed(wrong, None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_definition_without_a_trace_context_gets_that_of_the_command() {
        let text = |name: &str| Some(name.to_owned());
        let trace = TraceVariables { traceparent: text("p"), tracestate: text("a=1") };
        let completed = |line: &str, trace: &TraceVariables| {
            complete(line, None, trace, &mut HashMap::new()).expect("is a definition").get().to_owned()
        };
        let (bare, untraced) = (r#"{"topic":"t"}"#, TraceVariables::default());
        let id_first = completed(bare, &untraced);
        let expected = format!(r#"{{"traceparent":"p","tracestate":"a=1",{}"#, &id_first[1..]);
        assert_eq!(completed(bare, &trace), expected, "the same id");
        let parent_only = TraceVariables { tracestate: None, ..trace.clone() };
        assert_eq!(completed(bare, &parent_only), expected.replace(r#""tracestate":"a=1","#, ""));
        for own in [r#"{"id":"a","traceparent":"q"}"#, r#"{"id":"a","tracestate":"b=2"}"#] {
            assert_eq!(completed(own, &trace), own);
        }
    }
}
