//! Faults of a configuration, each with its remedy. They are collected, so that one start shows all of them. A fault
//! never quotes a secret.

use std::fmt;

use crate::messages::printable;

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    /// The key, such as `server.listen`; empty if the fault is not about a single key.
    pub key: String,
    /// The source of its value, such as `flag --listen`.
    pub source: String,
    /// What is wrong and how to fix it.
    pub problem: String,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys and values come from files and the environment, and may contain anything.
        let [key, source, problem] =
            [&self.key, &self.source, &self.problem].map(|text| printable::escape_line(text));
        match (&*key, &*source) {
            ("", source) => write!(f, "{source}: {problem}"),
            (key, "") => write!(f, "{key}: {problem}"),
            (key, source) => write!(f, "{key} ({source}): {problem}"),
        }
    }
}

/// A fault of a file that a setting names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFault {
    /// The key that names the file, such as `tls.key`.
    pub key: &'static str,
    /// The file, what is wrong, and how to fix it.
    pub problem: String,
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, printable::escape_line(&self.problem))
    }
}

/// All faults, at least one. Prints as a headline and one line for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFaults(Vec<ConfigFault>);

impl ConfigFaults {
    /// `Ok` if there are no faults.
    pub(super) fn check(faults: Vec<ConfigFault>) -> Result<(), Self> {
        if faults.is_empty() { Ok(()) } else { Err(Self(faults)) }
    }

    /// The faults, at least one.
    #[must_use]
    pub fn as_slice(&self) -> &[ConfigFault] {
        &self.0
    }
}

impl fmt::Display for ConfigFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "the configuration has 1 fault:")?,
            count => write!(f, "the configuration has {count} faults:")?,
        }
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for ConfigFaults {}
