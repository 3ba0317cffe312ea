//! Linger: a durable delay-queue server over HTTP.
//!
//! The layers run strictly downward; a tidy test reads the `use` lines and holds the arrows:
//!
//! ```text
//! main · cli · server       composition root; alone names an engine or sees the whole config
//! http                      alone knows routes and JSON
//! net                       connections as bytes: listener, TLS, timeouts, limits; knows no route, no job and no axum
//! push                      callbacks: calls the URLs of due jobs; a customer of queue, like a worker elsewhere
//! queue                     the rules: service, waiters (parked polls), timer, limits
//! transfer                  exports and imports: over store alone
//! store                     one trait and its laws; embedded/ and redis/ never import each other
//! compat                    payloads and names of other servers' clients, as ours
//! job                       the domain: names, states, times, retry schedule; pure, no I/O
//! auth · clock · config · files · messages · metrics · process · telemetry · tls · traces
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod auth;
#[cfg(any(test, feature = "benching"))]
pub mod benching;
pub mod cli;
pub mod clock;
pub mod compat;
pub mod config;
mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod http;
pub mod job;
mod messages;
pub mod metrics;
pub mod net;
mod process;
pub mod push;
pub mod queue;
pub mod server;
pub mod store;
pub mod telemetry;
mod tls;
pub mod traces;
pub mod transfer;
