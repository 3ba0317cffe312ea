//! How to tell people: untrusted text made safe to print, and lasting failures without a flood of lines.

pub(crate) mod failure_log;
pub(crate) mod printable;
