//! Text from elsewhere, made safe to print: what a terminal would obey instead of showing is escaped. Knows nothing
//! of where the text comes from.

use std::borrow::Cow;

/// `text` for a part of a line: control characters are escaped (`\u{1b}`), line breaks among them, and so are the
/// characters that change the direction of text.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_obeyed)
}

/// `text` for whole lines: as [`line`], but line breaks and tabs stay.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_obeyed(c) && !matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, must_be: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&must_be) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if must_be(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Control characters (Unicode's category Cc), and line separators and marks of direction, with which text can show
/// as something other than it is.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        assert_eq!(line("a\u{1b}[2Jb\r\nc\u{9b}\u{7f}"), "a\\u{1b}[2Jb\\r\\nc\\u{9b}\\u{7f}");
        assert_eq!(line("abc\u{202e}txt"), "abc\\u{202e}txt");
        assert_eq!(lines("one\n\ttwo\u{1b}c\r"), "one\n\ttwo\\u{1b}c\\r");
    }

    #[test]
    fn all_else_stays_as_it_is() {
        for text in ["", "plain \\ \"quoted\" 'text'", "größer 日本 🙂"] {
            assert!(matches!(line(text), Cow::Borrowed(same) if same == text));
        }
    }
}
