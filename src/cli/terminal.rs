//! The terminal that stdout is, if it is one: its size and its colours. Knows no command.

use std::io::{IsTerminal, stdout};

use rustix::termios::tcgetwinsize;

use super::text::shortened;

/// Columns of text that is printed into a pipe or a file.
const COLUMNS: usize = 80;

/// Columns and rows; none if stdout is no terminal, or does not tell them.
pub(super) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Whether stdout is a terminal.
pub(super) fn is_there() -> bool {
    stdout().is_terminal()
}

/// Whether a terminal may show colours.
pub(super) fn has_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// How many columns a line of output may have.
pub(super) fn columns() -> usize {
    size().map_or(COLUMNS, |(columns, _)| columns.into())
}

/// Lines as they are, or cut to the width of the terminal that they go to.
pub(super) fn fitted(text: &str) -> String {
    match size() {
        Some((columns, _)) => {
            text.lines().map(|line| shortened(line, columns.into())).collect::<Vec<_>>().join("\n")
        }
        None => text.to_owned(),
    }
}
