//! Makes untrusted text safe to print: escapes what a terminal would execute rather than display. Does not know where
//! the text comes from.

use std::borrow::Cow;

/// Escapes text within a line: control characters (`\u{1b}`) including line breaks, and the characters that change the
/// direction of text.
pub(crate) fn escape_line(text: &str) -> Cow<'_, str> {
    escape(text, is_unsafe)
}

/// Escapes several lines: as [`escape_line`], but keeps line breaks and tabs.
pub(crate) fn escape_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_unsafe(c) && !matches!(c, '\n' | '\t'))
}

fn escape(text: &str, must_escape: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&must_escape) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if must_escape(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Control characters (Unicode category Cc), line separators and direction marks, with which text can look different
/// from what it is.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape_line("a\u{1b}[2Jb\r\nc\u{9b}\u{7f}"), "a\\u{1b}[2Jb\\r\\nc\\u{9b}\\u{7f}");
        assert_eq!(escape_line("abc\u{202e}txt"), "abc\\u{202e}txt");
        assert_eq!(escape_lines("one\n\ttwo\u{1b}c\r"), "one\n\ttwo\\u{1b}c\\r");
    }

    #[test]
    fn other_text_is_unchanged() {
        for text in ["", "plain \\ \"quoted\" 'text'", "größer 日本 🙂"] {
            assert!(matches!(escape_line(text), Cow::Borrowed(same) if same == text));
        }
    }
}
