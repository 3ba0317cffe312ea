//! Files as a whole: what they are by their first bytes, read with a limit, and named only when they are complete.

pub(crate) mod file_kind;
pub(crate) mod new_file;
pub(crate) mod small_file;
