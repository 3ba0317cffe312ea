//! What is wrong with a configuration, in words that tell how to mend it. Faults are collected, so
//! that one start shows all of them. A fault never quotes a secret.

use std::fmt;

use crate::printable;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The key at fault, such as `server.listen`; empty when it is no single key.
    pub key: String,
    /// Where its value comes from, such as `flag --listen`.
    pub source: String,
    /// What is wrong and how to mend it.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys and values come from files and the environment, and may hold anything.
        let [key, source, problem] =
            [&self.key, &self.source, &self.problem].map(|text| printable::escape_line(text));
        match (&*key, &*source) {
            ("", source) => write!(f, "{source}: {problem}"),
            (key, "") => write!(f, "{key}: {problem}"),
            (key, source) => write!(f, "{key} ({source}): {problem}"),
        }
    }
}

/// What is wrong with a file that a setting names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFault {
    /// The key that names the file, such as `tls.key`.
    pub key: &'static str,
    /// Which file, what is wrong, and how to mend it.
    pub problem: String,
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, printable::escape_line(&self.problem))
    }
}

/// Everything that is wrong, at least one thing. Prints as a headline and one line for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// `Err` with what was found, or `Ok` when that is nothing.
    pub(super) fn check(faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() { Ok(()) } else { Err(Self(faults)) }
    }

    /// Each fault, at least one.
    #[must_use]
    pub fn as_slice(&self) -> &[Fault] {
        &self.0
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "the configuration has 1 fault:")?,
            count => write!(f, "the configuration has {count} faults:")?,
        }
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for Faults {}
