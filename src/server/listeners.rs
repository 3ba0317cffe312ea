//! The sockets on which the server listens. All of them have one limit of connections, one certificate, and one end.

use std::{net::SocketAddr, sync::Arc};

use tokio::net::{TcpListener, TcpSocket};

use super::{
    open_files,
    outcome::StartError,
    tasks::{BackgroundTasks, Stage},
};
use crate::{
    clock::Clock,
    config::Config,
    metrics::Metrics,
    net::{self, ListenerOptions, Protocol, ServedSocket, ServerTls, Transport},
};

/// Connections that may wait in the kernel to be accepted, for example when thousands of workers reconnect after a
/// restart. The system may allow fewer (net.core.somaxconn).
const BACKLOG: u32 = 4_096;

/// A socket that is bound to its address and does not listen yet.
pub(super) struct BoundSocket {
    socket: TcpSocket,
    address: SocketAddr,
}

impl BoundSocket {
    /// # Errors
    /// Why the server cannot listen on the address.
    pub fn bind(address: SocketAddr) -> Result<Self, StartError> {
        let bound = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            // A restart must not wait for the connections of the previous process.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            Ok(socket)
        };
        let socket = bound().map_err(|source| StartError::Listen { address, source })?;
        Ok(Self { socket, address })
    }

    /// Accepts connections from now on.
    ///
    /// # Errors
    /// Why the server cannot listen on the address.
    pub fn listen(self) -> Result<TcpListener, StartError> {
        let address = self.address;
        self.socket.listen(BACKLOG).map_err(|source| StartError::Listen { address, source })
    }
}

/// Serves any number of sockets, which share limits and a certificate.
pub(super) struct Listeners {
    transport: Arc<Transport>,
    tls: Option<ServerTls>,
}

impl Listeners {
    pub fn new(
        options: ListenerOptions,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
        tls: Option<ServerTls>,
    ) -> Self {
        Self { transport: Transport::new(options, clock, metrics), tls }
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Serves the connections of a socket in a task with this name.
    pub fn serve(
        &self,
        tasks: &BackgroundTasks,
        name: &'static str,
        listener: TcpListener,
        protocol: impl Protocol,
    ) {
        let socket = ServedSocket { listener, protocol, tls: self.tls.clone() };
        let transport = self.transport.clone();
        tasks.spawn(Stage::Serving, name, |stop| net::serve(transport, socket, stop));
    }
}

/// The options of all sockets, with as many connections as the limit of open files permits.
pub(super) fn options(config: &Config) -> ListenerOptions {
    let mut options = config.server.listener.clone();
    let was_configured = options.max_connections != ListenerOptions::default().max_connections;
    let room = open_files::make_room_for(options.max_connections, was_configured);
    options.lower_max_connections(room);
    options
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http_body_util::Full;
    use hyper::{Request, Response, body::Incoming};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };
    use tower::service_fn;

    use super::*;
    use crate::{clock::SystemClock, net::Http1};

    fn loopback() -> SocketAddr {
        "127.0.0.1:0".parse().expect("is an address")
    }

    #[tokio::test]
    async fn binding_detects_a_port_in_use() {
        let first = BoundSocket::bind(loopback()).and_then(BoundSocket::listen).expect("listens");
        let in_use = first.local_addr().expect("has an address");
        assert!(matches!(BoundSocket::bind(in_use), Err(StartError::Listen { .. })));
    }

    /// A protocol whose every answer is this text.
    fn answering(text: &'static str) -> impl Protocol {
        let service = service_fn(move |_: Request<Incoming>| async move {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(text.as_bytes()))))
        });
        Http1::new(service, || Response::new(Bytes::from_static(b"full")))
    }

    /// Sends a request and reads the first part of what comes, which is all of it.
    async fn answer(stream: &mut TcpStream) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sends");
        let mut answer = vec![0; 4_096];
        let len = stream.read(&mut answer).await.expect("answers");
        String::from_utf8_lossy(&answer[..len]).into_owned()
    }

    #[tokio::test]
    async fn all_sockets_share_one_limit_and_one_end() {
        let (tasks, metrics) = (BackgroundTasks::default(), Metrics::new());
        let options = ListenerOptions { max_connections: 2, ..ListenerOptions::default() };
        let listeners = Listeners::new(options, Arc::new(SystemClock::new()), &metrics, None);
        let mut open = Vec::new();
        for text in ["native", "other"] {
            let listener = BoundSocket::bind(loopback()).and_then(BoundSocket::listen).expect("listens");
            let address = listener.local_addr().expect("has an address");
            listeners.serve(&tasks, text, listener, answering(text));
            let mut stream = TcpStream::connect(address).await.expect("connects");
            assert!(answer(&mut stream).await.ends_with(text));
            open.push((address, stream));
        }
        for (address, _) in &open {
            let mut third = TcpStream::connect(address).await.expect("connects");
            assert!(answer(&mut third).await.ends_with("full"), "connections to both sockets count");
        }
        tasks.stop(Stage::Serving).await;
        assert_eq!(tasks.failure(), None);
    }
}
