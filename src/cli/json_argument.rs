//! Reads JSON that an argument gives: the value itself, `@FILE` for that in a file, `-` for that on stdin.

use std::{
    fs::File,
    io::{Read, stdin},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, fstat, tell},
    io::ioctl_fionread,
};
use serde_json::value::RawValue;

use super::exit::Failure;
use crate::files::file_kind;

/// Largest value that is read, in bytes: more than any server accepts.
const MAX_BYTES: u64 = 64 * 1_024 * 1_024;

/// The JSON that an argument gives. Errors call it `what`, such as `the definition`.
pub(super) fn json(given: &str, what: &str) -> Result<Box<RawValue>, Failure> {
    parse(given, what, "")
}

/// The body of a job. With `is_raw` it is text, which becomes a JSON string.
pub(super) fn body(given: &str, is_raw: bool) -> Result<Box<RawValue>, Failure> {
    if is_raw {
        let (text, _) = read(given, "the body")?;
        return Ok(serde_json::value::to_raw_value(&text).expect("any text is a JSON string"));
    }
    parse(given, "the body", "; --raw takes text as it is")
}

/// Fails if stdin may have a body that the command would leave unread. `how` says how to send it, or to send none.
pub(super) fn expect_no_body_on_stdin(how: &str) -> Result<(), Failure> {
    if stdin_may_have_bytes() { Err(Failure::usage(how)) } else { Ok(()) }
}

fn parse(given: &str, what: &str, advice: &str) -> Result<Box<RawValue>, Failure> {
    let (text, source) = read(given, what)?;
    let text = text.strip_prefix(file_kind::BYTE_ORDER_MARK).map(str::to_owned).unwrap_or(text);
    RawValue::from_string(text)
        .map_err(|error| Failure::usage(format!("{source} is not JSON: {error}{advice}")))
}

/// The text that an argument gives, and where it comes from.
fn read<'a>(given: &'a str, what: &'a str) -> Result<(String, &'a str), Failure> {
    match given.strip_prefix('@') {
        _ if given == "-" => Ok((read_from(stdin().lock(), "stdin")?, "stdin")),
        Some(path) => {
            let file = File::open(path).map_err(|error| Failure::usage(format!("{path}: {error}")))?;
            Ok((read_from(file, path)?, path))
        }
        None => Ok((given.to_owned(), what)),
    }
}

fn read_from(from: impl Read, name: &str) -> Result<String, Failure> {
    let unusable = |reason: &dyn std::fmt::Display| Failure::usage(format!("{name}: {reason}"));
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unusable(&error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unusable(&format_args!("is larger than {MAX_BYTES} bytes")));
    }
    let kind = file_kind::recognise(&bytes).unwrap_or("is not UTF-8 text");
    String::from_utf8(bytes).map_err(|_| unusable(&kind))
}

/// Whether stdin may have a body. Reading it unasked would take the lines of a shell's loop around the
/// command, or wait for ever where a pipe is only inherited.
fn stdin_may_have_bytes() -> bool {
    let stdin = stdin();
    let Ok(stat) = fstat(&stdin) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let length = u64::try_from(stat.st_size).unwrap_or(0);
            tell(&stdin).map_or(true, |position| position < length)
        }
        FileType::Fifo | FileType::Socket => {
            let mut polled = [PollFd::new(&stdin, PollFlags::IN | PollFlags::RDHUP)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let is_known = poll(&mut polled, Some(&now)).is_ok();
            let has_ended = is_known && polled[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP);
            !(has_ended && ioctl_fionread(&stdin).is_ok_and(|left| left == 0))
        }
        _ => false,
    }
}
