//! The dialect of bitleak/lmstfy, so that its clients can call this server unchanged. Knows nothing of our own API.
//!
//! lmstfy's rules and texts are those of its source (`server/handlers`, as of April 2026). A queue of a namespace is the
//! topic `namespace:queue` (`queue_path.rs`). A job's id is a ULID that the server chooses. A worker acknowledges a job by deleting
//! it. Where lmstfy promises less, the promises of the queue hold: a pop is one step, nothing is delivered early, and a
//! republished job is added before the old one is deleted.

mod bulk;
mod dialect;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod handlers;
mod queue_path;
mod requests;
mod responses;
mod routes;

#[cfg(any(test, fuzzing))]
pub(crate) use self::fuzzing::fuzz;
pub use self::routes::{protocol, router};
