//! Reading a JSON object field by field, so that all its faults are found at once.
//!
//! An object is a list of names and raw values: known fields are taken out, what is given twice or left
//! over is a fault. Knows JSON and pointers, not what the fields mean; `values` reads them.
//!
//! What is kept of a hostile object is bounded: so many fields, and so many faults.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error as _, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::suggestions;
use crate::http::errors::{Fault, Faults, MAX_FAULTS, Problem};

/// An object being read, and what was found wrong so far.
pub struct Fields<'a> {
    /// JSON Pointer of the object itself.
    at: String,
    /// In the order of the text.
    entries: Vec<Entry<'a>>,
    /// The fields that this kind of object may have, as far as they were asked for.
    known: Vec<&'static str>,
    faults: Faults,
}

/// A name and its value, which is `None` once taken.
type Entry<'a> = (Cow<'a, str>, Option<&'a RawValue>);

/// Most fields of any object of the API; more than any has.
const MAX_FIELDS: usize = 64;
/// Longest unknown name that an answer repeats, in bytes.
const MAX_NAME: usize = 64;

const NO_OBJECT: &str = "must be a JSON object";

/// Why a document could not be read as an object.
pub enum NotAnObject {
    /// Not JSON.
    Broken(Problem),
    /// JSON, but of another type, or an object with far too many fields.
    Refused(Faults),
}

/// Reads the text of a request as an object.
pub fn document(bytes: &[u8]) -> Result<Fields<'_>, NotAnObject> {
    let broken = |detail: String| NotAnObject::Broken(Problem::malformed(detail));
    if bytes.starts_with("\u{feff}".as_bytes()) {
        return Err(broken("the body begins with a byte order mark; send it without".to_owned()));
    }
    let text =
        std::str::from_utf8(bytes).map_err(|error| broken(format!("the body is not UTF-8: {error}")))?;
    let not_json = |error: serde_json::Error| broken(format!("the body is not JSON: {error}"));
    if !text.trim_ascii_start().starts_with('{') {
        serde_json::from_str::<&RawValue>(text).map_err(not_json)?;
        return Err(refused(Fault::at(String::new(), NO_OBJECT), MAX_FAULTS));
    }
    Fields::of(text, String::new(), MAX_FAULTS, not_json)
}

impl<'a> Fields<'a> {
    /// Reads `raw`, whose pointer is `at`; at most `faults` of its faults will be listed.
    pub fn read(raw: &'a RawValue, at: String, faults: usize) -> Result<Self, NotAnObject> {
        if !raw.get().starts_with('{') {
            return Err(refused(Fault::at(at, NO_OBJECT), faults));
        }
        // What can still be wrong is a name that is no Unicode, such as half of a surrogate pair.
        Self::of(raw.get(), at, faults, |error| {
            NotAnObject::Broken(Problem::malformed(format!("not a JSON object: {error}")))
        })
    }

    fn of(
        text: &'a str,
        at: String,
        faults: usize,
        broken: impl FnOnce(serde_json::Error) -> NotAnObject,
    ) -> Result<Self, NotAnObject> {
        match entries(text) {
            Ok(Some(entries)) => {
                Ok(Self { at, entries, known: Vec::with_capacity(8), faults: Faults::new(faults) })
            }
            Ok(None) => {
                let detail = format!("must have at most {MAX_FIELDS} fields");
                Err(refused(Fault::at(at, detail), faults))
            }
            Err(error) => Err(broken(error)),
        }
    }

    /// Whether the object has no fields at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether the field `name` is there.
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(key, _)| key == name)
    }

    /// The raw value of a field that may be left out.
    pub fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.known.push(name);
        let mut found = None;
        for (_, value) in self.entries.iter_mut().filter(|(key, _)| key == name) {
            let value = value.take();
            if found.is_some() {
                let fault = Fault::at(pointer(&self.at, name), "must be given once");
                self.faults.push(fault);
                return None;
            }
            found = value;
        }
        found
    }

    /// Reads a field that may be left out; a fault is kept and reads as left out.
    pub fn take<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&'a RawValue) -> Result<T, String>,
    ) -> Option<T> {
        let raw = self.raw(name)?;
        read(raw).map_err(|detail| self.fault(name, detail)).ok()
    }

    /// Reads a field that must be there.
    pub fn need<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&'a RawValue) -> Result<T, String>,
    ) -> Option<T> {
        if !self.has(name) {
            self.known.push(name);
            self.fault(name, "is required");
            return None;
        }
        self.take(name, read)
    }

    /// Reads a list of at most `limit` elements, each of which can be at fault.
    pub fn take_list<T>(
        &mut self,
        name: &'static str,
        limit: usize,
        read: impl Fn(&'a RawValue) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let list = self.take(name, |raw| super::values::list(raw, limit))?;
        if list.len > limit {
            self.fault(name, format!("must have at most {limit} elements, got {}", list.len));
            return None;
        }
        let mut items = Vec::with_capacity(list.len);
        for (i, raw) in list.items.iter().enumerate() {
            match read(raw) {
                Ok(item) => items.push(item),
                Err(detail) => self.fault(&format!("{name}/{i}"), detail),
            }
        }
        (items.len() == list.len).then_some(items)
    }

    /// Keeps a fault of the field `name`; empty for the object itself.
    pub fn fault(&mut self, name: &str, detail: impl Into<String>) {
        let at = if name.is_empty() { self.at.clone() } else { pointer(&self.at, name) };
        self.faults.push(Fault::at(at, detail));
    }

    /// The JSON Pointer of the field `name`.
    pub fn pointer(&self, name: &str) -> String {
        pointer(&self.at, name)
    }

    /// Every fault found, the fields that nobody took among them.
    pub fn faults(mut self) -> Faults {
        let left_over = self.entries.iter().filter(|(_, value)| value.is_some());
        for (key, _) in left_over {
            self.faults.push(if key.len() > MAX_NAME {
                let detail = format!("has an unknown field with a name of {} bytes", key.len());
                Fault::at(self.at.clone(), detail)
            } else {
                let at = pointer(&self.at, &key.replace('~', "~0").replace('/', "~1"));
                Fault::at(at, suggestions::unknown(key, &self.known, "a field of this object", "fields"))
            });
        }
        self.faults
    }
}

