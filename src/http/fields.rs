//! Reading a JSON object field by field, so that all its faults are found at once.
//!
//! An object is a list of names and raw values: known fields are taken out, what is given twice or left
//! over is a fault. Knows JSON and pointers, not what the fields mean; `values` reads them.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::problem::{Fault, Problem};

/// An object being read, and what was found wrong so far.
pub(super) struct Fields<'a> {
    /// JSON Pointer of the object itself.
    at: String,
    /// In the order of the text.
    entries: Vec<Entry<'a>>,
    faults: Vec<Fault>,
}

/// A name and its value, which is `None` once taken.
type Entry<'a> = (Cow<'a, str>, Option<&'a RawValue>);

const NO_OBJECT: &str = "must be a JSON object";

/// Why a document could not be read as an object.
pub(super) enum NotAnObject {
    /// Not JSON.
    Broken(Problem),
    /// JSON, but of another type.
    Other(Fault),
}

/// Reads the text of a request as an object.
pub(super) fn document(bytes: &[u8]) -> Result<Fields<'_>, NotAnObject> {
    let broken = |detail: String| NotAnObject::Broken(Problem::malformed(detail));
    let text =
        std::str::from_utf8(bytes).map_err(|error| broken(format!("the body is not UTF-8: {error}")))?;
    let is_object = text.trim_ascii_start().starts_with('{');
    let read =
        if is_object { entries(text) } else { serde_json::from_str::<&RawValue>(text).map(|_| Vec::new()) };
    match read.map_err(|error| broken(format!("the body is not JSON: {error}")))? {
        entries if is_object => Ok(Fields::new(entries, String::new())),
        _ => Err(NotAnObject::Other(Fault::at(String::new(), NO_OBJECT))),
    }
}

impl<'a> Fields<'a> {
    /// Reads `raw`, which stands at the pointer `at`.
    pub fn read(raw: &'a RawValue, at: String) -> Result<Self, NotAnObject> {
        if !raw.get().starts_with('{') {
            return Err(NotAnObject::Other(Fault::at(at, NO_OBJECT)));
        }
        // What can still be wrong is a name that is no Unicode, such as half of a surrogate pair.
        let entries = entries(raw.get()).map_err(|error| {
            NotAnObject::Broken(Problem::malformed(format!("not a JSON object: {error}")))
        })?;
        Ok(Self::new(entries, at))
    }

    fn new(entries: Vec<Entry<'a>>, at: String) -> Self {
        Self { at, entries, faults: Vec::new() }
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
    pub fn raw(&mut self, name: &str) -> Option<&'a RawValue> {
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
    pub fn take<T>(&mut self, name: &str, read: impl FnOnce(&'a RawValue) -> Result<T, String>) -> Option<T> {
        let raw = self.raw(name)?;
        read(raw).map_err(|detail| self.fault(name, detail)).ok()
    }

    /// Reads a field that must be there.
    pub fn need<T>(&mut self, name: &str, read: impl FnOnce(&'a RawValue) -> Result<T, String>) -> Option<T> {
        if !self.has(name) {
            self.fault(name, "is required");
            return None;
        }
        self.take(name, read)
    }

    /// Reads a list whose elements can each be at fault.
    pub fn take_list<T>(
        &mut self,
        name: &str,
        read: impl Fn(&'a RawValue) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let raws = self.take(name, super::values::list)?;
        let mut items = Vec::with_capacity(raws.len());
        for (i, raw) in raws.iter().enumerate() {
            match read(raw) {
                Ok(item) => items.push(item),
                Err(detail) => self.fault(&format!("{name}/{i}"), detail),
            }
        }
        (items.len() == raws.len()).then_some(items)
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
    pub fn faults(mut self) -> Vec<Fault> {
        for (key, value) in &self.entries {
            if value.is_some() {
                let at = pointer(&self.at, &key.replace('~', "~0").replace('/', "~1"));
                self.faults.push(Fault::at(at, "is not a field of this object"));
            }
        }
        self.faults
    }
}

fn pointer(at: &str, name: &str) -> String {
    format!("{at}/{name}")
}

/// The entries of a text that is one JSON object.
fn entries(text: &str) -> serde_json::Result<Vec<Entry<'_>>> {
    serde_json::from_str::<Entries<'_>>(text).map(|entries| entries.0)
}

struct Entries<'a>(Vec<Entry<'a>>);

/// A name, borrowed from the text where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
                    entries.push((key, Some(map.next_value::<&'de RawValue>()?)));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{problem::Place, values};

    fn read(text: &str) -> Fields<'_> {
        let Ok(fields) = document(text.as_bytes()) else { panic!("{text} is an object") };
        fields
    }

    fn pointers(fields: Fields<'_>) -> Vec<String> {
        let place = |fault: Fault| match fault.place {
            Place::Pointer(pointer) => pointer,
            Place::Parameter(name) => panic!("{name} is no pointer"),
        };
        fields.faults().into_iter().map(place).collect()
    }

    #[test]
    fn finds_every_fault_at_once() {
        let mut fields = read(r#"{"a":1,"b":"x","b":"y","c/d~":2,"list":[true,1,"t"]}"#);
        assert_eq!(fields.take("a", values::text), None);
        assert_eq!(fields.take("b", values::text), None);
        assert_eq!(fields.take_list("list", values::flag), None);
        assert_eq!(fields.need("e", values::text), None);
        assert_eq!(pointers(fields), ["/a", "/b", "/list/1", "/list/2", "/e", "/c~1d~0"]);
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
            assert!(matches!(document(other.as_bytes()), Err(NotAnObject::Other(_))), "{other}");
        }
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert!(matches!(document(deep.as_bytes()), Err(NotAnObject::Other(_))), "and the stack survives it");
    }
}
