//! A proxy that does to chosen requests, or to their answers, what networks do: lose them before or after
//! the server acted, break an answer off, fall silent with the connection open, be late, trickle. It can also
//! make open connections half-open: they swallow bytes, while new ones pass.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use linger::{
    clock::{Clock, SystemClock},
    store::redis::{Mode, Options},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use super::{
    frames::{later, script, take_frame},
    peer::{Peer, Swallow},
};

/// What happens to a request or its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends before the server hears of it.
    CutBefore,
    /// The server acts, and the connection ends without an answer.
    CutAfter,
    /// So much of the answer arrives, then the connection ends.
    CutInside(At),
    /// The server hears nothing, and the connection stays open for ever.
    SilentBefore,
    /// The server acts, and the connection stays open for ever without an answer.
    SilentAfter,
    /// The answer comes so much later.
    Late(Duration),
    /// The answer comes byte by byte.
    Trickle,
    /// The connection ends, but the request is still on its way: it arrives when the test says so.
    Withheld,
}

/// Where an answer breaks off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    FirstByte,
    Half,
    LastByte,
}

impl Fault {
    pub const ALL: [Self; 9] = [
        Self::CutAfter,
        Self::CutBefore,
        Self::CutInside(At::FirstByte),
        Self::CutInside(At::Half),
        Self::CutInside(At::LastByte),
        Self::SilentAfter,
        Self::SilentBefore,
        Self::Trickle,
        Self::Late(Duration::from_millis(20)),
    ];
}

/// Listens on the loopback and passes everything on, until it is armed.
pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    peers: Mutex<Vec<Arc<Peer>>>,
    learnt: Notify,
}

#[derive(Default)]
struct State {
    armed: Option<Armed>,
    /// How many requests met a fault since it was armed.
    fired: usize,
    /// How many requests could have.
    seen: usize,
    /// Whether requests are taken for what the engine sends of its own accord.
    learning: bool,
    /// Scripts that the engine runs of its own accord.
    background: HashSet<Vec<u8>>,
    /// How many of these there were.
    background_seen: usize,
    /// How far the server's clock seems to have stepped.
    clock_step: i64,
    /// Requests on their way whose connections have ended.
    withheld: Vec<Vec<u8>>,
}

struct Armed {
    /// Only requests that hold this; with nothing here, every script that is not of the background.
    marker: Vec<u8>,
    skip: usize,
    times: usize,
    fault: Fault,
    /// What all after those meet.
    then: Option<Fault>,
}

