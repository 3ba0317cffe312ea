//! The W3C trace context of the request that added a job: the span that the job comes from, and what tracing systems add
//! to it.
//!
//! Read as the recommendation demands (<https://www.w3.org/TR/trace-context/>): a malformed context is ignored, since a
//! fault of the tracing must never lose a job.

use std::fmt::Write;

/// The context of a span in a trace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
    state: Option<Box<str>>,
}

/// The length of a `traceparent` of version 00, in characters.
const PARENT_LEN: usize = 55;
/// The flag that says that the span was recorded, the only one that every version has.
const SAMPLED: u8 = 1;
/// Most members of a `tracestate`.
const MAX_MEMBERS: usize = 32;
/// Longest key and longest value of a member, in bytes.
const MAX_KEY: usize = 256;
const MAX_VALUE: usize = 256;
/// Members that are longer are left out first if a `tracestate` has to be shortened.
const LONG_MEMBER: usize = 128;

impl TraceContext {
    /// Longest `tracestate` that is kept, in bytes.
    pub const MAX_STATE: usize = 512;
    /// How many bytes [`encode_parent`](Self::encode_parent) returns.
    pub const PARENT_BYTES: usize = 25;

    /// Reads the two headers. `None` if `traceparent` is malformed. A malformed `tracestate` is left out; one that is
    /// longer than [`MAX_STATE`](Self::MAX_STATE) loses whole members, the long ones first, then the last.
    #[must_use]
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let (known, rest) = traceparent.split_at_checked(PARENT_LEN)?;
        let mut parts = known.split('-');
        let [version] = hex(parts.next()?)?;
        let (trace_id, span_id) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let [flags] = hex(parts.next()?)?;
        let flags = match version {
            0 if rest.is_empty() => flags,
            // Later versions begin in the same way, and mean the same by this flag.
            1..=0xfe if rest.is_empty() || rest.starts_with('-') => flags & SAMPLED,
            _ => return None,
        };
        Self::new(trace_id, span_id, flags, tracestate.and_then(parse_state))
    }

    /// `None` if an id is zero, which means that there is no trace.
    fn new(trace_id: [u8; 16], span_id: [u8; 8], flags: u8, state: Option<Box<str>>) -> Option<Self> {
        (trace_id != [0; 16] && span_id != [0; 8]).then_some(Self { trace_id, span_id, flags, state })
    }

    /// The id of the trace.
    #[must_use]
    pub fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// The id of the span.
    #[must_use]
    pub fn span_id(&self) -> [u8; 8] {
        self.span_id
    }

    /// Whether its sender records the trace.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The header `traceparent`, in version 00.
    #[must_use]
    pub fn traceparent(&self) -> String {
        let mut text = String::with_capacity(PARENT_LEN);
        text.push_str("00-");
        write_hex(&mut text, &self.trace_id);
        text.push('-');
        write_hex(&mut text, &self.span_id);
        text.push('-');
        write_hex(&mut text, &[self.flags]);
        text
    }

    /// The header `tracestate`.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The ids and the flags as they are stored: trace id, span id, flags.
    #[must_use]
    pub fn encode_parent(&self) -> [u8; Self::PARENT_BYTES] {
        let mut bytes = [self.flags; Self::PARENT_BYTES];
        bytes[..16].copy_from_slice(&self.trace_id);
        bytes[16..24].copy_from_slice(&self.span_id);
        bytes
    }

    /// Reads what is stored. `None` if the ids are malformed; a malformed state is left out.
    #[must_use]
    pub fn decode(parent: &[u8], state: Option<&[u8]>) -> Option<Self> {
        let (trace_id, rest) = parent.split_first_chunk()?;
        let (span_id, flags) = rest.split_first_chunk()?;
        let [flags] = flags else { return None };
        let text = state.and_then(|state| std::str::from_utf8(state).ok());
        let state = text.and_then(|text| parse_state(text).filter(|parsed| **parsed == *text));
        Self::new(*trace_id, *span_id, *flags, state)
    }
}

/// The members of a `tracestate`, shortened if they are too long. `None` if one is malformed, or if there are none.
fn parse_state(text: &str) -> Option<Box<str>> {
    let mut members: Vec<(&str, &str)> = Vec::new();
    let given = text.split(',').map(|member| member.trim_matches([' ', '\t']));
    for member in given.filter(|member| !member.is_empty()) {
        let (key, value) = member.split_once('=')?;
        let is_repeated = members.iter().any(|(other, _)| *other == key);
        if members.len() == MAX_MEMBERS || is_repeated || !is_key(key) || !is_value(value) {
            return None;
        }
        members.push((key, member));
    }
    let len = |members: &[(&str, &str)]| members.iter().map(|(_, member)| member.len() + 1).sum::<usize>();
    while len(&members) > TraceContext::MAX_STATE + 1 {
        let long = members.iter().rposition(|(_, member)| member.len() > LONG_MEMBER);
        members.remove(long.unwrap_or(members.len() - 1));
    }
    let members: Vec<&str> = members.into_iter().map(|(_, member)| member).collect();
    (!members.is_empty()).then(|| members.join(",").into())
}

fn is_key(key: &str) -> bool {
    let is_first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    key.len() <= MAX_KEY
        && key.bytes().next().is_some_and(is_first)
        && key.bytes().all(|byte| is_first(byte) || b"_-*/@".contains(&byte))
}

fn is_value(value: &str) -> bool {
    (1..=MAX_VALUE).contains(&value.len())
        && value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=')
}

/// The bytes that exactly these lower-case hexadecimal digits stand for.
fn hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 2 * N || !digits.bytes().all(is_digit) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip((0..N).map(|n| 2 * n)) {
        *byte = u8::from_str_radix(&digits[pair..pair + 2], 16).ok()?;
    }
    Some(bytes)
}

