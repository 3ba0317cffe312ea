//! Callbacks: calls the URL of each due job that has one. A customer of the queue, like a worker elsewhere.
//!
//! `callbacks` is the loop: `ring` and `window` decide who is called next, `deliver` makes one call, and `apply` does
//! with the job what the answer says. `call`, and what it uses, know the network and no job.

mod apply;
mod call;
mod callbacks;
mod connect;
mod connection;
mod deadline;
mod deliver;
mod failure;
mod lookup_permits;
mod outcome;
mod permit;
mod pool;
mod request;
mod resolve;
mod ring;
mod sign;
#[cfg(test)]
mod tests;
mod tls;
mod window;

pub use call::{Answer, Caller, Prepared, Request};
pub use callbacks::{Callbacks, EndpointFigures};
pub use failure::CallFailure;
pub use resolve::{Resolver, SystemResolver};
pub use tls::check_authorities;
