//! Reads lines from a file or a pipe, and knows when the next one has to be waited for. Does not know what they mean.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Longest line, in bytes: more than any server accepts.
const MAX_LINE: usize = 64 * 1_024 * 1_024;

/// Where lines come from.
pub(super) struct LineSource {
    reader: BufReader<File>,
    /// The beginning of a line whose end was not read yet.
    begun: Vec<u8>,
}

/// What [`LineSource::next_ready`] found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ready {
    /// A line, with its end if it has one.
    Line(Vec<u8>),
    /// Whoever writes the lines has to be waited for.
    Later,
    /// There are no more.
    End,
}

impl LineSource {
    pub fn new(file: File) -> Self {
        Self { reader: BufReader::new(file), begun: Vec::new() }
    }

    /// The next line, or a part of one that is too long; none at the end.
    pub fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.read(true)? {
            Ready::Line(line) => Ok(Some(line)),
            Ready::Later | Ready::End => Ok(None),
        }
    }

    /// The next line if it is there already.
    pub fn next_ready(&mut self) -> io::Result<Ready> {
        self.read(false)
    }

    fn read(&mut self, waits: bool) -> io::Result<Ready> {
        loop {
            if self.reader.buffer().is_empty() && !waits && !is_readable(self.reader.get_ref()) {
                return Ok(Ready::Later);
            }
            let bytes = match self.reader.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if bytes.is_empty() {
                let last = std::mem::take(&mut self.begun);
                return Ok(if last.is_empty() { Ready::End } else { Ready::Line(last) });
            }
            let bytes = &bytes[..bytes.len().min(MAX_LINE - self.begun.len())];
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let bytes = &bytes[..end.map_or(bytes.len(), |end| end + 1)];
            self.begun.extend_from_slice(bytes);
            let read = bytes.len();
            self.reader.consume(read);
            if end.is_some() || self.begun.len() == MAX_LINE {
                return Ok(Ready::Line(std::mem::take(&mut self.begun)));
            }
        }
    }
}

/// Whether a read would not wait: files always, pipes if they have bytes or nobody writes to them any more.
pub(super) fn is_readable(file: &File) -> bool {
    let mut file = [PollFd::new(file, PollFlags::IN)];
    let polled = poll(&mut file, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    // What cannot be asked is read.
    polled.map_or(true, |ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::fd::OwnedFd};

    use super::*;

    #[test]
    fn a_line_is_ready_once_its_end_was_written() {
        let (reading, mut writing) = io::pipe().expect("a pipe");
        let mut source = LineSource::new(File::from(OwnedFd::from(reading)));
        let line = |text: &str| Ready::Line(text.as_bytes().to_vec());
        assert_eq!(source.next_ready().expect("reads"), Ready::Later);
        writing.write_all(b"one\ntwo\nthr").expect("writes");
        assert_eq!(source.next_ready().expect("reads"), line("one\n"));
        assert_eq!(source.next().expect("reads").as_deref(), Some(&b"two\n"[..]));
        assert_eq!(source.next_ready().expect("reads"), Ready::Later);
        writing.write_all(b"ee\nlast").expect("writes");
        assert_eq!(source.next_ready().expect("reads"), line("three\n"));
        assert_eq!(source.next_ready().expect("reads"), Ready::Later);
        drop(writing);
        assert_eq!(source.next_ready().expect("reads"), line("last"));
        assert_eq!(source.next_ready().expect("reads"), Ready::End);
        assert_eq!(source.next().expect("reads"), None);
    }

    #[test]
    fn a_line_that_is_too_long_comes_in_parts() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&vec![b'x'; MAX_LINE + 1]).and_then(|()| io::Seek::rewind(&mut file)).expect("writes");
        let mut source = LineSource::new(file);
        let mut next = || source.next().expect("reads").map(|line| line.len());
        assert_eq!([next(), next(), next()], [Some(MAX_LINE), Some(1), None]);
    }
}
