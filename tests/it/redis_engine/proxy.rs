//! A proxy that injects network faults into selected requests or their replies: it cuts the connection before or after
//! the server has executed a request, or within a reply; it stops forwarding; it delays a reply or sends it byte by
//! byte; it holds requests until others have come. It can also make open connections half-open: they discard bytes, while new connections work.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use linger::store::redis::{Mode, Options};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use super::{
    forward::forward,
    frames::{move_cursor, script, shift_clock, take_frame},
    peer::{Discard, Peer},
};
use crate::harness::wait::{LONGEST, until};

/// A fault of a request or its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends before the server receives the request.
    CutBefore,
    /// The server executes the request, and the connection ends without a reply.
    CutAfter,
    /// A part of the reply arrives, then the connection ends.
    CutInside(CutAt),
    /// The server does not receive the request, and the connection stays open for ever.
    SilentBefore,
    /// The server executes the request, and the connection stays open for ever without a reply.
    SilentAfter,
    /// The reply is late by this time.
    Late(Duration),
    /// The reply arrives byte by byte.
    Trickle,
    /// The connection ends after the replies to earlier requests. The request arrives when the test delivers it.
    Withheld,
    /// The server receives the request once this many requests of its connection have met the fault.
    Together(usize),
}

/// How much of a reply arrives before the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutAt {
    FirstByte,
    Half,
    LastByte,
}

impl Fault {
    pub const ALL: [Self; 9] = [
        Self::CutAfter,
        Self::CutBefore,
        Self::CutInside(CutAt::FirstByte),
        Self::CutInside(CutAt::Half),
        Self::CutInside(CutAt::LastByte),
        Self::SilentAfter,
        Self::SilentBefore,
        Self::Trickle,
        Self::Late(Duration::from_millis(20)),
    ];
}

/// Listens on the loopback address. Forwards everything until a fault is armed.
pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

/// What all connections of a proxy share.
#[derive(Default)]
pub struct Shared {
    state: Mutex<State>,
    peers: Mutex<Vec<Arc<Peer>>>,
    learned: Notify,
}

/// What a proxy does with requests, and what it has seen.
#[derive(Default)]
pub struct State {
    armed: Option<Armed>,
    /// How many requests met a fault since it was armed.
    injected: usize,
    /// How many requests could have met it.
    seen: usize,
    /// The scripts that were called while the proxy learns which ones belong to the background.
    learning: Option<HashSet<Vec<u8>>>,
    /// Scripts that the engine runs without being called.
    background: HashSet<Vec<u8>>,
    /// How many of these were called.
    background_seen: usize,
    /// The seconds that are added to clocks in replies.
    pub clock_step: i64,
    /// How many cursors of scans in the next replies are replaced by those of another server.
    cursors_to_move: usize,
    /// Requests that were not delivered, whose connections have ended.
    pub withheld: Vec<Vec<u8>>,
}

struct Armed {
    /// Only requests that contain this text. If it is empty, every script except those of the background.
    marker: Vec<u8>,
    skip: usize,
    times: usize,
    fault: Fault,
    /// The fault of all requests after those.
    then: Option<Fault>,
}

