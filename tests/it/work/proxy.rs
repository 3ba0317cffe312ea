//! A proxy in front of a server: it can cut the network without closing a connection, and lose the answer to a call.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

/// A running proxy; its connections end with the test.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Whether bytes are dropped, in both directions.
    is_cut: bool,
    /// The next call whose path has this word gets no answer.
    victim: Option<&'static str>,
    lost: usize,
    streams: Vec<TcpStream>,
}

impl Proxy {
    pub fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("has an address");
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { continue };
                forward(&client, &server, &shared);
            }
        });
        Self { address, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// From now on nothing gets through, and neither side notices.
    pub fn cut(&self) {
        self.state().is_cut = true;
    }

    /// New connections get through again; those that lost bytes are closed.
    pub fn heal(&self) {
        let mut state = self.state();
        state.is_cut = false;
        for stream in state.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// The next call whose path has this word gets no answer, although the server does what it asks for.
    pub fn lose_answer(&self, word: &'static str) {
        self.state().victim = Some(word);
    }

    /// How many answers were lost.
    pub fn lost(&self) -> usize {
        self.state().lost
    }
}

/// Copies both directions of a connection, each on a thread of its own.
fn forward(client: &TcpStream, server: &TcpStream, state: &Arc<Mutex<State>>) {
    let copies = || [client, server].map(|stream| stream.try_clone().expect("can be shared"));
    state.lock().expect("not poisoned").streams.extend(copies());
    let loses = Arc::new(AtomicBool::new(false));
    for is_request in [true, false] {
        let [client, server] = copies();
        let (mut from, mut to) = if is_request { (client, server) } else { (server, client) };
        let (state, loses) = (state.clone(), loses.clone());
        std::thread::spawn(move || {
            let mut bytes = vec![0; 65_536];
            while let Ok(len) = from.read(&mut bytes)
                && len > 0
            {
                let mut state = state.lock().expect("not poisoned");
                if is_request {
                    let line = String::from_utf8_lossy(&bytes[..len]);
                    let line = line.lines().next().unwrap_or_default();
                    if state.victim.is_some_and(|word| line.contains(word)) {
                        state.victim = None;
                        loses.store(true, Ordering::Relaxed);
                    }
                } else if loses.swap(false, Ordering::Relaxed) {
                    state.lost += 1;
                    break;
                }
                let is_cut = state.is_cut;
                drop(state);
                if !is_cut && to.write_all(&bytes[..len]).is_err() {
                    break;
                }
            }
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}
