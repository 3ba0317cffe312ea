//! The client of a request as its connection knows it. Travels with the request as an extension.

use std::net::IpAddr;

use axum::extract::Request;

use super::io_timeouts::RequestPhase;

/// The other end of the connection on which a request arrived.
#[derive(Debug, Clone)]
pub(crate) struct ConnectedClient {
    /// The address of the other end, which may be a proxy.
    pub address: IpAddr,
    phase: RequestPhase,
}

impl ConnectedClient {
    pub(super) fn new(address: IpAddr, phase: RequestPhase) -> Self {
        Self { address, phase }
    }

    /// The client of `request`, or `None` if the request did not come over a connection.
    pub fn of_request(request: &Request) -> Option<Self> {
        request.extensions().get::<Self>().cloned()
    }

    /// Until the request is answered, ends the connection and drops the request as soon as the client closes its
    /// sending side. Call it after the request's body was read.
    pub fn cancel_on_close(&self) {
        self.phase.cancel_on_close();
    }
}
