//! Finds half of a surrogate pair among the escapes of a JSON text.
//!
//! RFC 8259 allows `"\ud800"`, which is not a Unicode character. Parsers in many languages refuse it, and with it the
//! whole document (RFC 7493, 2.1).

/// The JSON Pointer (RFC 6901) of the first string in `json` with half of a pair, or of the object with such a name.
/// `json` must be valid JSON.
pub(super) fn find_lone(json: &[u8]) -> Option<String> {
    // Few bodies have escapes, and fewer have such escapes. This check is fast, many bytes at a time.
    let suspicious = |window: &[u8]| matches!(window, [b'\\', b'u', b'd' | b'D']);
    let may_have = json.contains(&b'\\') && json.windows(3).any(suspicious);
    may_have.then(|| Scanner::new(json).first_lone()).flatten()
}

/// An array or object that encloses the current position.
enum Container<'a> {
    List {
        index: usize,
    },
    /// `name` is the last name, with its escapes; `None` before the first.
    Object {
        name: Option<&'a [u8]>,
        expects_name: bool,
    },
}

struct Scanner<'a> {
    json: &'a [u8],
    position: usize,
    /// From the outermost to the innermost.
    containers: Vec<Container<'a>>,
}

impl<'a> Scanner<'a> {
    fn new(json: &'a [u8]) -> Self {
        Self { json, position: 0, containers: Vec::new() }
    }

    fn first_lone(mut self) -> Option<String> {
        while let Some(byte) = self.json.get(self.position) {
            self.position += 1;
            match byte {
                b'[' => self.containers.push(Container::List { index: 0 }),
                b'{' => self.containers.push(Container::Object { name: None, expects_name: true }),
                b']' | b'}' => drop(self.containers.pop()),
                b',' => match self.containers.last_mut() {
                    Some(Container::List { index }) => *index += 1,
                    Some(Container::Object { expects_name, .. }) => *expects_name = true,
                    None => {}
                },
                b':' => {
                    if let Some(Container::Object { expects_name, .. }) = self.containers.last_mut() {
                        *expects_name = false;
                    }
                }
                b'"' if self.skip_string() => return Some(self.pointer()),
                _ => {}
            }
        }
        None
    }

    /// Skips the string that begins here, and remembers it if it is a name. Returns whether it contains half of a pair.
    fn skip_string(&mut self) -> bool {
        let from = self.position;
        while let Some(byte) = self.json.get(self.position)
            && *byte != b'"'
        {
            self.position += if *byte == b'\\' { 2 } else { 1 };
        }
        let string = self.json.get(from..self.position).unwrap_or_default();
        self.position += 1;
        let lone = has_lone(string);
        match self.containers.last_mut() {
            Some(Container::Object { expects_name: true, .. }) if lone => {
                // A pointer cannot contain such a name, so it points at the object.
                self.containers.pop();
            }
            Some(Container::Object { name, expects_name: true }) => *name = Some(string),
            Some(_) | None => {}
        }
        lone
    }

    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for container in &self.containers {
            pointer.push('/');
            match container {
                Container::List { index } => pointer.push_str(&index.to_string()),
                Container::Object { name, .. } => {
                    pointer
                        .push_str(&unescape(name.unwrap_or_default()).replace('~', "~0").replace('/', "~1"));
                }
            }
        }
        pointer
    }
}

/// Decodes the escapes of a name.
fn unescape(name: &[u8]) -> String {
    serde_json::from_slice(&[b"\"", name, b"\""].concat()).unwrap_or_default()
}

/// Whether the content of a JSON string has an escape of half a surrogate pair without the other half.
fn has_lone(string: &[u8]) -> bool {
    let mut at = 0;
    while let Some(byte) = string.get(at) {
        if *byte != b'\\' {
            at += 1;
            continue;
        }
        match code_unit(string, at) {
            Some(0xD800..=0xDBFF) if matches!(code_unit(string, at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => return true,
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    false
}

/// The UTF-16 code unit of the escape at `at`, if there is one.
fn code_unit(string: &[u8], at: usize) -> Option<u16> {
    let digits = string.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn points_at_the_first_half_of_a_pair() {
        for (json, pointer) in [
            (r#""\ud800""#, ""),
            (r#"  "a\uDFFFb" "#, ""),
            (r#"["\ud83d\ude00", "\ud83d"]"#, "/1"),
            (r#"{"a":[1,{"b":"\ude00\ud83d"}]}"#, "/a/1/b"),
            (r#"{"ok":1,"\udc00":2}"#, ""),
            (r#"[0,{"a":{"\udc00":2}}]"#, "/1/a"),
            (r#"{"a":["x",["y"]],"b":"\ud800"}"#, "/b"),
            (r#"{"a/b":{"~":"\ud800x"}}"#, "/a~1b/~0"),
            (r#"{"\u00e9":"\ud800"}"#, "/é"),
            (r#"["\\ud800","\\\ud800"]"#, "/1"),
            (r#""\ud800\n""#, ""),
            (r#""\ud800\u0041""#, ""),
            (r#""\ud800\ud800\udc00""#, ""),
        ] {
            assert_eq!(find_lone(json.as_bytes()).as_deref(), Some(pointer), "{json}");
        }
        for json in [r#"["\ud83d\ude00","\uD83D\uDE00"]"#, r#""\\ud800""#, r#"{"\\udead":"\\\\ud800"}"#, "1"]
        {
            assert_eq!(find_lone(json.as_bytes()), None, "{json}");
        }
    }

    proptest! {
        /// serde_json refuses exactly those strings.
        #[test]
        fn agrees_with_a_strict_reader(inside in "(\\\\u[dD][89abcdefABCDEF01][0-9a-f]{2}|\\\\\\\\|\\\\n|\\\\u0041|u|d|a|[\\[\\]{},:]){0,8}") {
            let json = format!("\"{inside}\"");
            let strict = serde_json::from_str::<String>(&json);
            prop_assert_eq!(find_lone(json.as_bytes()).is_some(), strict.is_err(), "{}", json);
            let nested = format!("{{\"k\":[0,{json}]}}");
            let found = find_lone(nested.as_bytes());
            prop_assert_eq!(found.as_deref(), strict.is_err().then_some("/k/1"));
        }
    }
}
