//! A proxy in front of a server that loses answers, or refuses in its place.

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
pub enum Fate {
    /// It is answered.
    Served,
    /// The server answers, and the client sees the end of the connection.
    AnswerLost,
    /// The proxy answers 503, and the server never sees it.
    Refused,
}

/// A running proxy.
pub struct Proxy {
    address: SocketAddr,
    server: SocketAddr,
}

impl Proxy {
    /// The n-th request has the n-th fate.
    pub async fn start(server: SocketAddr, fates: &[Fate]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("has an address");
        let fates: Arc<Mutex<VecDeque<Fate>>> = Arc::new(Mutex::new(fates.iter().copied().collect()));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server, fates.clone()));
            }
        });
        Self { address, server }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client that goes round the proxy.
    pub fn beyond(&self) -> Client {
        super::client(&format!("http://{}", self.server))
    }
}

/// Carries the requests of one connection, each of which comes in one piece, as do their answers.
async fn carry(mut client: TcpStream, server: SocketAddr, fates: Arc<Mutex<VecDeque<Fate>>>) {
    let mut server = TcpStream::connect(server).await.expect("the server listens");
    let mut bytes = vec![0; 65_536];
    loop {
        let read = client.read(&mut bytes).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        let fate = fates.lock().expect("not poisoned").pop_front().expect("no more requests than fates");
        if fate == Fate::Refused {
            let answer = b"HTTP/1.1 503 x\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
            client.write_all(answer).await.expect("the client reads");
            continue;
        }
        server.write_all(&bytes[..read]).await.expect("the server reads");
        let read = server.read(&mut bytes).await.expect("the server answers");
        if fate == Fate::AnswerLost {
            return;
        }
        client.write_all(&bytes[..read]).await.expect("the client reads");
    }
}
