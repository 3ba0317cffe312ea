//! Recognises files of another kind than expected by their first bytes, so that an error can say what they are. Does not know
//! which command reads them.

/// What some editors put before text; JSON has none.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// How files begin, and what they are. What a reader accepts it does not ask about.
const KINDS: [(&[u8], &str); 9] = [
    (b"\x1f\x8b", "it is compressed; decompress it first, as by gunzip"),
    (b"\x28\xb5\x2f\xfd", "it is compressed; decompress it first, as by unzstd"),
    (b"\xfd7zXZ", "it is compressed; decompress it first, as by unxz"),
    (b"BZh", "it is compressed; decompress it first, as by bunzip2"),
    (b"PK\x03\x04", "it is an archive; unzip it first"),
    (b"\xff\xfe", UTF_16),
    (b"\xfe\xff", UTF_16),
    (b"SQLite format 3\0", "it is a backup, which `linger restore` takes"),
    (b"{\"linger_export\":", "it is an export, which `linger import` takes"),
];

const UTF_16: &str = "it is UTF-16 text; convert it first, as by iconv -f UTF-16 -t UTF-8";

/// What a file is that begins so, and what to do with it; none if that is not known.
pub(crate) fn recognise(beginning: &[u8]) -> Option<&'static str> {
    KINDS.iter().find(|(begins, _)| beginning.starts_with(begins)).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_begins_in_a_known_way_is_recognised() {
        assert!(recognise(b"\x1f\x8b\x08\0").is_some_and(|kind| kind.ends_with("gunzip")));
        assert!(recognise(b"\xff\xfe{\0").is_some_and(|kind| kind.contains("UTF-16")));
        for other in [&b""[..], b"\x1f", b"{\"topic\":\"t\"}", b"\xef\xbb\xbf{}"] {
            assert_eq!(recognise(other), None, "{other:?}");
        }
    }
}
