//! Calls against endpoints that behave badly. Time stands still unless a test advances it, so that the default timeouts
//! are tested as they are.

mod bad_answers;
mod connections;
mod fixture;
mod receiver;
mod requests;
mod resolving;
mod tls;