impl Proxy {
    pub async fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("has an address").port();
        let shared: Arc<Shared> = Arc::default();
        let passing = shared.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let peer = Arc::new(Peer::default());
                passing.peers.lock().expect("not poisoned").push(peer.clone());
                tokio::spawn(pass(client, server_port, passing.clone(), peer));
            }
        });
        Self { port, shared }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The options' mode for one server, reached through the proxy.
    pub fn mode(&self) -> Mode {
        Options::new(&self.url()).mode
    }

    /// The connections that pass everything on.
    pub fn peers(&self) -> Vec<Arc<Peer>> {
        let peers = self.shared.peers.lock().expect("not poisoned");
        peers.iter().filter(|peer| peer.passes()).cloned().collect()
    }

    /// Makes the open connections that `chosen` picks half-open; which these are.
    pub fn make_half_open(&self, swallow: Swallow, chosen: impl Fn(&Peer) -> bool) -> Vec<Arc<Peer>> {
        let peers: Vec<_> = self.peers().into_iter().filter(|peer| chosen(peer)).collect();
        peers.iter().for_each(|peer| peer.make_half_open(swallow));
        peers
    }

    /// Cuts the answers to the next `cuts` requests that hold `marker`.
    pub fn cut(&self, marker: &str, cuts: usize) {
        let marker = marker.as_bytes().to_vec();
        self.set(Some(Armed { marker, skip: 0, times: cuts, fault: Fault::CutAfter, then: None }));
    }

    /// Has `times` scripts meet a fault, after `skip` that pass.
    pub fn arm(&self, skip: usize, times: usize, fault: Fault) {
        self.set(Some(Armed { marker: Vec::new(), skip, times, fault, then: None }));
    }

    /// Has the next script meet a fault, and all after it another.
    pub fn arm_then(&self, fault: Fault, then: Fault) {
        self.set(Some(Armed { marker: Vec::new(), skip: 0, times: 1, fault, then: Some(then) }));
    }

    /// Counts the requests that hold `marker`, and lets them pass; [`heal`](Self::heal) tells the number.
    pub fn count(&self, marker: &str) {
        let (marker, fault) = (marker.as_bytes().to_vec(), Fault::CutBefore);
        self.set(Some(Armed { marker, skip: usize::MAX, times: 0, fault, then: None }));
    }

    /// How many scripts of the background were asked for.
    pub fn background_seen(&self) -> usize {
        self.shared.lock().background_seen
    }

    /// Withholds the next `times` requests that hold `marker`.
    pub fn withhold(&self, marker: &str, times: usize) {
        let (marker, fault) = (marker.as_bytes().to_vec(), Fault::Withheld);
        self.set(Some(Armed { marker, skip: 0, times, fault, then: None }));
    }

    /// Has what was withheld arrive at the server on `server_port`, in order; its answers.
    pub async fn deliver(&self, server_port: u16) -> Vec<String> {
        let withheld = std::mem::take(&mut self.shared.lock().withheld);
        let mut server = TcpStream::connect(("127.0.0.1", server_port)).await.expect("connects");
        let (mut answers, mut read) = (Vec::new(), Vec::new());
        for request in withheld {
            server.write_all(&request).await.expect("sends");
            let answer = loop {
                if let Some(answer) = take_frame(&mut read) {
                    break answer;
                }
                assert!(server.read_buf(&mut read).await.expect("reads") > 0, "the server hung up");
            };
            answers.push(String::from_utf8_lossy(&answer).into_owned());
        }
        answers
    }

    /// Has the server's clock seem to have stepped by so many seconds.
    pub fn step_clock(&self, seconds: i64) {
        self.shared.lock().clock_step = seconds;
    }

    /// Lets everything pass again; how many requests met the fault, and how many there were.
    pub fn heal(&self) -> (usize, usize) {
        let mut state = self.shared.lock();
        state.armed = None;
        (state.fired, state.seen)
    }

    /// Whether every fault happened; a test in which none does shows nothing.
    pub fn is_spent(&self) -> bool {
        self.shared.lock().armed.as_ref().is_none_or(|armed| armed.times == 0)
    }

    /// Learns which scripts the engine runs of its own accord, so that they meet no fault: the three of its
    /// sweep, seen while nobody asks it for anything.
    pub async fn learn_background(&self) {
        self.shared.lock().learning = true;
        let learning = async {
            while self.shared.lock().background.len() < 3 {
                self.shared.learnt.notified().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), learning).await.expect("the engine sweeps");
        self.shared.lock().learning = false;
    }

    fn set(&self, armed: Option<Armed>) {
        let mut state = self.shared.lock();
        (state.armed, state.fired, state.seen) = (armed, 0, 0);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// The fault that this request meets.
    fn meets(&self, request: &[u8]) -> Option<Fault> {
        let mut state = self.lock();
        let script = script(request);
        if state.learning
            && let Some(script) = script
        {
            state.background.insert(script.to_vec());
            self.learnt.notify_one();
        }
        let in_background = script.is_some_and(|script| state.background.contains(script));
        state.background_seen += usize::from(in_background);
        let counts = script.is_some() && !in_background;
        let armed = state.armed.as_mut()?;
        let marker = &armed.marker;
        let marked = || request.windows(marker.len()).any(|window| window == marker);
        if !(if marker.is_empty() { counts } else { marked() }) {
            return None;
        }
        let fault = match (armed.skip, armed.times) {
            (0, 0) => armed.then,
            (0, _) => Some(armed.fault),
            (_, _) => None,
        };
        match armed.skip {
            0 => armed.times = armed.times.saturating_sub(1),
            _ => armed.skip -= 1,
        }
        state.fired += usize::from(fault.is_some());
        state.seen += 1;
        fault
    }
}

