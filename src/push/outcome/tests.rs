//! The table of answers and failures, and the outcome of each.

use proptest::prelude::*;

use super::*;

const STEP: Duration = Duration::from_secs(100);

/// Sun, 06 Nov 1994 08:49:37 GMT.
fn now() -> Timestamp {
    Timestamp::from_millis(784_111_777_000)
}

fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &[u8]) -> Result<Answer, CallFailure> {
    let headers = headers.iter().map(|(name, value)| {
        (hyper::header::HeaderName::from_static(name), hyper::header::HeaderValue::from_static(value))
    });
    let status = StatusCode::from_u16(status).expect("a status");
    Ok(Answer { status, headers: headers.collect(), body: body.to_vec() })
}

/// An answer in which a header is there twice.
fn answer_with_two(name: &'static str, status: u16) -> Result<Answer, CallFailure> {
    let mut answer = answer(status, &[(name, "10m")], b"")?;
    answer.headers.append(name, hyper::header::HeaderValue::from_static("1s"));
    Ok(answer)
}

fn judged(status: u16, headers: &[(&'static str, &'static str)]) -> Outcome {
    judge(&answer(status, headers, b""), STEP, now())
}

/// The reason and the seconds until the next attempt of a failure, and whether it means overload.
fn failed(outcome: Outcome) -> (String, u64, bool) {
    let Outcome::Fail { reason, retry_in, answered: true, overloaded, .. } = outcome else {
        panic!("{outcome:?} is no failure of an endpoint that answered")
    };
    (reason.as_str().to_owned(), retry_in.as_duration().as_secs(), overloaded)
}

#[test]
fn every_2xx_finishes_whatever_else_it_says() {
    for status in [200, 201, 202, 204, 206, 299] {
        assert_eq!(
            judged(status, &[("linger-retry", "no"), ("retry-after", "5")]),
            Outcome::Finish,
            "{status}"
        );
    }
}

#[test]
fn everything_else_fails() {
    for (status, overloaded) in [
        (101, false),
        (300, false),
        (302, false),
        (304, false),
        (400, false),
        (401, false),
        (404, false),
        (408, false),
        (429, true),
        (500, false),
        (501, false),
        (502, true),
        (503, true),
        (504, true),
        (599, false),
        (999, false),
    ] {
        assert_eq!(failed(judged(status, &[])), (format!("http_{status}"), 100, overloaded));
    }
}

#[test]
fn gone_and_a_refused_retry_are_dead_letters() {
    for (status, headers) in [
        (410, &[][..]),
        (410, &[("linger-retry", "1s")]),
        (500, &[("linger-retry", "no")]),
        (302, &[("linger-retry", "no")]),
    ] {
        let Outcome::Bury { reason } = judged(status, headers) else { panic!("{status} {headers:?}") };
        assert_eq!(reason.as_str(), format!("http_{status}"));
    }
}

#[test]
fn an_endpoint_may_hold_a_job() {
    for (text, seconds) in [
        ("10m", 600),
        ("1", 1),
        ("24h", 86_400),
        ("PT15M", 900),
        (" 5s ", 5),
        ("30d", 2_592_000),
        ("31d", 2_592_000),
        ("999999999999d", 2_592_000),
        ("99999999999999999999999999", 2_592_000),
    ] {
        let Outcome::Hold { ttr } = judged(202, &[("linger-hold", text)]) else { panic!("{text}") };
        assert_eq!(ttr.as_duration().as_secs(), seconds, "{text}");
    }
    for text in ["", "soon", "0", "-1s", "no", "1s, 2s"] {
        let (reason, ..) = failed(judged(200, &[("linger-hold", text)]));
        assert_eq!(reason, "bad_answer: cannot read the header linger-hold", "{text}");
    }
    let twice = judge(&answer_with_two("linger-hold", 200), STEP, now());
    assert_eq!(failed(twice).0, "bad_answer: more than one header linger-hold");
    assert_eq!(failed(judged(500, &[("linger-hold", "soon")])).0, "http_500");
}

#[test]
fn an_endpoint_may_set_the_next_attempt() {
    for (text, seconds) in [("5m", 300), ("0", 0), ("1s", 1), ("48h", 86_400), ("1000000d", 86_400)] {
        let headers = [("linger-retry", text), ("retry-after", "7000")];
        assert_eq!(failed(judged(500, &headers)).1, seconds, "{text}");
    }
    for text in ["", "never", "No"] {
        let (reason, seconds, overloaded) = failed(judged(503, &[("linger-retry", text)]));
        assert_eq!(
            (reason.as_str(), seconds),
            ("bad_answer: cannot read the header linger-retry", 100),
            "{text}"
        );
        assert!(overloaded);
    }
    let twice = judge(&answer_with_two("linger-retry", 503), STEP, now());
    let expected = ("bad_answer: more than one header linger-retry".to_owned(), 100, true);
    assert_eq!(failed(twice), expected);
}

