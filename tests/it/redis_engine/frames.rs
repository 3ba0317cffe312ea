//! Requests and replies in the protocol of Redis, as the proxy separates them.

/// The name of the script that a request runs. `SCAN` and `WAIT` count as scripts.
pub fn script(request: &[u8]) -> Option<&[u8]> {
    let mut words = request.split(|byte| *byte == b'\n').skip(2).step_by(2);
    match words.next()?.strip_suffix(b"\r")? {
        b"EVALSHA" | b"EVAL" => words.next(),
        b"SCAN" => Some(b"SCAN"),
        b"WAIT" => Some(b"WAIT"),
        _ => None,
    }
}

/// The length of the first request or reply in `bytes`, or `None` while it is incomplete.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|end| end == b"\r\n")? + 2;
    let count = || std::str::from_utf8(&bytes[1..line - 2]).ok()?.parse::<i64>().ok();
    let len = match bytes[0] {
        b'$' => usize::try_from(count()?).map_or(line, |len| line + len + 2),
        b'*' => (0..count()?).try_fold(line, |at, _| Some(at + frame_len(bytes.get(at..)?)?))?,
        _ => line,
    };
    (len <= bytes.len()).then_some(len)
}

/// Removes the first request or reply from `bytes`, or returns `None` while it is incomplete.
pub fn take_frame(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let len = frame_len(bytes)?;
    Some(bytes.drain(..len).collect())
}

/// Adds `seconds` to a reply that begins with the seconds of a clock, as that of `TIME` does, or has the microseconds of one,
/// as that of a promotion does. Returns other replies unchanged.
pub fn shift_clock(reply: Vec<u8>, seconds: i64) -> Vec<u8> {
    let shifted_micros = || {
        let is_number = |end: &[u8]| end.starts_with(b"\r\n:") && end[3..].iter().all(u8::is_ascii_digit);
        let at = reply.windows(19).position(|end| is_number(end) && !end[3..].starts_with(b"0"))? + 3;
        let clock: i64 = std::str::from_utf8(&reply[at..at + 16]).ok()?.parse().ok()?;
        let shifted = (clock + seconds * 1_000_000).to_string();
        Some([&reply[..at], shifted.as_bytes(), &reply[at + 16..]].concat())
    };
    let shifted = || {
        // The number of elements and the length of the first one come before the seconds.
        let at = reply.windows(7).position(|end| end == b"\r\n$10\r\n")? + 7;
        let (head, rest) = (&reply[..at], reply.get(at + 10..)?);
        let clock: i64 = std::str::from_utf8(reply.get(at..at + 10)?).ok()?.parse().ok()?;
        let begins = head.starts_with(b"*") && head.len() <= 11;
        begins.then(|| [head, (clock + seconds).to_string().as_bytes(), rest].concat())
    };
    shifted().or_else(shifted_micros).unwrap_or(reply)
}

/// The reply with a cursor of another server, if it has the cursor of a scan: 40 digits that name the server, and a colon
/// (`scripts/scan.lua`).
pub fn move_cursor(reply: &[u8]) -> Option<Vec<u8>> {
    let is_cursor = |text: &[u8]| text[40] == b':' && text[..40].iter().all(u8::is_ascii_hexdigit);
    let at = reply.windows(41).position(is_cursor)?;
    let mut moved = reply.to_vec();
    moved[at..at + 40].reverse();
    Some(moved)
}

#[test]
fn requests_and_replies_are_distinguished() {
    for (bytes, len) in [
        (&b"+OK\r\n:1\r\n"[..], Some(5)),
        (b"$3\r\na\r\n\r\n", Some(9)),
        (b"$-1\r\n", Some(5)),
        (b"*2\r\n:1\r\n*1\r\n$0\r\n\r\n+", Some(18)),
        (b"*-1\r\n", Some(5)),
        (b"*2\r\n:1\r\n", None),
        (b"$3\r\nab", None),
    ] {
        assert_eq!(frame_len(bytes), len, "{bytes:?}");
    }
    assert_eq!(script(b"*2\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n"), Some(&b"abc\r"[..]));
    assert_eq!(script(b"*1\r\n$4\r\nPING\r\n"), None);
}
