//! The terminal that a conversation is typed at.
//!
//! Terminals put marks around text that is pasted, when asked to. The lines between them are
//! one turn, also where the last of them has no end yet.

use std::{
    io::{self, IsTerminal, Write},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr},
};

/// What a terminal sends before text that is pasted, and behind it.
pub const PASTE: [&str; 2] = ["\u{1b}[200~", "\u{1b}[201~"];
const ASK_FOR_MARKS: &str = "\u{1b}[?2004h";
const END_OF_MARKS: &str = "\u{1b}[?2004l";

/// The time within which a line that follows another was pasted, not typed.
const TOGETHER: Duration = Duration::from_millis(30);

/// How the terminal was before.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The marks of pasted text are on while this lives.
pub struct Marks;

impl Marks {
    /// Asks for them. A terminal that knows none ignores it.
    pub fn ask() -> Marks {
        let Ok(before) = tcgetattr(io::stdin()) else { return Marks };
        let mut quiet = before.clone();
        // Echoed as they are and not as `^[`, the marks are invisible.
        quiet.local_modes.remove(LocalModes::ECHOCTL);
        let is_set = tcsetattr(io::stdin(), OptionalActions::Now, &quiet).is_ok();
        if is_set && io::stderr().is_terminal() {
            *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
            let _ = io::stderr().write_all(ASK_FOR_MARKS.as_bytes());
        }
        Marks
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        restore();
    }
}

/// Leaves the terminal as it was.
pub fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = io::stderr().write_all(END_OF_MARKS.as_bytes());
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}

/// Whether another line is there already, as only pasted ones are.
pub fn has_more() -> bool {
    let stdin = io::stdin();
    let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
    let limit = Timespec::try_from(TOGETHER).ok();
    let ready = poll(&mut watched, limit.as_ref());
    let [stdin] = watched;
    ready.is_ok_and(|count| count > 0) && stdin.revents().contains(PollFlags::IN)
}
