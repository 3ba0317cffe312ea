//! What this process asks of the system it runs on: signals, and how many files it may open.

pub(crate) mod open_files;
pub(crate) mod signals;
