//! How the engine encodes what it stores in Redis and passes to scripts: records of jobs, settings, scopes. Knows no
//! server.

pub mod record;
pub mod reservations;
pub mod scope;
pub mod settings;