fn refused(fault: Fault, limit: usize) -> NotAnObject {
    let mut faults = Faults::new(limit);
    faults.push(fault);
    NotAnObject::Refused(faults)
}

fn pointer(at: &str, name: &str) -> String {
    format!("{at}/{name}")
}

/// The entries of a text that is one JSON object; none when there are more than [`MAX_FIELDS`], of which the
/// rest is not read.
fn entries(text: &str) -> serde_json::Result<Option<Vec<Entry<'_>>>> {
    let mut too_many = false;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Entries { too_many: &mut too_many }.deserialize(&mut deserializer);
    match read.and_then(|entries| deserializer.end().map(|()| entries)) {
        Err(_) if too_many => Ok(None),
        read => read.map(Some),
    }
}

/// Reads entries in the order of the text.
struct Entries<'f> {
    too_many: &'f mut bool,
}

/// A name, borrowed from the text where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = Vec<Entry<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = Vec<Entry<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
            if entries.len() == MAX_FIELDS {
                *self.too_many = true;
                return Err(A::Error::custom("too many fields"));
            }
            entries.push((key, Some(map.next_value::<&'de RawValue>()?)));
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{errors::Place, wire::values};

    fn read(text: &str) -> Fields<'_> {
        let Ok(fields) = document(text.as_bytes()) else { panic!("{text} is an object") };
        fields
    }

    fn pointers(fields: Fields<'_>) -> Vec<String> {
        let place = |fault: Fault| match fault.place {
            Place::Pointer(pointer) => pointer,
            Place::Parameter(name) => panic!("{name} is no pointer"),
        };
        fields.faults().into_listed().into_iter().map(place).collect()
    }

    #[test]
    fn finds_every_fault_at_once() {
        let mut fields = read(r#"{"a":1,"b":"x","b":"y","c/d~":2,"list":[true,1,"t"]}"#);
        assert_eq!(fields.take("a", values::text), None);
        assert_eq!(fields.take("b", values::text), None);
        assert_eq!(fields.take_list("list", 3, values::flag), None);
        assert_eq!(fields.need("e", values::text), None);
        assert_eq!(pointers(fields), ["/a", "/b", "/list/1", "/list/2", "/e", "/c~1d~0"]);
    }

    #[test]
    fn a_list_over_its_limit_is_one_fault() {
        let mut fields = read(r#"{"list":[1,2,3,4]}"#);
        assert_eq!(fields.take_list("list", 3, values::flag), None);
        assert_eq!(pointers(fields), ["/list"]);
    }

    #[test]
    fn more_fields_than_any_object_has_are_refused_unread() {
        let object = |fields: usize, end: &str| {
            let fields: Vec<_> = (0..fields).map(|n| format!("\"f{n}\":1")).collect();
            format!("{{{}{end}", fields.join(","))
        };
        assert_eq!(pointers(read(&object(MAX_FIELDS, "}"))).len(), MAX_FAULTS);
        for end in ["}", "", "}}", ",nonsense"] {
            let text = object(MAX_FIELDS + 1, end);
            assert!(matches!(document(text.as_bytes()), Err(NotAnObject::Refused(_))), "{end}");
        }
        let long = format!("{{\"{}\":1}}", "x".repeat(MAX_NAME + 1));
        assert_eq!(pointers(read(&long)), [""]);
    }

    #[test]
    fn an_escaped_name_is_the_same_name() {
        let mut fields = read(r#"{"\u0061":"x"}"#);
        assert_eq!(fields.take("a", values::text).as_deref(), Some("x"));
        assert!(pointers(fields).is_empty());
    }

    #[test]
    fn tells_what_is_not_json_from_what_is_no_object() {
        for broken in [&b"{"[..], b"", b"{\"a\":\"\xff\"}", b"{\"\\ud800\":1}", b"{}{}", b"{\"a\":NaN}"] {
            assert!(matches!(document(broken), Err(NotAnObject::Broken(_))), "{broken:?}");
        }
        for other in ["[]", "1", "\"a\"", "null"] {
            assert!(matches!(document(other.as_bytes()), Err(NotAnObject::Refused(_))), "{other}");
        }
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert!(
            matches!(document(deep.as_bytes()), Err(NotAnObject::Refused(_))),
            "and the stack survives it"
        );
    }
}
