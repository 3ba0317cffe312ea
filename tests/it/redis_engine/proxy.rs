//! A proxy that cuts a connection at the worst moment: after the server did what it was asked, before
//! its answer is passed on.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Listens on the loopback and passes everything on, until it is armed.
pub struct Proxy {
    pub port: u16,
    armed: Arc<Mutex<Option<Armed>>>,
}

struct Armed {
    marker: Vec<u8>,
    /// How many more requests with the marker lose their answers.
    cuts: usize,
}

impl Proxy {
    pub async fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("has an address").port();
        let armed: Arc<Mutex<Option<Armed>>> = Arc::default();
        let shared = armed.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, server_port, shared.clone()));
            }
        });
        Self { port, armed }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Cuts the answers to the next `cuts` requests that hold `marker`.
    pub fn cut(&self, marker: &str, cuts: usize) {
        let armed = Armed { marker: marker.as_bytes().to_vec(), cuts };
        *self.armed.lock().expect("not poisoned") = Some(armed);
    }

    /// Whether every cut was made; a test that cuts nothing shows nothing.
    pub fn is_spent(&self) -> bool {
        self.armed.lock().expect("not poisoned").is_none()
    }
}

fn fires(armed: &Mutex<Option<Armed>>, request: &[u8]) -> bool {
    let mut armed = armed.lock().expect("not poisoned");
    let Some(waiting) = armed.as_mut() else { return false };
    if !request.windows(waiting.marker.len()).any(|window| window == waiting.marker) {
        return false;
    }
    waiting.cuts -= 1;
    if waiting.cuts == 0 {
        *armed = None;
    }
    true
}

async fn pass(mut client: TcpStream, server_port: u16, armed: Arc<Mutex<Option<Armed>>>) {
    let mut server = TcpStream::connect(("127.0.0.1", server_port)).await.expect("the server is there");
    let (mut request, mut answer) = (vec![0; 64 * 1_024], vec![0; 64 * 1_024]);
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let Ok(len @ 1..) = read else { return };
                let cut = fires(&armed, &request[..len]);
                if server.write_all(&request[..len]).await.is_err() {
                    return;
                }
                if cut {
                    // The server has answered, so it has happened; nobody will hear of it.
                    let _ = server.read(&mut answer).await;
                    return;
                }
            }
            read = server.read(&mut answer) => {
                let Ok(len @ 1..) = read else { return };
                if client.write_all(&answer[..len]).await.is_err() {
                    return;
                }
            }
        }
    }
}
