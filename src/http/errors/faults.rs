//! Values at fault: where each is, how to mend it, and how many of them one answer names.

use crate::http::json::Object;

/// Most faults that one answer lists; a hostile body could have a million. The others are counted only.
pub const MAX_FAULTS: usize = 32;

/// One value at fault, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub place: Place,
    pub detail: String,
}

/// Where a value at fault is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// JSON Pointer (RFC 6901) into the request's body.
    Pointer(String),
    /// A parameter of the path or the query.
    Parameter(String),
}

impl Fault {
    pub fn at(pointer: String, detail: impl Into<String>) -> Self {
        Self { place: Place::Pointer(pointer), detail: detail.into() }
    }

    pub fn parameter(name: &str, detail: impl Into<String>) -> Self {
        Self { place: Place::Parameter(name.to_owned()), detail: detail.into() }
    }

    /// The fault as one sentence: the place, then what is wrong with it.
    fn sentence(&self) -> String {
        let place = match &self.place {
            Place::Pointer(pointer) if pointer.is_empty() => "the body",
            Place::Pointer(pointer) => pointer,
            Place::Parameter(name) => name,
        };
        format!("{place} {}", self.detail)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut object = Object::new(out);
        match &self.place {
            Place::Pointer(pointer) => object.text("pointer", pointer),
            Place::Parameter(name) => object.text("parameter", name),
        }
        object.text("detail", &self.detail);
        object.end();
    }
}

/// The faults of one request or of one item of a batch. Keeps as many as an answer may list, and at least the
/// first; counts all.
#[derive(Debug, Clone)]
pub struct Faults {
    kept: Vec<Fault>,
    limit: usize,
    count: usize,
}

impl Faults {
    /// No faults yet; at most `limit` will be listed.
    pub fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), limit, count: 0 }
    }

    pub fn push(&mut self, fault: Fault) {
        self.count += 1;
        if self.kept.len() < self.limit.max(1) {
            self.kept.push(fault);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first fault, and how many more there are.
    pub(super) fn summary(&self) -> String {
        let first = self.kept.first().map(Fault::sentence).unwrap_or_default();
        match self.count {
            0 | 1 => first,
            count => format!("{first} (and {} more)", count - 1),
        }
    }

    /// The faults to list.
    pub fn into_listed(mut self) -> Vec<Fault> {
        self.kept.truncate(self.limit);
        self.kept
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        let mut faults = Self::new(MAX_FAULTS);
        faults.push(fault);
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_all_and_lists_up_to_the_limit() {
        for (limit, listed) in [(0, 0), (2, 2), (9, 3)] {
            let mut faults = Faults::new(limit);
            assert!(faults.is_empty());
            for name in ["a", "b", "c"] {
                faults.push(Fault::at(format!("/{name}"), "is wrong"));
            }
            assert_eq!(faults.summary(), "/a is wrong (and 2 more)", "{limit}");
            assert_eq!(faults.into_listed().len(), listed);
        }
        assert_eq!(Faults::from(Fault::parameter("wait", "is wrong")).summary(), "wait is wrong");
        assert_eq!(Faults::from(Fault::at(String::new(), "is wrong")).summary(), "the body is wrong");
    }
}
