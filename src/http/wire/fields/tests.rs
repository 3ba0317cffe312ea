//! How objects are read, how many faults are found, and what null means.

use super::*;
use crate::http::errors::FaultLocation;

fn parse(text: &str) -> Fields<'_> {
    let Ok(fields) = parse_document(text.as_bytes()) else { panic!("{text} is an object") };
    fields
}

fn pointers(fields: Fields<'_>) -> Vec<String> {
    let pointer = |fault: Fault| match fault.location {
        FaultLocation::Pointer(pointer) => pointer,
        FaultLocation::Parameter(name) => panic!("{name} is not a pointer"),
    };
    let faults = fields.finish().err().map(Faults::into_listed);
    faults.into_iter().flatten().map(pointer).collect()
}

#[test]
fn finds_every_fault_at_once() {
    let mut fields = parse(r#"{"a":1,"b":"x","b":"y","c/d~":2,"list":[true,1,"t"]}"#);
    assert_eq!(fields.optional("a", values::text), None);
    assert_eq!(fields.optional("b", values::text), None);
    assert_eq!(fields.optional_list("list", 3, values::flag), None);
    assert_eq!(fields.required("e", values::text), None);
    assert_eq!(pointers(fields), ["/a", "/b", "/list/1", "/list/2", "/e", "/c~1d~0"]);
}

#[test]
fn a_list_over_its_limit_is_one_fault() {
    let mut fields = parse(r#"{"list":[1,2,3,4]}"#);
    assert_eq!(fields.optional_list("list", 3, values::flag), None);
    assert_eq!(pointers(fields), ["/list"]);
}

#[test]
fn an_object_with_too_many_fields_is_refused_without_reading_the_rest() {
    let object = |fields: usize, end: &str| {
        let fields: Vec<_> = (0..fields).map(|n| format!("\"f{n}\":1")).collect();
        format!("{{{}{end}", fields.join(","))
    };
    assert_eq!(pointers(parse(&object(MAX_FIELDS, "}"))).len(), MAX_FAULTS);
    for end in ["}", "", "}}", ",nonsense"] {
        let text = object(MAX_FIELDS + 1, end);
        assert!(matches!(parse_document(text.as_bytes()), Err(ObjectError::InvalidValue(_))), "{end}");
    }
    let long = format!("{{\"{}\":1}}", "x".repeat(MAX_NAME + 1));
    assert_eq!(pointers(parse(&long)), [""]);
}

#[test]
fn null_is_left_out_or_refused_but_never_a_value() {
    const TEXT: &str = r#"{"a":null,"b":null,"c":{"d":null},"e":null,"e":1,"f":null,"g":null}"#;
    let read = |mut fields: Fields<'_>| {
        assert!(!fields.has("a") && fields.optional("a", values::text).is_none() && !fields.has("a"));
        assert!(fields.required("b", values::text).is_none());
        fields.optional_object("c", |inner| inner.optional("d", values::text));
        fields.optional("e", values::text);
        fields.refuse("f", "is refused");
        assert_eq!(fields.raw_or_null("g").map(RawValue::get), Some("null"));
        pointers(fields)
    };
    assert_eq!(read(parse(TEXT)), ["/b", "/e"]);
    let mut refused = parse(TEXT);
    refused.set_null_rule(|_| Some("must not be null"));
    assert_eq!(read(refused), ["/a", "/b", "/c/d", "/e", "/f"]);
}

#[test]
fn an_escaped_name_is_the_same_name() {
    let mut fields = parse(r#"{"\u0061":"x"}"#);
    assert_eq!(fields.optional("a", values::text).as_deref(), Some("x"));
    assert!(pointers(fields).is_empty());
}

#[test]
fn invalid_json_differs_from_a_value_of_another_type() {
    for invalid in [&b"{"[..], b"", b"{\"a\":\"\xff\"}", b"{\"\\ud800\":1}", b"{}{}", b"{\"a\":NaN}"] {
        assert!(matches!(parse_document(invalid), Err(ObjectError::InvalidJson(_))), "{invalid:?}");
    }
    for other in ["[]", "1", "\"a\"", "null"] {
        let parsed = parse_document(other.as_bytes());
        assert!(matches!(parsed, Err(ObjectError::InvalidValue(_))), "{other}");
    }
    let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
    let parsed = parse_document(deep.as_bytes());
    assert!(matches!(parsed, Err(ObjectError::InvalidValue(_))), "without a stack overflow");
}