impl Proxy {
    pub async fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("has an address").port();
        let shared: Arc<Shared> = Arc::default();
        let state = shared.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let peer = Arc::new(Peer::default());
                state.peers.lock().expect("not poisoned").push(peer.clone());
                tokio::spawn(forward(client, server_port, state.clone(), peer));
            }
        });
        Self { port, shared }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The mode of options for a single server behind the proxy.
    pub fn mode(&self) -> Mode {
        Options::new(&self.url()).mode
    }

    /// The open connections that are not half-open.
    pub fn peers(&self) -> Vec<Arc<Peer>> {
        let peers = self.shared.peers.lock().expect("not poisoned");
        peers.iter().filter(|peer| peer.passes()).cloned().collect()
    }

    /// Makes the open connections that `chosen` selects half-open, and returns them.
    pub fn make_half_open(&self, discard: Discard, chosen: impl Fn(&Peer) -> bool) -> Vec<Arc<Peer>> {
        let peers: Vec<_> = self.peers().into_iter().filter(|peer| chosen(peer)).collect();
        peers.iter().for_each(|peer| peer.make_half_open(discard));
        peers
    }

    /// Cuts the connection after each of the next `cuts` requests that contain `marker`, before the reply.
    pub fn cut_replies(&self, marker: &str, cuts: usize) {
        let marker = marker.as_bytes().to_vec();
        self.set(Some(Armed { marker, skip: 0, times: cuts, fault: Fault::CutAfter, then: None }));
    }

    /// Injects a fault into `times` scripts, after `skip` scripts without a fault.
    pub fn arm(&self, skip: usize, times: usize, fault: Fault) {
        self.set(Some(Armed { marker: Vec::new(), skip, times, fault, then: None }));
    }

    /// Injects `fault` into the next script, and `then` into all after it.
    pub fn arm_then(&self, fault: Fault, then: Fault) {
        self.arm_marked_then("", fault, then);
    }

    /// Injects `fault` into the next request that contains `marker`, and `then` into all such requests after it.
    pub fn arm_marked_then(&self, marker: &str, fault: Fault, then: Fault) {
        let marker = marker.as_bytes().to_vec();
        self.set(Some(Armed { marker, skip: 0, times: 1, fault, then: Some(then) }));
    }

    /// Counts the requests that contain `marker`; [`disarm`](Self::disarm) returns their number.
    pub fn count(&self, marker: &str) {
        let (marker, fault) = (marker.as_bytes().to_vec(), Fault::CutBefore);
        self.set(Some(Armed { marker, skip: usize::MAX, times: 0, fault, then: None }));
    }

    /// How many requests could have met the fault so far.
    pub fn seen(&self) -> usize {
        self.shared.lock().seen
    }

    /// Waits until so many requests could have met the fault.
    pub async fn until_seen(&self, requests: usize) {
        until(|| self.seen() >= requests).await;
    }

    /// How many background scripts were called.
    pub fn background_seen(&self) -> usize {
        self.shared.lock().background_seen
    }

    /// Withholds the next `times` requests that contain `marker`.
    pub fn withhold(&self, marker: &str, times: usize) {
        let (marker, fault) = (marker.as_bytes().to_vec(), Fault::Withheld);
        self.set(Some(Armed { marker, skip: 0, times, fault, then: None }));
    }

    /// Sends the withheld requests to the server on `server_port`, in order. Returns its replies.
    pub async fn deliver_withheld(&self, server_port: u16) -> Vec<String> {
        let withheld = std::mem::take(&mut self.shared.lock().withheld);
        let mut server = TcpStream::connect(("127.0.0.1", server_port)).await.expect("connects");
        let (mut replies, mut read) = (Vec::new(), Vec::new());
        for request in withheld {
            server.write_all(&request).await.expect("sends");
            let reply = loop {
                if let Some(reply) = take_frame(&mut read) {
                    break reply;
                }
                assert!(
                    server.read_buf(&mut read).await.expect("reads") > 0,
                    "the server closed the connection"
                );
            };
            replies.push(String::from_utf8_lossy(&reply).into_owned());
        }
        replies
    }

    /// Changes the clock of the server, as its clients see it, by this many seconds.
    pub fn step_clock(&self, seconds: i64) {
        self.shared.lock().clock_step = seconds;
    }

    /// Injects no more faults. Returns how many requests met the fault, and how many could have met it.
    pub fn disarm(&self) -> (usize, usize) {
        let mut state = self.shared.lock();
        state.armed = None;
        (state.injected, state.seen)
    }

    /// The next scan in several runs meets another server.
    pub fn move_next_cursor(&self) {
        self.shared.lock().cursors_to_move = 1;
    }

    /// Whether it has.
    pub fn has_moved_cursor(&self) -> bool {
        self.shared.lock().cursors_to_move == 0
    }

    /// Whether every armed fault has happened. A test without its fault would prove nothing.
    pub fn all_faults_happened(&self) -> bool {
        self.shared.lock().armed.as_ref().is_none_or(|armed| armed.times == 0)
    }

    /// Records which scripts the engine runs in the background, so that they meet no fault: the three of its sweep, which
    /// it runs again and again. A call of its start may still be in flight, but no other one.
    pub async fn learn_background(&self) {
        self.shared.lock().learning = Some(HashSet::new());
        let learning = async {
            while self.shared.lock().background.len() < 3 {
                self.shared.learned.notified().await;
            }
        };
        tokio::time::timeout(*LONGEST, learning).await.expect("the engine sweeps");
        self.shared.lock().learning = None;
    }

    fn set(&self, armed: Option<Armed>) {
        let mut state = self.shared.lock();
        (state.armed, state.injected, state.seen) = (armed, 0, 0);
    }
}

impl Shared {
    /// The reply as the client gets it.
    pub fn change_reply(&self, reply: Vec<u8>) -> Vec<u8> {
        let mut state = self.lock();
        if state.cursors_to_move > 0
            && let Some(moved) = move_cursor(&reply)
        {
            state.cursors_to_move -= 1;
            return moved;
        }
        match state.clock_step {
            0 => reply,
            step => shift_clock(reply, step),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// The fault for this request.
    pub fn fault_for(&self, request: &[u8]) -> Option<Fault> {
        let mut state = self.lock();
        let script = script(request);
        if let Some(called) = &mut state.learning
            && let Some(script) = script
            && !called.insert(script.to_vec())
        {
            state.background.insert(script.to_vec());
            self.learned.notify_one();
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
        state.injected += usize::from(fault.is_some());
        state.seen += 1;
        fault
    }
}
