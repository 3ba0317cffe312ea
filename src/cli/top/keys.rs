//! Which key asks for which action, by the bytes that a terminal sends for it.

use std::mem::take;

use super::state::Action;

const ESCAPE: u8 = 0x1b;
/// More bytes than a sequence of a key has.
const LONGEST_SEQUENCE: usize = 16;

/// Turns bytes into actions.
#[derive(Debug, Default)]
pub(super) struct KeyParser {
    /// What came so far of a sequence of several bytes.
    sequence: Vec<u8>,
}

impl KeyParser {
    /// The action that the next byte completes, if it does.
    pub fn action(&mut self, byte: u8) -> Option<Action> {
        if byte == ESCAPE {
            self.sequence = vec![byte];
            return None;
        }
        let is_begun = match self.sequence.len() {
            0 => return of_character(byte),
            1 if matches!(byte, b'[' | b'O') => true,
            // The key Escape, and then another one.
            1 => return self.sequence.pop().and_then(|_| of_character(byte)),
            length => matches!(byte, b' '..=b'?') && length < LONGEST_SEQUENCE,
        };
        self.sequence.push(byte);
        if is_begun { None } else { of_sequence(&take(&mut self.sequence)) }
    }
}

fn of_character(character: u8) -> Option<Action> {
    match character {
        b'q' => Some(Action::Quit),
        b's' => Some(Action::NextSort),
        b'r' => Some(Action::ReadNow),
        b'h' | b'?' => Some(Action::Help),
        b'k' => Some(Action::Up),
        b'j' => Some(Action::Down),
        b' ' => Some(Action::PageDown),
        _ => None,
    }
}

/// The sequences of xterm, rxvt and the console of Linux.
fn of_sequence(sequence: &[u8]) -> Option<Action> {
    match sequence {
        b"\x1b[A" | b"\x1bOA" => Some(Action::Up),
        b"\x1b[B" | b"\x1bOB" => Some(Action::Down),
        b"\x1b[5~" => Some(Action::PageUp),
        b"\x1b[6~" => Some(Action::PageDown),
        b"\x1b[H" | b"\x1bOH" | b"\x1b[1~" | b"\x1b[7~" => Some(Action::Home),
        b"\x1b[F" | b"\x1bOF" | b"\x1b[4~" | b"\x1b[8~" => Some(Action::End),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(typed: &[u8]) -> Vec<Action> {
        let mut keys = KeyParser::default();
        typed.iter().filter_map(|byte| keys.action(*byte)).collect()
    }

    #[test]
    fn keys_mean_what_the_help_says() {
        use Action::{Down, End, Help, Home, NextSort, PageDown, PageUp, Quit, ReadNow, Up};
        assert_eq!(actions(b"qsrh?kj "), [Quit, NextSort, ReadNow, Help, Help, Up, Down, PageDown]);
        assert_eq!(actions(b"\x1b[A\x1bOA\x1b[B\x1bOB"), [Up, Up, Down, Down]);
        assert_eq!(actions(b"\x1b[5~\x1b[6~"), [PageUp, PageDown]);
        assert_eq!(actions(b"\x1b[H\x1bOH\x1b[1~\x1b[7~"), [Home; 4]);
        assert_eq!(actions(b"\x1b[F\x1bOF\x1b[4~\x1b[8~"), [End; 4]);
        // Other keys mean nothing: Delete, Ctrl-Up, Enter, capitals, a letter of several bytes.
        assert!(actions("\x1b[3~\x1b[1;5A\rQSRHKJö".as_bytes()).is_empty());
    }

    #[test]
    fn a_key_after_the_key_escape_or_after_a_sequence_that_is_cut_off_counts() {
        assert_eq!(actions(b"\x1bq"), [Action::Quit]);
        assert_eq!(actions(b"\x1b\x1b[A"), [Action::Up]);
        assert_eq!(actions(b"\x1b[1;\x1b[B"), [Action::Down]);
        let endless = [b"\x1b[".as_slice(), &[b'1'; 100], b"q"].concat();
        assert_eq!(actions(&endless), [Action::Quit]);
    }
}
