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
    /// The name of the file, for errors.
    pub name: String,
    /// The beginning of a line whose end was not read yet.
    begun: Vec<u8>,
    /// Whether this line is too long, so that its bytes are dropped up to its end.
    is_too_long: bool,
}

/// What a [`LineSource`] found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ready {
    /// A line, with its end if it has one.
    Line(Vec<u8>),
    /// A line of more than 64 MiB.
    TooLong,
    /// The writer has not completed the next line yet.
    Later,
    /// There are no more.
    End,
}

impl LineSource {
    pub fn new(file: File, name: String) -> Self {
        Self { reader: BufReader::new(file), name, begun: Vec::new(), is_too_long: false }
    }

    /// The next line, or the end, which may have to be waited for.
    pub fn next(&mut self) -> io::Result<Ready> {
        self.read(true)
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
                let has_none = self.begun.is_empty() && !self.is_too_long;
                return Ok(if has_none { Ready::End } else { self.end_line() });
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let bytes = &bytes[..end.map_or(bytes.len(), |end| end + 1)];
            if self.begun.len() + bytes.len() > MAX_LINE {
                (self.is_too_long, self.begun) = (true, Vec::new());
            }
            if !self.is_too_long {
                self.begun.extend_from_slice(bytes);
            }
            let read = bytes.len();
            self.reader.consume(read);
            if end.is_some() {
                return Ok(self.end_line());
            }
        }
    }

    /// The line that has ended.
    fn end_line(&mut self) -> Ready {
        let line = std::mem::take(&mut self.begun);
        if std::mem::take(&mut self.is_too_long) { Ready::TooLong } else { Ready::Line(line) }
    }
}

/// Whether a read returns at once: files always, pipes if they have bytes or their writer has gone.
pub(super) fn is_readable(file: &File) -> bool {
    let mut file = [PollFd::new(file, PollFlags::IN)];
    let polled = poll(&mut file, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    // A file that cannot be polled is read.
    polled.map_or(true, |ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Seek, SeekFrom, Write},
        os::fd::OwnedFd,
    };

    use super::*;

    #[test]
    fn a_line_is_ready_once_its_end_was_written() {
        let (reading, mut writing) = io::pipe().expect("a pipe");
        let mut source = LineSource::new(File::from(OwnedFd::from(reading)), "stdin".to_owned());
        let line = |text: &str| Ready::Line(text.as_bytes().to_vec());
        assert_eq!(source.next_ready().expect("reads"), Ready::Later);
        writing.write_all(b"one\ntwo\nthr").expect("writes");
        assert_eq!(source.next_ready().expect("reads"), line("one\n"));
        assert_eq!(source.next().expect("reads"), line("two\n"));
        assert_eq!(source.next_ready().expect("reads"), Ready::Later);
        writing.write_all(b"ee\nlast").expect("writes");
        assert_eq!(source.next_ready().expect("reads"), line("three\n"));
        assert_eq!(source.next_ready().expect("reads"), Ready::Later);
        drop(writing);
        assert_eq!(source.next_ready().expect("reads"), line("last"));
        assert_eq!(source.next_ready().expect("reads"), Ready::End);
        assert_eq!(source.next().expect("reads"), Ready::End);
    }

    #[test]
    fn a_line_that_is_too_long_is_one_line_and_the_next_is_read() {
        let mut file = tempfile::tempfile().expect("a file");
        let limit = MAX_LINE as u64;
        for (end, text) in [(limit - 1, "\n"), (2 * limit + 1, "\nshort\n"), (3 * limit + 8, "x")] {
            file.seek(SeekFrom::Start(end)).and_then(|_| file.write_all(text.as_bytes())).expect("writes");
        }
        file.rewind().expect("rewinds");
        let mut source = LineSource::new(file, "file".to_owned());
        let mut next = || source.next().expect("reads");
        assert!(matches!(next(), Ready::Line(line) if line.len() == MAX_LINE));
        assert_eq!(next(), Ready::TooLong);
        assert_eq!(next(), Ready::Line(b"short\n".to_vec()));
        assert_eq!([next(), next()], [Ready::TooLong, Ready::End]);
    }
}
