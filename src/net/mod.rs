//! Connections as bytes: TLS, and the memory that requests share. Knows no route and no job.

pub(crate) mod byte_budget;
mod tls;

pub use tls::{PairFile, Tls, UnusableFile};
