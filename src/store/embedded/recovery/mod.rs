//! Opening a store: which files belong together, what the write-ahead log holds, and loading the rows into
//! memory. Nothing is served before.

pub(super) mod accept_clock;
pub(super) mod identity;
pub(super) mod load;
pub(super) mod open;
pub(super) mod wal;
