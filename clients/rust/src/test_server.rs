//! A server for tests that answers by a list: the bytes of each answer, or the end of the connection.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{Client, Options, ServerUrl};

/// Ends the connection without an answer.
pub(crate) const CUT: &str = "";

/// Sends nothing, and leaves the connection open.
pub(crate) const SILENCE: &str = "silence";

/// A server and what it was asked.
pub(crate) struct TestServer {
    pub url: ServerUrl,
    lines: Arc<Mutex<Vec<String>>>,
}

impl TestServer {
    /// Answers the n-th request with the n-th answer.
    pub async fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("has an address");
        let lines = Arc::new(Mutex::default());
        let asked = lines.clone();
        tokio::spawn(async move {
            let mut answers = answers.into_iter();
            while let Ok((stream, _)) = listener.accept().await {
                serve(stream, &mut answers, &asked).await;
            }
        });
        Self { url: ServerUrl::new(address.to_string(), false), lines }
    }

    pub fn client(&self) -> Client {
        Client::new(&self.url, Options::default()).expect("the options are sound")
    }

    /// The first line of each request.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("not poisoned").clone()
    }
}

/// Answers requests of a connection until an answer ends it. Each request comes in one piece.
async fn serve(
    mut stream: TcpStream,
    answers: &mut impl Iterator<Item = String>,
    asked: &Mutex<Vec<String>>,
) {
    let mut request = vec![0; 65_536];
    while let Ok(read) = stream.read(&mut request).await {
        let text = String::from_utf8_lossy(&request[..read]);
        let Some(line) = text.lines().next() else { return };
        asked.lock().expect("not poisoned").push(line.to_owned());
        let answer = answers.next().unwrap_or_else(|| panic!("no answer is left for {line}"));
        match answer.as_str() {
            CUT => return,
            SILENCE => continue,
            _ => {}
        }
        stream.write_all(answer.as_bytes()).await.expect("the client reads");
    }
}

/// An answer with this status, further headers and body.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}
