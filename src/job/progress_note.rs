//! A worker's note: how far it is with a job, and its stored form.

use super::{Attributes, Tag, Timestamp};

const TIMESTAMP_BYTES: usize = 6;

/// What a worker says of its progress: 1 to [`NoteText::MAX_LEN`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NoteText(Box<str>);

impl NoteText {
    /// Longest note, in bytes.
    pub const MAX_LEN: usize = 256;

    /// Accepts `text` of 1 to [`NoteText::MAX_LEN`] bytes.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        (1..=Self::MAX_LEN).contains(&text.len()).then(|| Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A note as the job has it. It outlives the reservation, so that the next attempt can resume there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProgressNote {
    /// When a worker set it.
    pub at: Timestamp,
    /// What it says.
    pub text: NoteText,
}

impl Attributes {
    /// The note; `None` when there is none, or when it is malformed.
    #[must_use]
    pub fn progress_note(&self) -> Option<ProgressNote> {
        let (moment, text) = self.get(Tag::NOTE)?.split_first_chunk::<TIMESTAMP_BYTES>()?;
        let ms = moment.iter().fold(0, |ms, byte| ms << 8 | i64::from(*byte));
        let text = NoteText::new(std::str::from_utf8(text).ok()?)?;
        Some(ProgressNote { at: Timestamp::from_millis(ms), text })
    }

    /// Sets or removes the note.
    pub fn set_progress_note(&mut self, note: Option<&ProgressNote>) {
        let encode = |ProgressNote { at, text }: &ProgressNote| {
            let moment = at.as_millis().to_be_bytes();
            [&moment[8 - TIMESTAMP_BYTES..], text.as_str().as_bytes()].concat()
        };
        self.set(Tag::NOTE, note.map(encode).as_deref());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_note_has_1_to_256_bytes() {
        let longest = "é".repeat(128);
        assert_eq!(NoteText::new(&longest).expect("fits").as_str(), longest);
        assert_eq!([NoteText::new(""), NoteText::new(&format!("{longest}x"))], [None, None]);
    }

    #[test]
    fn the_bytes_are_as_documented() {
        let mut attributes = Attributes::default();
        let text = NoteText::new("3 of 7").expect("valid");
        attributes.set_progress_note(Some(&ProgressNote { at: Timestamp::from_millis(258), text }));
        assert_eq!(attributes.as_bytes(), b"\x12\0\x0c\0\0\0\0\x01\x023 of 7");
        attributes.set_progress_note(None);
        assert!(attributes.is_empty());
    }

    #[test]
    fn a_malformed_note_is_none_and_stays() {
        for value in [&b""[..], b"\0\0\0\0\0\x01", b"\0\0\0\0\0\x01\xff", &[b'x'; 263]] {
            let mut attributes = Attributes::default();
            attributes.set(Tag::NOTE, Some(value));
            assert_eq!(
                (attributes.progress_note(), attributes.get(Tag::NOTE)),
                (None, Some(value)),
                "{value:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn notes_read_back(ms in 0i64..=253_402_207_199_999, text in "\\PC{1,60}") {
            let text = NoteText::new(&text).expect("at most 240 bytes");
            let note = ProgressNote { at: Timestamp::from_millis(ms), text };
            let mut attributes = Attributes::default();
            attributes.set_progress_note(Some(&note));
            prop_assert_eq!(attributes.progress_note(), Some(note));
        }
    }
}
