//! Connections to the servers: which server holds which slot, whether it may be used, and calling a script there
//! until there is a reply. Must not know what a script does.
//!
//! # Calls
//!
//! `retry.rs` resends a call with the very same arguments; the client library's own resending is off. A cut
//! connection can leave a call in the kernel for a hundred seconds, while the client has repeated it elsewhere. So
//! every script that changes something gets a deadline by the server's clock, which each process measures for each
//! server (`server_clock.rs`): by `TIME` after a connection or reconnection and after the error `LATE`, and with
//! every sweep. A reading brackets the server's time; its lower bound is used. A caller gets an error only when no
//! attempt can take effect any more.
//!
//! # Connections
//!
//! Each connection is watched from its opening to its loss (`client.rs`): one with an outstanding reply on which
//! nothing arrives for `unresponsive_timeout` is closed, and pings every half second make sure that a reply is
//! always outstanding. A connection is closed by a reset, which drops what the kernel has not sent. The library
//! never reopens it: `reconnecting.rs` opens another one, and calls fail meanwhile with the cause instead of
//! waiting.
//!
//! # Several servers
//!
//! `router.rs` and `discovery.rs` keep the map of slots, read from the Cluster or from the sentinels: all sentinels
//! are asked, the majority decides, every second and after every fault. Connections are opened in tasks of their
//! own, outside of locks, and a failure is remembered for a second (`servers.rs`). Concurrent searches for the
//! servers are shared.
//!
//! # Fitness
//!
//! A server is inspected before it is used, after each reconnection and every 10 s (`fitness.rs`): version, role,
//! `maxmemory-policy`, durability, layout. A server that is not fit is not called. After a reconnection to the same
//! address, a few calls may be sent before the inspection is done; a server at a new address gets none until it has
//! been inspected.

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
