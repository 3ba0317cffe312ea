//! The client of a request, as its connection knows it. Travels with the request as an extension.

use std::net::IpAddr;

use axum::extract::Request;

use super::pace::Turns;

/// Where a request came from.
#[derive(Debug, Clone)]
pub(super) struct Client {
    /// The address of the other end, which may be a proxy.
    pub address: IpAddr,
    turns: Turns,
}

impl Client {
    pub fn new(address: IpAddr, turns: Turns) -> Self {
        Self { address, turns }
    }

    /// The client of `request`; none where it did not come through a connection.
    pub fn of(request: &Request) -> Option<Self> {
        request.extensions().get::<Self>().cloned()
    }

    /// From now until the request is answered, ends the connection and drops the request as soon as the client
    /// closes its sending side. Call it once the request's body was read.
    pub fn watch(&self) {
        self.turns.watch();
    }
}
