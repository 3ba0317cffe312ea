//! A proxy in front of a server that loses responses, or refuses requests in the server's place.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use linger_client::Client;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFate {
    /// The request and its response are forwarded.
    Served,
    /// The server answers, but the proxy closes the connection instead of forwarding the response.
    ResponseLost,
    /// The proxy answers with 503, and the server never receives the request.
    Refused,
}

/// A running proxy.
pub struct Proxy {
    address: SocketAddr,
    server: SocketAddr,
}

impl Proxy {
    /// Starts a proxy that treats the n-th request according to the n-th fate.
    pub async fn start(server: SocketAddr, fates: &[RequestFate]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("has an address");
        let fates: Arc<Mutex<VecDeque<RequestFate>>> = Arc::new(Mutex::new(fates.iter().copied().collect()));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server, fates.clone()));
            }
        });
        Self { address, server }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client that bypasses the proxy.
    pub fn direct_client(&self) -> Client {
        super::client(&format!("http://{}", self.server))
    }
}

/// Forwards the requests and responses of one connection. Each of them arrives in one piece.
async fn forward(mut client: TcpStream, server: SocketAddr, fates: Arc<Mutex<VecDeque<RequestFate>>>) {
    let mut server = TcpStream::connect(server).await.expect("the server listens");
    let mut bytes = vec![0; 65_536];
    loop {
        let read = client.read(&mut bytes).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        let fate =
            fates.lock().expect("not poisoned").pop_front().expect("there are no more requests than fates");
        if fate == RequestFate::Refused {
            let answer = b"HTTP/1.1 503 x\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
            client.write_all(answer).await.expect("the client reads");
            continue;
        }
        server.write_all(&bytes[..read]).await.expect("the server reads");
        let read = server.read(&mut bytes).await.expect("the server answers");
        if fate == RequestFate::ResponseLost {
            return;
        }
        client.write_all(&bytes[..read]).await.expect("the client reads");
    }
}
