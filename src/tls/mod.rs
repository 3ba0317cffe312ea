//! Certificates: reads them and their keys from files in PEM, finds out when they expire, and decides whose are trusted.
//! Opens no connection.

mod certificate;
mod files;
mod trust;

pub use self::{
    certificate::not_after,
    files::{TlsFile, UnusableTlsFile, read_authorities, read_pair},
    trust::{client_trusting, system_authorities},
};
