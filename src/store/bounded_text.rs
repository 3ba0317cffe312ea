//! Texts that a store keeps for others, without reading them.

use bytes::Bytes;

/// A text of at most `MOST` bytes, which need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundedText<const MOST: usize>(Bytes);

impl<const MOST: usize> BoundedText<MOST> {
    /// Longest text, in bytes.
    pub const MAX_LEN: usize = MOST;

    /// `None` when the text is too long.
    #[must_use]
    pub fn new(text: impl Into<Bytes>) -> Option<Self> {
        let text = text.into();
        (text.len() <= MOST).then_some(Self(text))
    }

    /// The text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_at_most_as_long_as_its_bound() {
        assert!(BoundedText::<3>::new(vec![0; 3]).is_some());
        assert_eq!(BoundedText::<3>::new(vec![0; 4]), None);
    }
}
