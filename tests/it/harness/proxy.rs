//! A proxy in front of a server. A test decides what happens to each request; it can also cut the network without closing a
//! connection, and let the client stand still at a request, however quick or slow the machine is.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard},
};

use super::{
    blocking_http::is_not_begun,
    wait::{LONGEST, TimeLimit},
};

/// What happens to a request, or to a part of one that arrives by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fate {
    /// The request and its response are forwarded.
    #[default]
    Served,
    /// The server does what the request asks for and answers, but the proxy closes the connection in place of forwarding the
    /// response.
    ResponseLost,
    /// The proxy answers with a 503 of HTTP, and the server never receives the request.
    Refused,
    /// Neither this request nor a later one is forwarded, on any connection, before the proxy is told to go on.
    Held,
}

/// Decides about each request.
type Plan = Box<dyn FnMut(&[u8]) -> Fate + Send>;

/// A running proxy; its connections end with the test.
pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    held_or_released: Condvar,
}

#[derive(Default)]
struct State {
    /// Where new connections lead.
    server: Option<SocketAddr>,
    plan: Option<Plan>,
    is_holding: bool,
    /// Whether bytes are dropped, in both directions.
    is_cut: bool,
    lost: usize,
    streams: Vec<TcpStream>,
}

impl Proxy {
    pub fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("has an address");
        let shared = Arc::<Shared>::default();
        shared.lock().server = Some(server);
        let of_connections = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let server = of_connections.lock().server.expect("is set");
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { continue };
                forward(&client, &server, &of_connections);
            }
        });
        Self { address, shared }
    }

    /// Its address where the server speaks HTTP.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// New connections lead to another server, as when a name is changed. The others stay.
    pub fn lead_to(&self, server: SocketAddr) {
        self.shared.lock().server = Some(server);
    }

    /// Decides about each request from now on.
    pub fn decide(&self, plan: impl FnMut(&[u8]) -> Fate + Send + 'static) {
        self.shared.lock().plan = Some(Box::new(plan));
    }

    /// Decides about the next requests in this order. Those after them are served.
    pub fn decide_in_order(&self, fates: &[Fate]) {
        let mut fates = VecDeque::from(fates.to_vec());
        self.decide(move |_| fates.pop_front().unwrap_or_default());
    }

    /// The next request whose first line has this word gets no response, although the server does what it asks for.
    pub fn lose_response(&self, word: &'static str) {
        let mut is_over = false;
        self.decide(move |request| {
            let text = String::from_utf8_lossy(request);
            let is_meant = !is_over && text.lines().next().is_some_and(|line| line.contains(word));
            is_over |= is_meant;
            if is_meant { Fate::ResponseLost } else { Fate::Served }
        });
    }

    /// How many responses were lost.
    pub fn lost(&self) -> usize {
        self.shared.lock().lost
    }

    /// From now on nothing gets through, and neither side notices.
    pub fn cut(&self) {
        self.shared.lock().is_cut = true;
    }

    /// New connections get through again; those that lost bytes are closed.
    pub fn heal(&self) {
        let mut state = self.shared.lock();
        state.is_cut = false;
        for stream in state.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Holds the next request at which the condition is true, and those after it.
    pub fn hold_when(&self, mut is_time: impl FnMut() -> bool + Send + 'static) {
        self.decide(move |_| if is_time() { Fate::Held } else { Fate::Served });
    }

    /// Waits until a request is held.
    pub fn wait_until_held(&self) {
        let is_waiting = |state: &mut State| !state.is_holding;
        let waited =
            self.shared.held_or_released.wait_timeout_while(self.shared.lock(), *LONGEST, is_waiting);
        assert!(!waited.expect("not poisoned").1.timed_out(), "no request was held");
    }

    /// Forwards the requests that are held, and every one from now on.
    pub fn release(&self) {
        let mut state = self.shared.lock();
        (state.plan, state.is_holding) = (None, false);
        self.shared.held_or_released.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// The fate of a request, once it is not held any more. `None` if it is dropped because the network is cut.
    fn fate_of(&self, request: &[u8]) -> Option<Fate> {
        let mut state = self.lock();
        // A request behind one that is held waits for the same.
        let mut fate = Fate::Held;
        if !state.is_holding {
            fate = state.plan.as_mut().map_or(Fate::Served, |plan| plan(request));
        }
        if fate == Fate::Held {
            state.is_holding = true;
            self.held_or_released.notify_all();
            let is_held = |state: &mut State| state.is_holding;
            state = self.held_or_released.wait_while(state, is_held).expect("not poisoned");
            fate = Fate::Served;
        }
        (!state.is_cut).then_some(fate)
    }
}

/// The request of a connection whose response is to be lost, if there is one.
type Losing = Arc<Mutex<Option<Vec<u8>>>>;

/// Copies both directions of a connection, each on a thread of its own.
fn forward(client: &TcpStream, server: &TcpStream, shared: &Arc<Shared>) {
    let copies = || [client, server].map(|stream| stream.try_clone().expect("can be shared"));
    shared.lock().streams.extend(copies());
    let losing = Losing::default();
    let ([client, server], at_request, of_requests) = (copies(), shared.clone(), losing.clone());
    std::thread::spawn(move || forward_requests(&client, &server, &at_request, &of_requests));
    let ([client, server], shared) = (copies(), shared.clone());
    std::thread::spawn(move || forward_responses(&server, &client, &shared, &losing));
}

fn forward_requests(mut client: &TcpStream, mut server: &TcpStream, shared: &Shared, losing: &Losing) {
    let mut bytes = vec![0; 65_536];
    while let Ok(len @ 1..) = client.read(&mut bytes) {
        let request = &bytes[..len];
        let sent = match shared.fate_of(request) {
            None => Ok(()),
            Some(Fate::Refused) => {
                client.write_all(b"HTTP/1.1 503 x\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n")
            }
            Some(fate) => {
                let mut losing = losing.lock().expect("not poisoned");
                if fate == Fate::ResponseLost {
                    losing.get_or_insert_default();
                }
                losing.iter_mut().for_each(|sent| sent.extend(request));
                drop(losing);
                server.write_all(request)
            }
        };
        if sent.is_err() {
            break;
        }
    }
    end(client, server);
}

fn forward_responses(mut server: &TcpStream, mut client: &TcpStream, shared: &Shared, losing: &Losing) {
    let mut bytes = vec![0; 65_536];
    while let Ok(len @ 1..) = server.read(&mut bytes) {
        let lost = losing.lock().expect("not poisoned").take();
        if let Some(request) = lost {
            send_until_begun(shared, &request, bytes[..len].to_vec());
            shared.lock().lost += 1;
            break;
        }
        let is_cut = shared.lock().is_cut;
        if !is_cut && client.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    end(client, server);
}

/// Sends a request again for as long as a server says that it has not begun it, because its process was paused.
fn send_until_begun(shared: &Shared, request: &[u8], mut response: Vec<u8>) {
    let time_limit = TimeLimit::new();
    while response.starts_with(b"HTTP/1.1 503 ") && is_not_begun(503, &response) {
        time_limit.check(|| "a request is not begun".to_owned());
        time_limit.pause_thread();
        let address = shared.lock().server.expect("is set");
        let mut server = TcpStream::connect(address).expect("the server listens");
        server.write_all(request).expect("the server reads");
        response.resize(65_536, 0);
        let len = server.read(&mut response).expect("the server answers");
        response.truncate(len);
    }
}

fn end(client: &TcpStream, server: &TcpStream) {
    for stream in [client, server] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
