//! Connections as bytes: accepting, TLS, timeouts, and the limits on connections and memory.
//!
//! Knows no route, no job and no format of errors. Whoever serves supplies the service for requests and the response
//! for connections beyond the limit.

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
