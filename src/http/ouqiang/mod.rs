//! The dialect of ouqiang/delay-queue, so that its clients can call this server unchanged. Knows nothing of our own API.
//!
//! That server's rules and texts are those of its source (`routers/routers.go`, last changed in 2017): every call takes any
//! method and a JSON object, as Go's `encoding/json` reads one (`requests.rs`), and is answered with 200 and a code
//! (`responses.rs`). Where it promises less, the promises of the queue hold: a pop loses no job, and a reservation that was
//! replaced does not take the newer version with it.

mod dialect;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod go_json;
mod handlers;
mod requests;
mod responses;
mod routes;

#[cfg(any(test, fuzzing))]
pub(crate) use self::fuzzing::fuzz;
pub use self::routes::{protocol, router};
