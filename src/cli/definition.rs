//! A line of `linger add --lines`: the definition of a job as the API takes it, completed. One without an id gets an id from its
//! content, so that a second run adds nothing.

use std::collections::HashMap;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use sha2::{Digest, Sha256};

use super::trace::TraceVariables;
use crate::files::file_kind::BYTE_ORDER_MARK;

/// The definition in a line, with what it lacks; none in a blank line.
pub(super) fn definition(
    line: &[u8],
    number: usize,
    topic: Option<&str>,
    trace: &TraceVariables,
    repetitions: &mut HashMap<[u8; 16], u32>,
) -> Result<Option<Box<RawValue>>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "is not UTF-8 text".to_owned())?;
    let text = text.strip_prefix(BYTE_ORDER_MARK).filter(|_| number == 1).unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return Ok(None);
    }
    complete(text, topic, trace, repetitions).map(Some)
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
    let given: Definition = serde_json::from_str(text).map_err(|error| not_a_definition(&error))?;
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
    RawValue::from_string(text).map_err(|error| not_a_definition(&error))
}

/// The line is that of the file, so the error names the column alone.
fn not_a_definition(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    format!("is no definition of a job: {text} at column {}", error.column())
}

/// Inserts a member into an object, whose other bytes stay as they are.
fn insert(object: &str, name: &str, value: &str) -> Result<String, String> {
    let rest = object.strip_prefix('{').ok_or("is no definition of a job: it must be a JSON object")?;
    let comma = if rest.trim_ascii_start().starts_with('}') { "" } else { "," };
    Ok(format!("{{\"{name}\":{}{comma}{rest}", Value::from(value)))
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
    fn a_byte_order_mark_is_understood_in_the_first_line_and_other_bytes_are_named() {
        let read = |line: &[u8], number| {
            let untraced = TraceVariables::default();
            let read = definition(line, number, None, &untraced, &mut HashMap::new());
            read.map(|definition| definition.map(|definition| definition.get().to_owned()))
        };
        assert_eq!(read(b"\xef\xbb\xbf{\"id\":\"a\"}\r\n", 1), Ok(Some(r#"{"id":"a"}"#.to_owned())));
        assert_eq!(read(b"\xef\xbb\xbf\n", 1), Ok(None));
        assert!(read(b"\xef\xbb\xbf{}", 2).is_err());
        assert_eq!(read(b"{\"body\":\"\xb6\xa9\"}", 2), Err("is not UTF-8 text".to_owned()));
        let error = read(br#"{"id":"a",}"#, 7).expect_err("is no JSON");
        assert_eq!(error, "is no definition of a job: trailing comma at column 11");
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
