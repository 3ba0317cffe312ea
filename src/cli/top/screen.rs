//! The terminal while `linger top` has it: the alternate screen without echo, and given back however the command ends.

use std::{
    io::{self, Stdout, stdout},
    mem::{ManuallyDrop, replace},
    panic,
};

use ratatui::{
    Frame, Terminal, TerminalOptions, Viewport,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        execute,
        terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen},
        terminal::{disable_raw_mode, enable_raw_mode},
    },
    layout::Rect,
};

use crate::cli::terminal;

/// The size of a terminal that does not tell it.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// The terminal; given back when dropped, and at a panic.
pub(super) struct Screen {
    /// Its drop shows the cursor, and panics if that fails and stderr is the same closed terminal.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    size: (u16, u16),
}

impl Screen {
    pub fn open() -> io::Result<Self> {
        // The message of a panic would be lost with the alternate screen.
        let print_panic = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            give_back();
            print_panic(panic);
        }));
        let size = size();
        let opened = enable_raw_mode().and_then(|()| {
            execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All))?;
            terminal_of(size)
        });
        opened
            .map(|terminal| Self { terminal: ManuallyDrop::new(terminal), size })
            .inspect_err(|_| give_back())
    }

    /// Draws anew, in the size that the terminal has by now.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let size = size();
        if size != self.size {
            // The terminal's own way to do this asks it for the position of the cursor, and the answer could be
            // taken for keys.
            execute!(stdout(), Clear(ClearType::All))?;
            let new = ManuallyDrop::new(terminal_of(size)?);
            drop(ManuallyDrop::into_inner(replace(&mut self.terminal, new)));
            self.size = size;
        }
        self.terminal.draw(draw).map(drop)
    }

    /// How many lines there are.
    pub fn height(&self) -> u16 {
        self.size.1
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn size() -> (u16, u16) {
    terminal::size().unwrap_or(USUAL_SIZE)
}

/// The size is fixed, since ratatui would ask the controlling terminal, which can be another one.
fn terminal_of((columns, rows): (u16, u16)) -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    let viewport = Viewport::Fixed(Rect::new(0, 0, columns, rows));
    Terminal::with_options(CrosstermBackend::new(stdout()), TerminalOptions { viewport })
}

/// May be called twice. If it fails, the terminal has gone.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
