//! Reads a JSON object field by field, so that all its faults are found at once.
//!
//! An object is a list of names and raw values. Known fields are read one by one; duplicate and unknown fields are
//! faults. What `null` means is decided here alone. Knows JSON and pointers, not what the fields mean; `values` parses
//! them.
//!
//! The memory for a hostile object is bounded: by a number of fields and a number of faults.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error as _, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{suggestions, values};
use crate::http::errors::{Fault, Faults, MAX_FAULTS, Problem};

/// An object being read, and the faults found so far.
pub struct Fields<'a> {
    /// JSON Pointer of the object itself.
    pointer: String,
    /// In the order of the text.
    entries: Vec<FieldEntry<'a>>,
    /// The names that were read so far, which are the known fields of this kind of object.
    known: Vec<&'static str>,
    null_rule: NullRule,
    faults: Faults,
}

/// Whether `null` as the value of a field with this name is a fault, and how to correct it. Otherwise the field is left out:
/// many serializers write every field that has no value so.
pub type NullRule = fn(&str) -> Option<&'static str>;

/// A name and its value, which is `None` once it was read.
type FieldEntry<'a> = (Cow<'a, str>, Option<&'a RawValue>);

/// Most fields of any object of the API; more than any has.
const MAX_FIELDS: usize = 64;
/// Longest unknown name that a response repeats, in bytes.
const MAX_NAME: usize = 64;

const NOT_AN_OBJECT: &str = "must be a JSON object";

/// Why a text could not be read as an object.
pub enum ObjectError {
    InvalidJson(Problem),
    /// JSON of another type, or an object with far too many fields.
    InvalidValue(Faults),
}

/// Reads the body of a request as an object.
pub fn parse_document(bytes: &[u8]) -> Result<Fields<'_>, ObjectError> {
    let invalid = |detail: String| ObjectError::InvalidJson(Problem::malformed(detail));
    if bytes.starts_with("\u{feff}".as_bytes()) {
        return Err(invalid("the body begins with a byte order mark; send it without".to_owned()));
    }
    let text =
        std::str::from_utf8(bytes).map_err(|error| invalid(format!("the body is not UTF-8: {error}")))?;
    let not_json = |error: serde_json::Error| invalid(format!("the body is not JSON: {error}"));
    if !text.trim_ascii_start().starts_with('{') {
        serde_json::from_str::<&RawValue>(text).map_err(not_json)?;
        return Err(invalid_value(Fault::at_pointer(String::new(), NOT_AN_OBJECT), MAX_FAULTS));
    }
    Fields::from_text(text, String::new(), MAX_FAULTS, not_json)
}

/// Every field of an object that was accepted before, with its name.
pub fn accepted_entries(raw: &RawValue) -> Vec<(Cow<'_, str>, &RawValue)> {
    let fields = Fields::parse(raw, String::new(), MAX_FAULTS);
    fields.map_or_else(|_| Vec::new(), |mut fields| fields.take_entries())
}

impl<'a> Fields<'a> {
    /// Reads `raw`, whose JSON Pointer is `pointer`. At most `max_faults` of its faults will be listed.
    pub fn parse(raw: &'a RawValue, pointer: String, max_faults: usize) -> Result<Self, ObjectError> {
        if !raw.get().starts_with('{') {
            return Err(invalid_value(Fault::at_pointer(pointer, NOT_AN_OBJECT), max_faults));
        }
        // The only remaining error is a name that is not Unicode, such as half of a surrogate pair.
        Self::from_text(raw.get(), pointer, max_faults, |error| {
            ObjectError::InvalidJson(Problem::malformed(format!("not a JSON object: {error}")))
        })
    }

    fn from_text(
        text: &'a str,
        pointer: String,
        max_faults: usize,
        invalid_json: impl FnOnce(serde_json::Error) -> ObjectError,
    ) -> Result<Self, ObjectError> {
        match parse_entries(text) {
            Ok(Some(entries)) => {
                let (known, faults) = (Vec::with_capacity(8), Faults::new(max_faults));
                Ok(Self { pointer, entries, known, null_rule: |_| None, faults })
            }
            Ok(None) => {
                let detail = format!("must have at most {MAX_FIELDS} fields");
                Err(invalid_value(Fault::at_pointer(pointer, detail), max_faults))
            }
            Err(error) => Err(invalid_json(error)),
        }
    }

    /// Replaces the rule by which `null` is a fault of no field. It holds for the objects inside, too.
    pub fn set_null_rule(&mut self, rule: NullRule) {
        self.null_rule = rule;
    }

