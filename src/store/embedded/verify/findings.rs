//! The faults that a verification has found.

/// Most faults that are named; more are only counted.
pub(crate) const MAX_FINDINGS: usize = 100;

/// The faults found by a verification, as sentences.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    named: Vec<String>,
    unnamed: u64,
}

impl Findings {
    pub fn add(&mut self, fault: impl FnOnce() -> String) {
        if self.named.len() < MAX_FINDINGS {
            self.named.push(fault());
        } else {
            self.unnamed += 1;
        }
    }

    /// Adds `fault` unless `holds`.
    pub fn check(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.add(fault);
        }
    }

    pub fn into_sentences(mut self) -> Vec<String> {
        if self.unnamed > 0 {
            self.named.push(format!("and {} more", self.unnamed));
        }
        self.named
    }
}
