//! The body of a bulk publish.

use std::fmt;

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::requests::{Parsed, refuse, too_large};

/// Most jobs of one publish.
const MAX_BULK: usize = 64;
/// What is said of a job that is too large.
pub const JOB_TOO_LARGE: &str = "job too large";

/// The payloads of a bulk publish: the values of an array, as they are written. No job may be longer than `max_body`.
pub fn payloads(body: &Bytes, max_body: usize) -> Parsed<Vec<Bytes>> {
    let values: Option<Values<'_>> =
        serde_json::from_slice(body).map_err(|_| refuse("request body should be an array of objects"))?;
    let Values(values) = values.unwrap_or_default();
    if values.is_empty() {
        return Err(refuse("no jobs"));
    }
    if values.len() > MAX_BULK {
        return Err(refuse("too many jobs"));
    }
    if values.iter().any(|value| value.get().len() > max_body) {
        return Err(too_large(JOB_TOO_LARGE));
    }
    Ok(values.iter().map(|value| body.slice_ref(value.get().as_bytes())).collect())
}

/// The first values of an array, one more than a bulk may have. Of others it is only checked that they are JSON: millions of them fit
/// into a body.
#[derive(Default)]
struct Values<'a>(Vec<&'a RawValue>);

impl<'a> Deserialize<'a> for Values<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValuesVisitor;

        impl<'a> Visitor<'a> for ValuesVisitor {
            type Value = Values<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'a>>(self, mut array: A) -> Result<Values<'a>, A::Error> {
                let mut values = Vec::new();
                while values.len() <= MAX_BULK {
                    let Some(value) = array.next_element()? else { return Ok(Values(values)) };
                    values.push(value);
                }
                while array.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Values(values))
            }
        }

        deserializer.deserialize_seq(ValuesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the text of a refusal.
    fn refused<T>(parsed: Parsed<T>) -> Result<T, String> {
        parsed.map_err(|problem| problem.detail().to_owned())
    }

    #[test]
    fn a_bulk_is_an_array_of_values_as_they_are_written() {
        let parsed = |text: &'static str| {
            let payloads = payloads(&Bytes::from_static(text.as_bytes()), 10);
            refused(payloads)
        };
        assert_eq!(
            parsed(r#" [ {"a" : 1}, "x" ,null ] "#),
            Ok(vec![r#"{"a" : 1}"#.into(), r#""x""#.into(), "null".into()])
        );
        for (text, refusal) in [
            ("", "request body should be an array of objects"),
            (r#"{"a":1}"#, "request body should be an array of objects"),
            ("[1", "request body should be an array of objects"),
            ("[]", "no jobs"),
            ("null", "no jobs"),
            (r#"["0123456789"]"#, "job too large"),
        ] {
            assert_eq!(parsed(text), Err(refusal.to_owned()), "{text}");
        }
        let many = |count| Bytes::from(format!("[{}]", vec!["1"; count].join(",")));
        assert_eq!(refused(payloads(&many(64), 1)).map(|all| all.len()), Ok(64));
        assert_eq!(refused(payloads(&many(65), 1)), Err("too many jobs".to_owned()));
        let broken = Bytes::from(format!("[{},?]", vec!["1"; 99].join(",")));
        let refusal = "request body should be an array of objects".to_owned();
        assert_eq!(refused(payloads(&broken, 1)), Err(refusal));
    }
}
