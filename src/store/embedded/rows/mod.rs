//! The rows of the database: their schema, how jobs are encoded in them, and the statements that read and write
//! them within a transaction. Knows neither memory nor operations.

pub(super) mod checksum;
pub(super) mod codec;
pub(super) mod db;
pub(super) mod key;
mod leases;
pub(super) mod meta;
pub(super) mod records;
pub(super) mod schema;
mod topics;
