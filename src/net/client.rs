//! The client of a connection, as a request sees it.

use std::net::IpAddr;

use hyper::Request;

use super::{io_timeouts::RequestPhase, shared_socket::SharedSocket};

/// The other end of the connection on which a request arrived. Travels with the request as an extension.
#[derive(Debug, Clone)]
pub struct ConnectedClient {
    /// The address of the other end, which may be a proxy.
    pub address: IpAddr,
    socket: SharedSocket,
    pub(super) phase: RequestPhase,
}

impl ConnectedClient {
    pub(super) fn new(address: IpAddr, socket: SharedSocket) -> Self {
        Self { address, socket, phase: RequestPhase::default() }
    }

    /// The client of `request`, or `None` if the request did not come over a connection.
    #[must_use]
    pub fn of_request<B>(request: &Request<B>) -> Option<Self> {
        request.extensions().get::<Self>().cloned()
    }

    /// Whether the client has closed its sending side or reset the connection, as the system knows it now. Such a client
    /// may have given up and sent its request elsewhere.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.socket.is_closed_by_client()
    }

    /// Until the request is answered, ends the connection and drops the request as soon as the client closes its
    /// sending side. Call it after the request's body was read.
    pub fn cancel_on_close(&self) {
        self.phase.cancel_on_close();
    }
}
