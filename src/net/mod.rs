//! Connections as bytes: accepting, TLS, timeouts, and the limits on connections and memory.
//!
//! Knows no route, no job and no format of errors. The caller of [`serve`] supplies the service for requests and
//! the response for connections beyond the limit.
//!
//! A new connection gets a permit (`connection_limit.rs`), or a `503` (`refusal.rs`). `connection.rs` runs hyper on
//! a stream that limits each read and write. The timeouts of a client's connection are keys of section `[server]`,
//! read by `config/server.rs` and enforced in `io_timeouts.rs`; `connection.rs` enforces that of a TLS handshake. A refused client
//! may go on sending for two seconds, which is a constant (`connection.rs`, and `refusal.rs` beyond the limit of connections).
//! Those of a request's body are enforced by `http/middleware/request_body.rs`.

pub(crate) mod byte_budget;
mod connection;
mod connection_limit;
mod io_timeouts;
mod listener;
mod options;
mod refusal;
mod shared_socket;
mod tls;
mod transport;

pub(crate) use self::{
    connection::ConnectedClient, connection_limit::limited_network, io_timeouts::WINDOW_BYTES,
};
pub use self::{listener::serve, options::ListenerOptions, tls::ServerTls, transport::Transport};
pub use crate::tls::{TlsFile, UnusableTlsFile};
