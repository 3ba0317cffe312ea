//! Callbacks: calls the URL of each due job that has one. A customer of the queue, like a worker elsewhere.
//!
//! `callbacks` is the loop: `ring` and `window` decide who is called next, `deliver` makes one call, and `apply`
//! does with the job what the answer says. `call`, and what it uses, know the network and no job.
//!
//! # Turns
//!
//! The store's hints (`queue::OutletListener`) put outlets that may have ready jobs into the ring. An outlet whose
//! turn it is gets permits for some calls, then as many jobs are reserved (`queue/callbacks/outlets.rs`), so that no reserved
//! job waits for a permit. How many depends on the outlet's window (`window.rs`), on the limits of its topic and
//! its host, on half of the permits that are free, and, if the outlet is new or failed last, on its topic's share
//! of half of all permits (`ring/trials.rs`). An outlet that may make no call now waits for the limit that stops it
//! (`ring/waiting.rs`), so that 10,000 of them cost nothing. When the callback of its topic changes
//! (`topic_changed`, on Redis also for a change that the sweep finds), it has its turn, whatever it waits for. The
//! ring and the window are pure and are tested by their invariants.
//!
//! Several hosts may share an outlet, whose jobs the store has in one order. So a host that fails gets a window of
//! its own with one call (`ring/suspects.rs`), and its jobs are reserved and postponed (`StepAction::Postpone`), which
//! puts them behind the others of the outlet without counting an attempt (`ring/admission.rs`). Each of these jobs
//! is moved in the store, so a turn that sets jobs aside is followed by a pause, which is measured over all
//! outlets.
//!
//! A topic's rate is counted by the store (`Store::allow`) before jobs are reserved. Calls for which there was no
//! job are given back (`Store::give_back_calls`), unless others were taken meanwhile.
//!
//! # One call
//!
//! `deliver.rs` makes the call of one job. Until the request is sent, dropping the job's `Delivery` gives the job
//! back, and the attempt is not counted. `outcome.rs` decides what happens to the job then; `apply.rs` does it, and
//! tries again while the store is away, at most until the reservation ends. The job is finished as soon as the head
//! of the answer is read; the permit is kept until the body is read, so that an endpoint that drips its bodies does
//! not collect connections.
//!
//! `call.rs` looks the host up once, checks each address against `[callbacks]`, and connects only to one that it
//! checked (`connect.rs`, `job/network.rs`), so that a second lookup cannot lead elsewhere. It follows no redirect.
//! One deadline covers everything from the lookup to the end of the answer's head.
//!
//! The future that waits for an answer also drives the connection (`connection.rs`). A connection is used again
//! only if its answer was read to the end and it was opened less than a minute ago (`pool.rs`). A request on a
//! connection that was used before may meet its end; then it is sent once more on a new one.
//!
//! The system cannot interrupt a lookup. A lookup is therefore a task of its own (`resolve.rs`), which all callers
//! of a name share and which keeps a permit until it is done (`lookup_permits.rs`). A topic gets few permits, and
//! names that were found before have permits which new names cannot get: clients make up names, and one that hangs
//! keeps its permit for ten seconds or more. A job waits for a permit before its delivery is accepted, so that the
//! wait counts neither as an attempt nor into a timeout.

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
pub use callbacks::Callbacks;
pub use failure::CallFailure;
pub use resolve::{Resolver, SystemResolver};
pub use tls::check_authorities;
