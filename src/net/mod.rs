//! Connections as bytes: accepting, TLS, timeouts, and the limits on connections and memory.
//!
//! Knows no route, no job and no format of errors. The caller of [`serve`] supplies a socket and the [`Protocol`] that is
//! spoken on its connections: for [`Http1`] the service that answers requests, and the response for connections beyond the
//! limit. Any number of sockets share the limits of one [`Transport`].
//!
//! A new connection gets a permit (`connection_limit.rs`), or a refusal (`refusal.rs`). `connection.rs` begins and ends it,
//! on a stream that limits each read and write; `http1.rs` runs hyper on that. The timeouts of a client's connection are keys of section `[server]`,
//! read by `config/server.rs` and enforced in `io_timeouts.rs`; `connection.rs` enforces that of a TLS handshake. A refused client
//! may go on sending for two seconds, which is a constant (`connection.rs`, and `refusal.rs` beyond the limit of connections).
//! Those of a request's body are enforced by `http/edge/request_body.rs`.

pub(crate) mod byte_budget;
mod client;
mod connection;
mod connection_limit;
mod http1;
mod io_timeouts;
mod listener;
mod options;
mod protocol;
mod refusal;
mod shared_socket;
mod tls;
mod transport;

pub use self::{
    client::ConnectedClient,
    http1::{Http1, HttpService},
    listener::{ServedSocket, serve},
    options::ListenerOptions,
    protocol::Protocol,
    tls::ServerTls,
    transport::Transport,
};
pub(crate) use self::{connection_limit::limited_network, io_timeouts::WINDOW_BYTES};
pub use crate::tls::{TlsFile, UnusableTlsFile};