    /// Whether the object has no fields at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn has_entry(&self, name: &str) -> bool {
        self.entries.iter().any(|(key, _)| key == name)
    }

    /// Whether the object has the field `name`, and not as `null`.
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(key, value)| key == name && !value.is_some_and(is_null))
    }

    /// The raw value of a field that may be left out.
    fn optional_raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        let raw = self.raw_or_null(name)?;
        if !is_null(raw) {
            return Some(raw);
        }
        self.entries.retain(|(key, _)| key != name);
        if let Some(detail) = (self.null_rule)(name) {
            self.add_fault(name, detail);
        }
        None
    }

    /// The raw value of a field that may be left out, and that may be `null`.
    pub fn raw_or_null(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.known.push(name);
        let mut found = None;
        for (_, value) in self.entries.iter_mut().filter(|(key, _)| key == name) {
            let value = value.take();
            if found.is_some() {
                let fault = Fault::at_pointer(child(&self.pointer, name), "must be given once");
                self.faults.push(fault);
                return None;
            }
            found = value;
        }
        found
    }

    /// Reads a field that may be left out. A fault is recorded and reads as left out.
    pub fn optional<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&'a RawValue) -> Result<T, String>,
    ) -> Option<T> {
        let raw = self.optional_raw(name)?;
        parse(raw).map_err(|detail| self.add_fault(name, detail)).ok()
    }

    /// Reads a field that must be given. `None` only after a fault was recorded.
    pub fn required<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&'a RawValue) -> Result<T, String>,
    ) -> Option<T> {
        if !self.has(name) {
            self.known.push(name);
            self.entries.retain(|(key, _)| key != name);
            self.add_fault(name, "is required");
            return None;
        }
        self.optional(name, parse)
    }

    /// Reads a list of at most `limit` elements, each of which can be at fault.
    pub fn optional_list<T>(
        &mut self,
        name: &'static str,
        limit: usize,
        parse: impl Fn(&'a RawValue) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let list = self.optional(name, |raw| values::list(raw, limit))?;
        if list.len > limit {
            self.add_fault(name, format!("must have at most {limit} elements, got {}", list.len));
            return None;
        }
        let mut items = Vec::with_capacity(list.len);
        for (i, raw) in list.items.iter().enumerate() {
            match parse(raw) {
                Ok(item) => items.push(item),
                Err(detail) => self.add_fault(&format!("{name}/{i}"), detail),
            }
        }
        (items.len() == list.len).then_some(items)
    }

    /// Reads a field that is itself an object. Its faults are faults of this object.
    pub fn optional_object<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Fields<'a>) -> Option<T>,
    ) -> Option<T> {
        let raw = self.optional_raw(name)?;
        let (value, read) = match Fields::parse(raw, self.pointer_to(name), MAX_FAULTS) {
            Ok(mut inner) => {
                inner.set_null_rule(self.null_rule);
                (read(&mut inner), inner.finish())
            }
            Err(ObjectError::InvalidValue(faults)) => (None, Err(faults)),
            Err(ObjectError::InvalidJson(_)) => {
                self.add_fault(name, "must have names of whole Unicode characters");
                return None;
            }
        };
        match read {
            Ok(()) => value,
            Err(faults) => {
                self.faults.append(faults);
                None
            }
        }
    }

    /// Every field with its name, for an object whose names are the client's.
    pub fn take_entries(&mut self) -> Vec<(Cow<'a, str>, &'a RawValue)> {
        let take = |(name, value): &mut FieldEntry<'a>| Some((name.clone(), value.take()?));
        self.entries.iter_mut().filter_map(take).collect()
    }

    /// Records a fault of a field whose name is the client's.
    pub fn add_entry_fault(&mut self, name: &str, detail: impl Into<String>) {
        let name = if name.len() > MAX_NAME { String::new() } else { escaped(name) };
        self.add_fault(&name, detail);
    }

    /// Records a fault of the field `name`, or of the object itself if `name` is empty.
    pub fn add_fault(&mut self, name: &str, detail: impl Into<String>) {
        let pointer = if name.is_empty() { self.pointer.clone() } else { child(&self.pointer, name) };
        self.faults.push(Fault::at_pointer(pointer, detail));
    }

    /// Refuses a field that other objects of the API have.
    pub fn refuse(&mut self, name: &str, detail: &str) {
        let is_given = self.has(name) || (self.null_rule)(name).is_some() && self.has_entry(name);
        self.entries.retain(|(key, _)| key != name);
        if is_given {
            self.add_fault(name, detail);
        }
    }

    /// The JSON Pointer of the field `name`.
    pub fn pointer_to(&self, name: &str) -> String {
        child(&self.pointer, name)
    }

    /// Ends reading: `Ok` if there was no fault. A field that was not read is a fault.
    pub fn finish(mut self) -> Result<(), Faults> {
        let unread = self.entries.iter().filter(|(_, value)| value.is_some());
        for (key, _) in unread {
            // The search for what was meant takes long for thousands of names.
            self.faults.push_with(|| {
                if key.len() > MAX_NAME {
                    let detail = format!("has an unknown field with a name of {} bytes", key.len());
                    return Fault::at_pointer(self.pointer.clone(), detail);
                }
                let pointer = child(&self.pointer, &escaped(key));
                let detail = suggestions::unknown_name(key, &self.known, "a field of this object", "fields");
                Fault::at_pointer(pointer, detail)
            });
        }
        if self.faults.is_empty() { Ok(()) } else { Err(self.faults) }
    }
}

fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

fn invalid_value(fault: Fault, max_faults: usize) -> ObjectError {
    let mut faults = Faults::new(max_faults);
    faults.push(fault);
    ObjectError::InvalidValue(faults)
}

/// A name as a JSON Pointer has it.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn child(pointer: &str, name: &str) -> String {
    format!("{pointer}/{name}")
}

/// The entries of a text that is one JSON object. `None` if there are more than [`MAX_FIELDS`]; the rest is then not
/// read.
fn parse_entries(text: &str) -> serde_json::Result<Option<Vec<FieldEntry<'_>>>> {
    let mut too_many = false;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let entries = EntriesVisitor { too_many: &mut too_many }.deserialize(&mut deserializer);
    match entries.and_then(|entries| deserializer.end().map(|()| entries)) {
        Err(_) if too_many => Ok(None),
        entries => entries.map(Some),
    }
}

/// Reads entries in the order of the text.
struct EntriesVisitor<'f> {
    too_many: &'f mut bool,
}

/// A name, borrowed from the text if it has no escapes.
#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for EntriesVisitor<'_> {
    type Value = Vec<FieldEntry<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EntriesVisitor<'_> {
    type Value = Vec<FieldEntry<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(FieldName(name)) = map.next_key::<FieldName<'de>>()? {
            if entries.len() == MAX_FIELDS {
                *self.too_many = true;
                return Err(A::Error::custom("too many fields"));
            }
            entries.push((name, Some(map.next_value::<&'de RawValue>()?)));
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests;
