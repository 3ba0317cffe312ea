//! Faults: values that are invalid, where each is, how to correct it, and how many faults one response lists.

use crate::http::json::ObjectWriter;

/// Most faults that one response lists; a hostile body could have a million. The others are only counted.
pub const MAX_FAULTS: usize = 32;

/// One invalid value, and how to correct it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub location: FaultLocation,
    pub detail: String,
}

/// Where an invalid value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultLocation {
    /// JSON Pointer (RFC 6901) into the request's body.
    Pointer(String),
    /// A parameter of the path or the query.
    Parameter(String),
}

impl Fault {
    pub fn at_pointer(pointer: String, detail: impl Into<String>) -> Self {
        Self { location: FaultLocation::Pointer(pointer), detail: detail.into() }
    }

    pub fn in_parameter(name: &str, detail: impl Into<String>) -> Self {
        Self { location: FaultLocation::Parameter(name.to_owned()), detail: detail.into() }
    }

    /// The fault as one sentence: the location, then what is wrong.
    fn sentence(&self) -> String {
        let location = match &self.location {
            FaultLocation::Pointer(pointer) if pointer.is_empty() => "the body",
            FaultLocation::Pointer(pointer) => pointer,
            FaultLocation::Parameter(name) => name,
        };
        format!("{location} {}", self.detail)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::new(out);
        match &self.location {
            FaultLocation::Pointer(pointer) => object.text("pointer", pointer),
            FaultLocation::Parameter(name) => object.text("parameter", name),
        }
        object.text("detail", &self.detail);
        object.end();
    }
}

/// The faults of one request or of one item of a batch. Keeps as many as may be listed, but at least the first. Counts
/// all.
#[derive(Debug, Clone)]
pub struct Faults {
    kept: Vec<Fault>,
    max_listed: usize,
    count: usize,
}

impl Faults {
    /// No faults yet; at most `max_listed` will be listed.
    pub fn new(max_listed: usize) -> Self {
        Self { kept: Vec::new(), max_listed, count: 0 }
    }

    pub fn push(&mut self, fault: Fault) {
        self.push_with(|| fault);
    }

    /// Makes the fault only if it may be listed.
    pub fn push_with(&mut self, fault: impl FnOnce() -> Fault) {
        self.count += 1;
        if self.kept.len() < self.max_listed.max(1) {
            self.kept.push(fault());
        }
    }

    /// Adds the faults of a part of the same request.
    pub fn append(&mut self, other: Self) {
        let unlisted = other.count - other.kept.len();
        other.kept.into_iter().for_each(|fault| self.push(fault));
        self.count += unlisted;
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first fault and the number of the others.
    pub(super) fn summary(&self) -> String {
        let first = self.kept.first().map(Fault::sentence).unwrap_or_default();
        match self.count {
            0 | 1 => first,
            count => format!("{first} (and {} more)", count - 1),
        }
    }

    /// The faults to list.
    pub fn into_listed(mut self) -> Vec<Fault> {
        self.kept.truncate(self.max_listed);
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
                faults.push(Fault::at_pointer(format!("/{name}"), "is wrong"));
            }
            assert_eq!(faults.summary(), "/a is wrong (and 2 more)", "{limit}");
            assert_eq!(faults.into_listed().len(), listed);
        }
        let (mut faults, mut made) = (Faults::new(2), 0);
        for _ in 0..5 {
            faults.push_with(|| {
                made += 1;
                Fault::at_pointer("/a".to_owned(), "is wrong")
            });
        }
        assert_eq!((made, faults.summary()), (2, "/a is wrong (and 4 more)".to_owned()));
        assert_eq!(Faults::from(Fault::in_parameter("wait", "is wrong")).summary(), "wait is wrong");
        assert_eq!(Faults::from(Fault::at_pointer(String::new(), "is wrong")).summary(), "the body is wrong");
    }
}
