//! Standard output, which a reader may close, and standard error.

use std::io::{self, ErrorKind, Write};

use crate::failure::Failure;

/// What became of a write to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Written {
    /// It is there.
    Yes,
    /// The reader is gone, as after `| head`: nothing more need be computed.
    NoReader,
}

/// Writes and flushes, so that text appears as it is generated.
pub fn write(text: &str) -> Result<Written, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Written::Yes),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Written::NoReader),
        Err(error) => Err(Failure::fault(format!("standard output: {error}"))),
    }
}

/// Writes a whole result; a reader that is gone is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    write(text).map(|_| ())
}

/// Writes a line to standard error. A closed standard error leaves no one to tell.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
