//! Connections to the servers: which server holds which slot, whether it may be used, and calling a script
//! there until there is a reply. Must not know what a script does.

pub mod all_servers;
pub mod call;
pub mod client;
pub mod connect_error;
mod discovery;
pub mod error;
mod eval_command;
mod fitness;
mod inspect;
mod node;
mod reconnecting;
mod replicas;
pub mod retry;
pub mod router;
mod sentinel;
mod server_clock;
mod servers;
mod slots;
mod tls_fault;