/// One connection of a client.
struct Line {
    client: TcpStream,
    server: TcpStream,
    /// Faults for answers to come, by the number of the request.
    planned: VecDeque<(usize, Fault)>,
    asked: usize,
    answered: usize,
    peer: Arc<Peer>,
}

/// Whether a connection goes on.
#[derive(PartialEq)]
enum Then {
    On,
    Ends,
    Silent,
}

async fn pass(client: TcpStream, server_port: u16, shared: Arc<Shared>, peer: Arc<Peer>) {
    let _closed = peer.close_on_drop();
    // A server that is away is what a closed connection looks like.
    let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)).await else { return };
    client.set_nodelay(true).expect("is open");
    let mut line =
        Line { client, server, planned: VecDeque::new(), asked: 0, answered: 0, peer: peer.clone() };
    let (mut requests, mut answers) = (Vec::new(), Vec::new());
    let mut then = Then::On;
    while then == Then::On {
        then = tokio::select! {
            () = peer.becomes_half_open() => break,
            read = line.client.read_buf(&mut requests) => match read {
                Ok(1..) => line.ask(&mut requests, &shared).await,
                Ok(_) | Err(_) => Then::Ends,
            },
            read = line.server.read_buf(&mut answers) => match read {
                Ok(1..) => {
                    let clock_step = shared.lock().clock_step;
                    line.answer(&mut answers, clock_step).await
                }
                Ok(_) | Err(_) => Then::Ends,
            },
        };
    }
    match (then, peer.swallows()) {
        (Then::Silent, _) | (Then::On, Some(Swallow::Both)) => {
            // Read and forgotten until the client closes the connection.
            peer.ended(&tokio::io::copy(&mut line.client, &mut tokio::io::sink()).await);
        }
        (Then::On, Some(Swallow::Answers)) => {
            let (mut answers, mut server) = line.server.split();
            let (mut requests, _client) = line.client.split();
            let mut nowhere = tokio::io::sink();
            // The end of one direction is the end of both.
            tokio::select! {
                _ = tokio::io::copy(&mut requests, &mut server) => {}
                _ = tokio::io::copy(&mut answers, &mut nowhere) => {}
            }
        }
        (Then::On | Then::Ends, _) => {}
    }
}

impl Line {
    async fn ask(&mut self, requests: &mut Vec<u8>, shared: &Shared) -> Then {
        while let Some(request) = take_frame(requests) {
            self.asked += 1;
            self.peer.notice(&request);
            match shared.meets(&request) {
                Some(Fault::CutBefore) => return Then::Ends,
                Some(Fault::SilentBefore) => return Then::Silent,
                Some(Fault::Withheld) => {
                    shared.lock().withheld.push(request);
                    return Then::Ends;
                }
                Some(fault) => self.planned.push_back((self.asked, fault)),
                None => {}
            }
            if self.server.write_all(&request).await.is_err() {
                return Then::Ends;
            }
        }
        Then::On
    }

    async fn answer(&mut self, answers: &mut Vec<u8>, clock_step: i64) -> Then {
        while let Some(answer) = take_frame(answers) {
            let answer = if clock_step != 0 { later(answer, clock_step) } else { answer };
            self.answered += 1;
            let planned = self.planned.pop_front_if(|(number, _)| *number == self.answered);
            let part = match planned.map(|(_, fault)| fault) {
                None => answer.len(),
                Some(Fault::SilentAfter) => return Then::Silent,
                Some(Fault::Late(wait)) => {
                    SystemClock::new().sleep(wait).await;
                    answer.len()
                }
                Some(Fault::Trickle) => {
                    for byte in &answer {
                        if self.client.write_all(std::slice::from_ref(byte)).await.is_err() {
                            return Then::Ends;
                        }
                        tokio::task::yield_now().await;
                    }
                    continue;
                }
                Some(Fault::CutInside(At::FirstByte)) => 1,
                Some(Fault::CutInside(At::Half)) => answer.len() / 2,
                Some(Fault::CutInside(At::LastByte)) => answer.len() - 1,
                Some(Fault::CutBefore | Fault::CutAfter | Fault::SilentBefore | Fault::Withheld) => 0,
            };
            if self.client.write_all(&answer[..part]).await.is_err() || part < answer.len() {
                return Then::Ends;
            }
        }
        Then::On
    }
}
