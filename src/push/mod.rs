//! Callbacks: calls the URL of each due job that has one. A customer of the queue, like a worker elsewhere.

mod call;
mod connect;
mod connection;
mod deadline;
mod failure;
pub mod outcome;
mod pool;
pub mod request;
mod resolve;
mod sign;
#[cfg(test)]
mod tests;
mod tls;

pub use call::{Answer, Caller, Request};
pub use failure::CallFailure;
pub use outcome::Outcome;
pub use resolve::{Resolver, SystemResolver};
