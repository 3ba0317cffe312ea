//! A TCP stream that a connection and the request in flight share: the one reads and writes, the other asks the system
//! whether the client is still there.

use std::{
    io,
    net::Shutdown,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
};

/// What the system reports once the client has closed its sending side, or the whole connection. It always reports the
/// two others, whether they are requested or not.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOSED: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOSED: PollFlags = PollFlags::HUP.union(PollFlags::ERR);

/// A TCP stream with several owners, one of which reads and writes.
#[derive(Debug, Clone)]
pub(super) struct SharedSocket(Arc<TcpStream>);

impl SharedSocket {
    pub fn new(stream: TcpStream) -> Self {
        Self(Arc::new(stream))
    }

    pub fn stream(&self) -> &TcpStream {
        &self.0
    }

    /// Whether the system knows that the client has closed its sending side or reset the connection, even if bytes that it
    /// sent before are still unread. The runtime learns this later, at its next look at the events.
    pub fn is_closed_by_client(&self) -> bool {
        let mut sockets = [PollFd::new(&*self.0, CLOSED)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let polled = rustix::event::poll(&mut sockets, Some(&at_once));
        polled.is_ok_and(|ready| ready > 0) && sockets[0].revents().intersects(CLOSED)
    }
}

impl AsyncRead for SharedSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            let room = into.remaining();
            let mut read = None;
            let result = self.0.try_io(Interest::READABLE, || {
                let len = self.0.try_read_buf(into)?;
                read = Some(len);
                // A short read has emptied the socket. This error makes the runtime wait for the next event, as its own
                // streams do, in place of another read that finds nothing.
                if 0 < len && len < room { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            match result {
                _ if read.is_some() => return Poll::Ready(Ok(())),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
                Ok(()) | Err(_) => {}
            }
        }
    }
}

impl SharedSocket {
    /// Repeats `write` until the socket takes bytes.
    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match write(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncWrite for SharedSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(socket2::SockRef::from(&*self.0).shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    async fn connected() -> (SharedSocket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("is bound");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (SharedSocket::new(accepted.expect("accepts").0), client.expect("connects"))
    }

    #[tokio::test]
    async fn bytes_pass_in_both_directions_however_small_the_reads() {
        let (mut server, mut client) = connected().await;
        client.write_all(b"some bytes").await.expect("writes");
        let mut part = [0; 3];
        server.read_exact(&mut part).await.expect("reads");
        let mut rest = [0; 7];
        server.read_exact(&mut rest).await.expect("reads");
        assert_eq!((&part, &rest), (b"som", b"e bytes"));
        // More than the buffers of both sockets take, so that writes have to wait for the reader.
        let sent = vec![7; 8 << 20];
        let mut received = vec![0; sent.len()];
        let (written, read) = tokio::join!(server.write_all(&sent), client.read_exact(&mut received));
        assert_eq!((written.is_ok(), read.expect("reads"), received == sent), (true, sent.len(), true));
        server.shutdown().await.expect("closes");
        assert_eq!(client.read(&mut part).await.expect("reads"), 0);
        client.write_all(b"more").await.expect("the other direction stays open");
        drop(client);
        let mut last = Vec::new();
        server.read_to_end(&mut last).await.expect("reads");
        assert_eq!(last, b"more");
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[tokio::test]
    async fn a_client_that_closed_is_known_before_its_bytes_are_read() {
        let (server, mut client) = connected().await;
        client.write_all(b"a call").await.expect("writes");
        assert!(!server.is_closed_by_client());
        client.shutdown().await.expect("closes");
        assert!(server.is_closed_by_client());
    }
}
