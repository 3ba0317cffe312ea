//! A connection that is written to and read from with no more than a buffer between.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

pub struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
    /// How much of `read` is used up.
    at: usize,
    /// What is written next.
    pub out: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::with_capacity(16_384), at: 0, out: Vec::with_capacity(16_384) })
    }

    /// Sends what was put into `out`.
    pub async fn send(&mut self) -> Result<(), Failure> {
        self.stream.write_all(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    /// Reads up to and including `end`; the bytes before it.
    pub async fn until(&mut self, end: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut searched = self.at;
        loop {
            if let Some(found) = self.read[searched..].windows(end.len()).position(|bytes| bytes == end) {
                let text = self.read[self.at..searched + found].to_vec();
                self.at = searched + found + end.len();
                return Ok(text);
            }
            searched = self.at.max((self.read.len() + 1).saturating_sub(end.len()));
            searched -= self.fill().await?;
        }
    }

    /// Reads exactly so many bytes.
    pub async fn exactly(&mut self, bytes: usize) -> Result<Vec<u8>, Failure> {
        while self.read.len() - self.at < bytes {
            self.fill().await?;
        }
        let read = self.read[self.at..self.at + bytes].to_vec();
        self.at += bytes;
        Ok(read)
    }

    /// Reads more; by how much everything has moved to the front.
    async fn fill(&mut self) -> Result<usize, Failure> {
        let moved = std::mem::take(&mut self.at);
        self.read.drain(..moved);
        if self.stream.read_buf(&mut self.read).await? == 0 {
            return Err("the server closed the connection".into());
        }
        Ok(moved)
    }
}
