//! Connections to the servers: which server holds which slot, whether it may be used, and calling a script
//! there until there is an answer. Must not know what a script does.

pub mod call;
pub mod client;
pub mod error;
pub mod fitness;
pub mod inspect;
pub mod node;
pub mod replicas;
pub mod retry;
pub mod router;
pub mod sentinel;
pub mod server_clock;
pub mod servers;
pub mod slots;
pub mod watchdog;