fn write_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a String takes any text");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn state(text: &str) -> Option<String> {
        TraceContext::parse(PARENT, Some(text)).expect("is a context").tracestate().map(str::to_owned)
    }

    #[test]
    fn a_traceparent_is_kept_as_it_was_sent() {
        for flags in ["00", "01", "02", "ff"] {
            let text = format!("{}{flags}", &PARENT[..53]);
            let context = TraceContext::parse(&text, Some("a=1")).expect("is a context");
            assert_eq!((context.traceparent(), context.tracestate()), (text, Some("a=1")));
        }
    }

    #[test]
    fn a_malformed_traceparent_is_ignored_with_its_tracestate() {
        let ids = &PARENT[2..];
        for malformed in [
            "",
            "00",
            &PARENT[..54],
            &format!("{PARENT}-"),
            &format!("{PARENT}-00"),
            &format!(" {PARENT}"),
            &format!("{PARENT} "),
            &PARENT.to_uppercase(),
            &PARENT.replace('-', "_"),
            &PARENT.replace("0af7", "0ag7"),
            &PARENT.replace("0af7", "+af7"),
            &PARENT.replace("0af7", "0ä7"),
            &PARENT.replace("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000"),
            &PARENT.replace("b7ad6b7169203331", "0000000000000000"),
            &PARENT.replace("-b7ad6b7169203331-", "b-7ad6b7169203331-"),
            &format!("ff{ids}"),
            &format!("cc{ids}.what"),
            &format!("0x{ids}"),
        ] {
            assert_eq!(TraceContext::parse(malformed, Some("a=1")), None, "{malformed:?}");
        }
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let later = |rest: &str| format!("cc{}{rest}", &PARENT[2..53]);
        for (rest, flags) in [("01", "01"), ("03", "01"), ("fe", "00"), ("01-what-will-come", "01")] {
            let context = TraceContext::parse(&later(rest), None).expect("is a context");
            assert_eq!(context.traceparent(), format!("{}{flags}", &PARENT[..53]), "{rest}");
        }
    }

    #[test]
    fn a_tracestate_keeps_its_members_in_their_order() {
        for (text, expected) in [
            ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
            (" b=2 ,\ta=1\t,, ", "b=2,a=1"),
            ("0tenant@vendor/x*_-=a:b/c ~!", "0tenant@vendor/x*_-=a:b/c ~!"),
            ("a= b", "a= b"),
        ] {
            assert_eq!(state(text).as_deref(), Some(expected), "{text:?}");
        }
        for nothing in ["", " ", ",,"] {
            assert_eq!(state(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn a_malformed_tracestate_is_left_out() {
        let many = |count: usize| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        assert_eq!(state(&many(32)), Some(many(32)));
        let (long_key, long_value) = (format!("{}=1", "k".repeat(257)), format!("a={}", "v".repeat(257)));
        for malformed in [
            "a",
            &many(33),
            &long_key,
            &long_value,
            "a=",
            "=1",
            "a =1",
            "A=1",
            "_a=1",
            "a=1=2",
            "a=1,a=2",
            "a=ä",
            "a=\u{7f}",
            "a=1\n",
            "b=2,a",
        ] {
            assert_eq!(state(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn a_tracestate_that_is_too_long_loses_whole_members() {
        let member = |key: char, len: usize| format!("{key}={}", "v".repeat(len - 2));
        let fits = [member('a', 128), member('b', 128), member('c', 128), member('d', 125)].join(",");
        assert_eq!((fits.len(), state(&fits)), (512, Some(fits.clone())));
        let last = format!("{fits},e=1");
        assert_eq!(state(&last), Some(fits.clone()), "the last is left out");
        let long = format!("{},{fits}", member('z', 129));
        assert_eq!(state(&long), Some(fits), "the long one is left out");
        let two_long = format!("{},a=1,{}", member('y', 250), member('z', 258));
        assert_eq!(state(&two_long), Some(format!("{},a=1", member('y', 250))), "the last of the long ones");
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let context = TraceContext::parse(PARENT, Some("a=1")).expect("is a context");
        let parent = context.encode_parent();
        assert_eq!(TraceContext::decode(&parent, Some(b"a=1")), Some(context.clone()));
        let bare = TraceContext { state: None, ..context };
        for malformed in [&b"\xff"[..], b"", b"a", b" a=1", b"a=1,,b=2"] {
            assert_eq!(TraceContext::decode(&parent, Some(malformed)), Some(bare.clone()), "{malformed:?}");
        }
        for malformed in [&parent[..24], &[0; 25], &[&parent[..], &[0]].concat()] {
            assert_eq!(TraceContext::decode(malformed, None), None, "{malformed:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_context_that_is_sent_on_as_it_is_kept_or_none(
            parent in prop_oneof![
                Just(PARENT.to_owned()),
                "[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.{0,9})?",
                any::<String>(),
            ],
            state in prop_oneof!["([a-c@]{1,2}=[ -~]{1,160},?){0,9}", any::<String>()],
        ) {
            let Some(context) = TraceContext::parse(&parent, Some(&state)) else { return Ok(()) };
            let kept = context.tracestate();
            prop_assert!(kept.is_none_or(|kept| (1..=TraceContext::MAX_STATE).contains(&kept.len())));
            let sent_on = TraceContext::parse(&context.traceparent(), kept);
            prop_assert_eq!(sent_on.as_ref(), Some(&context));
            let stored = TraceContext::decode(&context.encode_parent(), kept.map(str::as_bytes));
            prop_assert_eq!(stored, Some(context));
        }
    }
}
