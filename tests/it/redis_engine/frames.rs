//! Requests and answers on the wire, as the proxy tells them apart.

/// What names the script that a request runs; a walk over keys, and a wait for replicas, count as one.
pub fn script(request: &[u8]) -> Option<&[u8]> {
    let mut words = request.split(|byte| *byte == b'\n').skip(2).step_by(2);
    match words.next()?.strip_suffix(b"\r")? {
        b"EVALSHA" | b"EVAL" => words.next(),
        b"SCAN" => Some(b"SCAN"),
        b"WAIT" => Some(b"WAIT"),
        _ => None,
    }
}

/// How long the first request or answer in `bytes` is, once it is whole.
fn frame(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|end| end == b"\r\n")? + 2;
    let count = || std::str::from_utf8(&bytes[1..line - 2]).ok()?.parse::<i64>().ok();
    let len = match bytes[0] {
        b'$' => usize::try_from(count()?).map_or(line, |len| line + len + 2),
        b'*' => (0..count()?).try_fold(line, |at, _| Some(at + frame(bytes.get(at..)?)?))?,
        _ => line,
    };
    (len <= bytes.len()).then_some(len)
}

/// Takes the first request or answer, once it is whole.
pub fn take_frame(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let len = frame(bytes)?;
    Some(bytes.drain(..len).collect())
}

/// An answer that begins with the seconds of a clock, changed by so many; others as they are.
pub fn later(answer: Vec<u8>, seconds: i64) -> Vec<u8> {
    let told = || {
        // Behind how many parts there are, and how long the first is.
        let at = answer.windows(7).position(|end| end == b"\r\n$10\r\n")? + 7;
        let (head, rest) = (&answer[..at], answer.get(at + 10..)?);
        let clock: i64 = std::str::from_utf8(answer.get(at..at + 10)?).ok()?.parse().ok()?;
        let begins = head.starts_with(b"*") && head.len() <= 11;
        begins.then(|| [head, (clock + seconds).to_string().as_bytes(), rest].concat())
    };
    told().unwrap_or(answer)
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
        assert_eq!(frame(bytes), len, "{bytes:?}");
    }
    assert_eq!(script(b"*2\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n"), Some(&b"abc\r"[..]));
    assert_eq!(script(b"*1\r\n$4\r\nPING\r\n"), None);
}
