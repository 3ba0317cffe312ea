//! What a command prints: reads it as lines and passes them on. Never waits longer for its reader than the command's
//! own pipe would, and lets heartbeats, deadlines and signals go first after each chunk.

use std::{io, os::fd::OwnedFd};

use tokio::{net::unix::pipe::Receiver, sync::mpsc};

/// Longest part of a line that is passed on as one, in bytes.
const MAX_LINE_BYTES: usize = 8_192;
/// Most bytes that are read at once.
const CHUNK_BYTES: usize = 8_192;
/// Most bytes that are read after the command's end: more than its pipe can hold, and an end if a process that it
/// left behind goes on printing.
const MAX_REST_BYTES: usize = 1_048_576;

/// Reads one stream of a command.
pub(super) struct LineReader<F> {
    pipe: Receiver,
    form: F,
    sink: mpsc::Sender<Vec<u8>>,
    /// The beginning of a line whose end was not read yet.
    line: Vec<u8>,
    /// The last line that was not blank.
    last: Option<String>,
}

impl<F: Fn(&str) -> Vec<u8>> LineReader<F> {
    /// Reads from `pipe`, and sends each line to `sink` in the given form.
    pub fn new(pipe: impl Into<OwnedFd>, form: F, sink: mpsc::Sender<Vec<u8>>) -> io::Result<Self> {
        let pipe = Receiver::from_owned_fd(pipe.into())?;
        Ok(Self { pipe, form, sink, line: Vec::new(), last: None })
    }

    /// Passes lines on until every writer has closed the stream. Loses nothing when it is dropped.
    pub async fn run(&mut self) {
        let mut chunk = [0; CHUNK_BYTES];
        while self.pipe.readable().await.is_ok() {
            // Only with room for them: until then, the command waits like that of a slow terminal.
            let Ok(room) = self.sink.reserve().await else { return };
            match self.pipe.try_read(&mut chunk) {
                Ok(0) => break,
                Ok(len) => {
                    if let Some(lines) = push(&mut self.line, &mut self.last, &chunk[..len], &self.form) {
                        room.send(lines);
                    }
                    // The runtime looks at timers, sockets and signals when no task can run, and otherwise only after
                    // many polls, in each of which a command that prints fast could fill the whole budget of the task.
                    tokio::task::yield_now().await;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    }

    /// Passes on what is left in the pipe after the command's end, also a last line without its end. Lines for which
    /// there is no room are dropped. Returns the last line that was not blank.
    pub async fn finish(mut self) -> Option<String> {
        let (mut chunk, mut read) = ([0; CHUNK_BYTES], 0);
        // The kernel is asked, and not the runtime, which may not have heard of the last bytes yet.
        while let Ok(len) = rustix::io::read(&self.pipe, &mut chunk)
            && len > 0
            && read < MAX_REST_BYTES
        {
            read += len;
            if let Some(lines) = push(&mut self.line, &mut self.last, &chunk[..len], &self.form) {
                let _ = self.sink.try_send(lines);
            }
            tokio::task::yield_now().await;
        }
        if !self.line.is_empty()
            && let Some(line) = push(&mut self.line, &mut self.last, b"\n", &self.form)
        {
            let _ = self.sink.try_send(line);
        }
        self.last
    }
}

/// Adds bytes to the line that has begun. Returns the lines that they complete.
fn push(
    line: &mut Vec<u8>,
    last: &mut Option<String>,
    bytes: &[u8],
    form: impl Fn(&str) -> Vec<u8>,
) -> Option<Vec<u8>> {
    let mut lines = Vec::new();
    for part in bytes.split_inclusive(|byte| *byte == b'\n') {
        line.extend_from_slice(part);
        if !part.ends_with(b"\n") && line.len() < MAX_LINE_BYTES {
            continue;
        }
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        lines.extend(form(text));
        if !text.trim().is_empty() {
            *last = Some(text.trim().to_owned());
        }
        line.clear();
    }
    (!lines.is_empty()).then_some(lines)
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    fn form(line: &str) -> Vec<u8> {
        format!("[{line}]").into_bytes()
    }

    fn pushed(parts: &[&[u8]]) -> (String, Option<String>) {
        let (mut line, mut last, mut all) = (Vec::new(), None, Vec::new());
        for part in parts {
            all.extend(push(&mut line, &mut last, part, form).unwrap_or_default());
        }
        (String::from_utf8(all).expect("is text"), last)
    }

    #[test]
    fn bytes_become_lines_and_the_last_that_is_not_blank_is_kept() {
        for (parts, lines, last) in [
            (&[&b"one\ntw"[..], b"o\r\n", b"\n"][..], "[one][two][]", Some("two")),
            (&[b"no end"], "", None),
            (&[b"\n  \n"], "[][  ]", None),
            (&[b"a\xff\n"], "[a\u{fffd}]", Some("a\u{fffd}")),
        ] {
            assert_eq!(pushed(parts), (lines.to_owned(), last.map(str::to_owned)), "{parts:?}");
        }
    }

    #[test]
    fn a_line_without_end_takes_no_more_memory_than_a_long_one() {
        let (lines, _) = pushed(&[&[b'x'; MAX_LINE_BYTES], b"y\n"]);
        assert_eq!(lines.len(), MAX_LINE_BYTES + 2 + "[y]".len());
    }

    #[tokio::test]
    async fn others_run_after_each_chunk_of_a_command_that_prints_fast() {
        let (reading, mut writing) = io::pipe().expect("a pipe");
        let (sink, mut lines) = mpsc::channel(100);
        let mut reader = LineReader::new(reading, form, sink).expect("is a pipe");
        // As much as a pipe holds.
        io::Write::write_all(&mut writing, &[b'\n'; 8 * CHUNK_BYTES]).expect("can be written");
        let mut running = std::pin::pin!(reader.run());
        while lines.is_empty() {
            let polled = std::future::poll_fn(|context| Poll::Ready(running.as_mut().poll(context))).await;
            assert!(polled.is_pending());
            tokio::task::yield_now().await;
        }
        assert_eq!(lines.len(), 1);
        drop(lines.recv().await);
        drop(writing);
    }

    #[tokio::test]
    async fn what_is_in_the_pipe_at_the_end_is_read_although_a_process_keeps_it_open() {
        let (reading, mut writing) = io::pipe().expect("a pipe");
        let (sink, mut lines) = mpsc::channel(10);
        let reader = LineReader::new(reading, form, sink).expect("is a pipe");
        io::Write::write_all(&mut writing, b"one\nthe last").expect("can be written");
        assert_eq!(reader.finish().await.as_deref(), Some("the last"));
        assert_eq!(lines.recv().await, Some(b"[one]".to_vec()));
        assert_eq!(lines.recv().await, Some(b"[the last]".to_vec()));
        drop(writing);
    }
}
