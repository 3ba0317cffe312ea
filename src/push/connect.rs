//! Connects to an origin: looks up its name once, checks every address, and connects to a checked address only.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::net::TcpStream;

use super::{
    connection::{Connection, Stream},
    deadline::Deadline,
    failure::CallFailure,
    resolve::{Lookup, Names, Resolver},
    tls::ClientTls,
};
use crate::{
    clock::Clock,
    config::CallbackSettings,
    job::{AddressPolicy, Host, Origin, Scheme, Topic},
};

/// What a host is connected by.
pub(super) enum Target {
    /// The host is an address.
    Address(IpAddr),
    /// The host has a name.
    Name(Lookup),
}

/// How long the name, the connection and TLS may take together.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens connections.
pub(super) struct Connector {
    names: Names,
    tls: ClientTls,
    networks: AddressPolicy,
    clock: Arc<dyn Clock>,
}

impl Connector {
    /// Most addresses of a name that are tried.
    const MAX_ADDRESSES: usize = 8;

    pub fn new(
        settings: &CallbackSettings,
        clock: Arc<dyn Clock>,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, String> {
        Ok(Self {
            names: Names::new(resolver, clock.clone()),
            tls: ClientTls::new(settings.ca_file.as_deref())?,
            networks: settings.networks.clone(),
            clock,
        })
    }

    /// Begins to look up a host for a topic, and waits for a permit to do so. An address needs none.
    pub async fn look_up(&self, topic: Option<&Topic>, host: &Host) -> Target {
        match host {
            Host::Address(address) => Target::Address(*address),
            Host::Name(name) => Target::Name(self.names.begin(topic, name).await),
        }
    }

    /// Connects to the `target` of an origin before `deadline`, and within [`CONNECT_TIMEOUT`].
    pub async fn connect(
        &self,
        origin: &Origin,
        target: Target,
        deadline: &Deadline,
    ) -> Result<Connection, CallFailure> {
        let deadline = deadline.within(CONNECT_TIMEOUT);
        let addresses = deadline.run(self.addresses(target)).await;
        let addresses = addresses
            .unwrap_or_else(|| Err(CallFailure::Dns("the name was not looked up in time".to_owned())))?;
        let stream = connect_to_first(&addresses, origin.port, &deadline).await?;
        let stream: Box<dyn Stream> = match origin.scheme {
            Scheme::Http => Box::new(stream),
            Scheme::Https => {
                let connected = deadline.run(self.tls.connect(&origin.host, stream)).await;
                Box::new(connected.unwrap_or(Err(CallFailure::ConnectTimeout))?)
            }
        };
        Connection::new(stream, self.clock.now_micros()).await
    }

    /// The addresses of a target that may be called; at least one.
    async fn addresses(&self, target: Target) -> Result<Vec<IpAddr>, CallFailure> {
        let found = match target {
            Target::Address(address) => Arc::from([address]),
            Target::Name(lookup) => lookup.found().await?,
        };
        let is_allowed = |address: &IpAddr| self.networks.allows(*address);
        let allowed: Vec<_> = found.iter().copied().filter(is_allowed).take(Self::MAX_ADDRESSES).collect();
        if allowed.is_empty() {
            return Err(CallFailure::AddressRefused { key: "callbacks.allow_networks" });
        }
        Ok(allowed)
    }
}

/// Tries one address after the other. Each gets an equal part of the time that is left, so that one that does not answer
/// leaves time for the next.
async fn connect_to_first(
    addresses: &[IpAddr],
    port: u16,
    deadline: &Deadline,
) -> Result<TcpStream, CallFailure> {
    let mut last = CallFailure::ConnectTimeout;
    for (tried, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - tried).expect("there are few addresses");
        let part = deadline.within(deadline.remaining() / left);
        match part.run(TcpStream::connect(SocketAddr::new(*address, port))).await {
            Some(Ok(stream)) => {
                // Without this the last segment of a request could wait for an acknowledgement.
                stream.set_nodelay(true).map_err(|error| CallFailure::Connect(error.to_string()))?;
                return Ok(stream);
            }
            Some(Err(error)) => last = CallFailure::Connect(error.to_string()),
            None => last = CallFailure::ConnectTimeout,
        }
    }
    Err(last)
}
