//! A proxy that stops forwarding requests at a moment that a test chooses, so that the program behind it stands still there,
//! however quick or slow the machine is.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard},
};

use super::wait::LONGEST;

/// Whether to close; asked before each request is forwarded.
type Condition = Box<dyn FnMut() -> bool + Send>;

/// Forwards everything until it closes.
pub struct Gate {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    close_when: Option<Condition>,
    is_closed: bool,
}

impl Gate {
    /// Listens on the loopback, in front of a server.
    pub fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("has an address");
        let shared = Arc::<Shared>::default();
        let of_connections = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { continue };
                forward(&client, &server, &of_connections);
            }
        });
        Self { address, shared }
    }

    /// Closes before the next request at which the condition is true.
    pub fn close_when(&self, condition: impl FnMut() -> bool + Send + 'static) {
        self.shared.lock().close_when = Some(Box::new(condition));
    }

    /// Waits until it is closed.
    pub fn wait_until_closed(&self) {
        let is_open = |state: &mut State| !state.is_closed;
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), LONGEST, is_open);
        assert!(!waited.expect("not poisoned").1.timed_out(), "the condition was never true");
    }

    /// Forwards what it has held back, and everything from now on.
    pub fn open(&self) {
        *self.shared.lock() = State::default();
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// Returns once the next request may be forwarded.
    fn pass(&self) {
        let mut state = self.lock();
        if !state.is_closed && state.close_when.as_mut().is_some_and(|is_time| is_time()) {
            state.is_closed = true;
            self.changed.notify_all();
        }
        drop(self.changed.wait_while(state, |state| state.is_closed).expect("not poisoned"));
    }
}

/// Copies both directions of a connection, each on a thread of its own.
fn forward(client: &TcpStream, server: &TcpStream, shared: &Arc<Shared>) {
    let copies = || [client, server].map(|stream| stream.try_clone().expect("can be shared"));
    let [mut requests, mut to_server] = copies();
    let [mut to_client, mut replies] = copies();
    let shared = shared.clone();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 65_536];
        while let Ok(len @ 1..) = requests.read(&mut bytes) {
            shared.pass();
            if to_server.write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        let _ = to_server.shutdown(Shutdown::Both);
    });
    std::thread::spawn(move || {
        let _ = io::copy(&mut replies, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
}