#[test]
fn retry_after_only_makes_the_wait_longer_up_to_the_limit() {
    for (text, seconds) in [
        ("99", 100),
        ("100", 100),
        ("101", 101),
        (" 200 ", 200),
        ("86401", 86_400),
        ("99999999999999999999999999", 86_400),
        ("Sun, 06 Nov 1994 08:54:37 GMT", 300),
        ("Sunday, 06-Nov-94 08:54:37 GMT", 300),
        ("Sun Nov  6 08:54:37 1994", 300),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 100),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
        ("", 100),
        ("-5", 100),
        ("+500", 100),
        ("500.5", 100),
        ("500s", 100),
        ("tomorrow", 100),
    ] {
        assert_eq!(failed(judged(500, &[("retry-after", text)])).1, seconds, "{text}");
    }
}

#[test]
fn an_overloaded_endpoint_rests_for_a_minute_at_most() {
    let rest = |status, text| match judged(status, &[("retry-after", text)]) {
        Outcome::Fail { rest, .. } => rest.map(|rest| rest.as_secs()),
        other => panic!("{other:?}"),
    };
    assert_eq!([rest(429, "5"), rest(503, "5"), rest(503, "3600")], [Some(5), Some(5), Some(60)]);
    assert_eq!([rest(500, "5"), rest(502, "5"), rest(301, "5"), rest(503, "x")], [None; 4]);
}

#[test]
fn without_an_answer_the_reason_begins_with_the_word_of_the_failure() {
    let text = || "x\ny".to_owned();
    for (failure, expected) in [
        (CallFailure::Dns(text()), "dns: x y"),
        (
            CallFailure::AddressRefused { key: "callbacks.allow_networks" },
            "address_refused: forbidden by the setting callbacks.allow_networks",
        ),
        (CallFailure::Connect(text()), "connect: x y"),
        (CallFailure::ConnectTimeout, "connect_timeout: not connected in time"),
        (CallFailure::Tls(text()), "tls: x y"),
        (CallFailure::Timeout, "timeout: no answer in time"),
        (CallFailure::Reset, "reset: the connection ended before the answer"),
        (CallFailure::BadAnswer(text()), "bad_answer: x y"),
    ] {
        let outcome = judge(&Err(failure), STEP, now());
        let Outcome::Fail { reason, retry_in, answered: false, overloaded: true, rest: None } = outcome
        else {
            panic!("{outcome:?}")
        };
        assert_eq!((reason.as_str(), retry_in.as_duration()), (expected, STEP));
    }
}

#[test]
fn the_reason_has_the_beginning_of_the_answer() {
    let reason = |body: &[u8]| failed(judge(&answer(500, &[], body), STEP, now())).0;
    assert_eq!(reason(b"out of stock"), "http_500: out of stock");
    assert_eq!(reason(b"\r\n <p>\x1b[31mno\x00 </p>\n"), "http_500: <p> [31mno  </p>");
    assert_eq!(reason(&[b'x'; 512]), format!("http_500: {}", "x".repeat(512)));
    assert_eq!(reason(b"Ung\xfcltige Bestellung"), "http_500: Ung\u{fffd}ltige Bestellung");
    assert_eq!(reason(&"\u{20ac}".repeat(171).as_bytes()[..512]).matches('\u{20ac}').count(), 170);
    let moved = judge(&answer(307, &[("location", "https://b.example/x")], b"Moved"), STEP, now());
    assert_eq!(failed(moved).0, "http_307: not followed to https://b.example/x");
}

#[test]
fn a_body_that_is_no_text_is_described() {
    let reason = |headers: &[(&'static str, &'static str)], body: &[u8]| {
        failed(judge(&answer(500, headers, body), STEP, now())).0
    };
    let gzip = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\x2a\x2d\x4a\x04\x00";
    let gzip_headers = [("content-encoding", "gzip"), ("content-length", "65")];
    assert_eq!(reason(&gzip_headers, gzip), "http_500: a body of 65 bytes, encoded as gzip");
    assert_eq!(reason(&gzip_headers[..1], gzip), "http_500: a body, encoded as gzip");
    assert_eq!(reason(&[("content-encoding", "identity")], b"no stock"), "http_500: no stock");
    assert_eq!(reason(&gzip_headers[..1], b""), "http_500");
    assert_eq!(reason(&[("content-length", "16")], gzip), "http_500: a body of 16 bytes, not text");
    for body in [&[0xff; 512][..], b"n\0o\0 \0s\0t\0o\0c\0k\0", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"] {
        assert_eq!(reason(&[], body), "http_500: a body, not text", "{body:?}");
    }
}

proptest! {
    #[test]
    fn any_body_and_any_header_give_a_reason_that_can_be_stored(
        status in 300u16..1_000,
        body in prop::collection::vec(any::<u8>(), 0..=512),
        value in prop::collection::vec(any::<u8>(), 0..600),
        name in prop::sample::select(vec!["location", "linger-retry", "retry-after"]),
    ) {
        let Ok(value) = hyper::header::HeaderValue::from_bytes(&value) else { return Ok(()) };
        let mut answer = answer(status, &[], &body).expect("an answer");
        answer.headers.insert(name, value);
        let (reason, wait) = match judge(&Ok(answer), STEP, now()) {
            Outcome::Fail { reason, retry_in, .. } => (reason, retry_in.as_duration()),
            Outcome::Bury { reason } => (reason, STEP),
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
        prop_assert!(reason.as_str().len() <= Reason::MAX_LEN && !reason.as_str().contains(char::is_control));
        prop_assert!(wait <= MAX_RETRY_AFTER);
    }
}
