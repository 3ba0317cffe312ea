//! One connection through the [`Proxy`](super::proxy::Proxy), with the faults of its requests and replies.

use std::{collections::VecDeque, sync::Arc};

use linger::clock::{Clock, SystemClock};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    frames::take_frame,
    peer::{Discard, Peer},
    proxy::{CutAt, Fault, Shared},
};

/// A connection of a client, and its connection to the server.
struct Connection {
    client: TcpStream,
    server: TcpStream,
    /// Faults of replies that have not arrived yet, by the number of the request.
    planned: VecDeque<(usize, Fault)>,
    /// Requests that wait for others, with all that came after them.
    waiting: Vec<u8>,
    /// How many requests have met [`Fault::Together`] since the last ones went on.
    together: usize,
    requests: usize,
    replies: usize,
    peer: Arc<Peer>,
}

/// The state of a connection after some bytes were forwarded.
#[derive(PartialEq)]
enum NextState {
    Open,
    Closed,
    Silent,
}

pub async fn forward(client: TcpStream, server_port: u16, shared: Arc<Shared>, peer: Arc<Peer>) {
    let _closed = peer.close_on_drop();
    // If the server cannot be reached, the connection of the client is closed.
    let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)).await else { return };
    client.set_nodelay(true).expect("is open");
    let (planned, waiting) = (VecDeque::new(), Vec::new());
    let mut connection = Connection {
        client,
        server,
        planned,
        waiting,
        together: 0,
        requests: 0,
        replies: 0,
        peer: peer.clone(),
    };
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    let mut next = NextState::Open;
    while next == NextState::Open {
        next = tokio::select! {
            () = peer.becomes_half_open() => break,
            read = connection.client.read_buf(&mut requests) => match read {
                Ok(1..) => connection.forward_requests(&mut requests, &mut replies, &shared).await,
                Ok(_) | Err(_) => NextState::Closed,
            },
            read = connection.server.read_buf(&mut replies) => match read {
                Ok(1..) => connection.forward_replies(&mut replies, &shared).await,
                Ok(_) | Err(_) => NextState::Closed,
            },
        };
    }
    match (next, peer.discards()) {
        (NextState::Silent, _) | (NextState::Open, Some(Discard::Both)) => {
            // Discard what arrives until the client closes the connection.
            peer.ended(&tokio::io::copy(&mut connection.client, &mut tokio::io::sink()).await);
        }
        (NextState::Open, Some(Discard::Replies)) => {
            let (mut replies, mut server) = connection.server.split();
            let (mut requests, _client) = connection.client.split();
            let mut nowhere = tokio::io::sink();
            // The end of one direction is the end of both.
            tokio::select! {
                _ = tokio::io::copy(&mut requests, &mut server) => {}
                _ = tokio::io::copy(&mut replies, &mut nowhere) => {}
            }
        }
        (NextState::Open | NextState::Closed, _) => {}
    }
}

impl Connection {
    async fn forward_requests(
        &mut self,
        requests: &mut Vec<u8>,
        replies: &mut Vec<u8>,
        shared: &Shared,
    ) -> NextState {
        while let Some(mut request) = take_frame(requests) {
            self.requests += 1;
            self.peer.notice(&request);
            match shared.fault_for(&request) {
                Some(Fault::CutBefore) => return NextState::Closed,
                Some(Fault::SilentBefore) => return NextState::Silent,
                Some(Fault::Withheld) => {
                    shared.lock().withheld.push(request);
                    self.forward_replies_before_the_last(replies, shared).await;
                    return NextState::Closed;
                }
                Some(Fault::Together(number)) => {
                    self.together += 1;
                    self.waiting.extend_from_slice(&request);
                    if self.together < number {
                        continue;
                    }
                    self.together = 0;
                    request = std::mem::take(&mut self.waiting);
                }
                _ if !self.waiting.is_empty() => {
                    self.waiting.extend_from_slice(&request);
                    continue;
                }
                Some(fault) => self.planned.push_back((self.requests, fault)),
                None => {}
            }
            if self.server.write_all(&request).await.is_err() {
                return NextState::Closed;
            }
        }
        NextState::Open
    }

    /// Forwards the replies to all requests but the last one.
    async fn forward_replies_before_the_last(&mut self, replies: &mut Vec<u8>, shared: &Shared) {
        let mut next = self.forward_replies(replies, shared).await;
        while next == NextState::Open && self.replies + 1 < self.requests {
            next = match self.server.read_buf(replies).await {
                Ok(1..) => self.forward_replies(replies, shared).await,
                Ok(_) | Err(_) => NextState::Closed,
            };
        }
    }

    async fn forward_replies(&mut self, replies: &mut Vec<u8>, shared: &Shared) -> NextState {
        while let Some(reply) = take_frame(replies) {
            let reply = shared.change_reply(reply);
            self.replies += 1;
            let planned = self.planned.pop_front_if(|(number, _)| *number == self.replies);
            let part = match planned.map(|(_, fault)| fault) {
                None => reply.len(),
                Some(Fault::SilentAfter) => return NextState::Silent,
                Some(Fault::Late(wait)) => {
                    SystemClock::new().sleep(wait).await;
                    reply.len()
                }
                Some(Fault::Trickle) => {
                    for byte in &reply {
                        if self.client.write_all(std::slice::from_ref(byte)).await.is_err() {
                            return NextState::Closed;
                        }
                        tokio::task::yield_now().await;
                    }
                    continue;
                }
                Some(Fault::CutInside(CutAt::FirstByte)) => 1,
                Some(Fault::CutInside(CutAt::Half)) => reply.len() / 2,
                Some(Fault::CutInside(CutAt::LastByte)) => reply.len() - 1,
                Some(Fault::CutBefore | Fault::CutAfter | Fault::SilentBefore | Fault::Withheld) => 0,
                Some(Fault::Together(_)) => unreachable!("it is a fault of the request"),
            };
            if self.client.write_all(&reply[..part]).await.is_err() || part < reply.len() {
                return NextState::Closed;
            }
        }
        NextState::Open
    }
}
