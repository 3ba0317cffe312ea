//! Names of any bytes as ids and topics, which have an alphabet, and back.
//!
//! A byte outside the alphabet becomes a mark and two upper-case hexadecimal digits: `=20` in ids, `:20` in topics. A mark of
//! the name itself becomes such an escape only where it would be read as one. So each of our names stands for exactly one
//! name of an old client, and the other way round: an old client can name every native job.
//!
//! `.` and `..`, which no URL can name, become `=2E` and `=2E.`.

use crate::job::{JobId, NameError, Topic};

/// The id that stands for a name.
///
/// # Errors
/// [`NameError`] if the name is empty, or too long.
pub fn id_of(name: &[u8]) -> Result<JobId, NameError> {
    JobId::parse(&Escapes { mark: b'=', extra: b"._~:@+=-" }.escaped(name))
}

/// The name that `id` stands for.
#[must_use]
pub fn name_of_id(id: &JobId) -> Vec<u8> {
    Escapes { mark: b'=', extra: b"._~:@+=-" }.unescaped(id.as_str().as_bytes())
}

/// The topic that stands for a name.
///
/// # Errors
/// [`NameError`] if the name is empty, or too long.
pub fn topic_of(name: &[u8]) -> Result<Topic, NameError> {
    Topic::parse(&Escapes { mark: b':', extra: b"._:-" }.escaped(name))
}

/// The name that `topic` stands for.
#[must_use]
pub fn name_of_topic(topic: &Topic) -> Vec<u8> {
    Escapes { mark: b':', extra: b"._:-" }.unescaped(topic.as_str().as_bytes())
}

/// How one kind of name is escaped.
struct Escapes {
    /// Begins an escape. Is in the alphabet.
    mark: u8,
    /// The alphabet besides letters and digits.
    extra: &'static [u8],
}

impl Escapes {
    fn escaped(&self, name: &[u8]) -> String {
        let is_dots = matches!(name, b"." | b"..");
        let mut text = String::with_capacity(name.len());
        for (at, &byte) in name.iter().enumerate() {
            let stays = if byte == self.mark {
                self.escape_at(name, at).is_none()
            } else {
                self.is_in_alphabet(byte) && !(is_dots && at == 0)
            };
            if stays {
                text.push(char::from(byte));
            } else {
                text.push(char::from(self.mark));
                text.push_str(&format!("{byte:02X}"));
            }
        }
        text
    }

    fn unescaped(&self, text: &[u8]) -> Vec<u8> {
        let (mut name, mut at) = (Vec::with_capacity(text.len()), 0);
        while let Some(&byte) = text.get(at) {
            let escape = self.escape_at(text, at);
            name.push(escape.unwrap_or(byte));
            at += if escape.is_some() { 3 } else { 1 };
        }
        name
    }

    /// The byte of the escape that begins at this place. Digits that no name needs as an escape are none: `a=42` is an id of
    /// its own, because `B` is in the alphabet.
    fn escape_at(&self, text: &[u8], at: usize) -> Option<u8> {
        if text[at] != self.mark {
            return None;
        }
        // An escaped mark is one only before digits that would make an escape of the mark alone, of which there may be many.
        let mut digits = at + 1;
        let first = hex(text.get(digits..digits + 2)?)?;
        let mut byte = first;
        while byte == self.mark {
            digits += 2;
            byte = hex(text.get(digits..digits + 2)?)?;
        }
        let is_dots = at == 0 && byte == b'.' && matches!(&text[digits + 2..], b"" | b".");
        (is_dots || !self.is_in_alphabet(byte)).then_some(first)
    }

    fn is_in_alphabet(&self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric() || self.extra.contains(&byte)
    }
}

/// The byte of two upper-case hexadecimal digits.
fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    match digits {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_escaped_only_where_they_must_be() {
        for (name, id) in [
            ("15702398321", "15702398321"),
            ("a b", "a=20b"),
            ("订单", "=E8=AE=A2=E5=8D=95"),
            ("a/b?", "a=2Fb=3F"),
            ("user=42", "user=42"),
            ("user=20", "user=3D20"),
            ("=3D20", "=3D3D20"),
            ("=3D42", "=3D42"),
            ("a=e8", "a=e8"),
            ("a=", "a="),
            ("a==FF", "a==3DFF"),
            (".", "=2E"),
            ("..", "=2E."),
            ("...", "..."),
            ("=2E", "=3D2E"),
            ("=2E.", "=3D2E."),
            ("a=2E", "a=2E"),
            ("\n", "=0A"),
        ] {
            assert_eq!(id_of(name.as_bytes()).expect("is short").as_str(), id);
            assert_eq!(name_of_id(&JobId::parse(id).expect("is an id")), name.as_bytes());
        }
        for (name, topic) in
            [("a b", "a:20b"), ("orders:new", "orders:new"), ("a:20", "a:3A20"), ("a+b=", "a:2Bb:3D")]
        {
            assert_eq!(topic_of(name.as_bytes()).expect("is short").as_str(), topic);
            assert_eq!(name_of_topic(&Topic::parse(topic).expect("is a topic")), name.as_bytes());
        }
    }

    #[test]
    fn names_that_are_empty_or_too_long_are_refused() {
        assert_eq!(id_of(b""), Err(NameError::Empty));
        assert!(id_of(&[b'x'; 255]).is_ok());
        assert!(matches!(id_of(&[b' '; 86]), Err(NameError::TooLong { limit: 255, got: 258 })));
        assert!(matches!(topic_of(&[b' '; 43]), Err(NameError::TooLong { limit: 128, got: 129 })));
    }

    proptest! {
        #[test]
        fn names_come_back(name in proptest::collection::vec(any::<u8>(), 1..40)) {
            prop_assert_eq!(name_of_id(&id_of(&name).expect("is short")), name.clone());
            prop_assert_eq!(name_of_topic(&topic_of(&name).expect("is short")), name);
        }

        #[test]
        fn names_of_marks_and_digits_come_back(name in "[.=:23ADEF ]{1,12}") {
            prop_assert_eq!(name_of_id(&id_of(name.as_bytes()).expect("is short")), name.as_bytes());
            prop_assert_eq!(name_of_topic(&topic_of(name.as_bytes()).expect("is short")), name.as_bytes());
        }

        #[test]
        fn every_native_name_can_be_named(name in "[.=:23ADEFx]{1,12}") {
            let (id, topic) = (JobId::parse(&name), Topic::parse(&name));
            prop_assert_eq!(id.clone().map(|id| id_of(&name_of_id(&id)).expect("is short")), id);
            prop_assert_eq!(topic.clone().map(|topic| topic_of(&name_of_topic(&topic)).expect("is short")), topic);
        }
    }
}
