//! What a person or a program says on standard input.

use std::io::{self, BufRead, IsTerminal, Read, StdinLock};

use crate::{
    failure::Failure,
    terminal::{self, PASTE},
};

/// Bytes that are no text.
#[derive(Debug, PartialEq, Eq)]
pub struct NotUtf8 {
    /// The line of the input, from 1.
    line: usize,
    /// The byte of the line, from 1.
    byte: usize,
}

impl From<NotUtf8> for Failure {
    fn from(NotUtf8 { line, byte }: NotUtf8) -> Failure {
        Failure::usage(format!("standard input: line {line}, byte {byte}: not UTF-8"))
    }
}

/// `bytes`, which begin at line `line`, as text.
fn text(bytes: &[u8], line: usize) -> Result<&str, NotUtf8> {
    std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let start = good.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines = good.iter().filter(|byte| **byte == b'\n').count();
        NotUtf8 { line: line + lines, byte: good.len() - start + 1 }
    })
}

/// Without the end of its last line.
fn without_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

/// All of standard input, without the end of its last line.
fn whole() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Failure::usage(format!("standard input: {error}")))?;
    Ok(without_end(text(&bytes, 1)?).to_owned())
}

/// The one prompt of `argument` and of standard input, where that is no terminal or `-` asks
/// for it; `None` when there is neither, which makes a conversation.
///
/// # Errors
/// When standard input cannot be read, is not UTF-8, or is all there is and empty.
pub fn prompt(argument: Option<&str>) -> Result<Option<String>, Failure> {
    let asked = argument == Some("-");
    let argument = argument.filter(|_| !asked);
    if io::stdin().is_terminal() && !asked {
        return Ok(argument.map(str::to_owned));
    }
    match (argument, whole()?) {
        (None, piped) if piped.trim().is_empty() => {
            Err(Failure::usage("no PROMPT, and standard input is empty"))
        }
        (None, piped) => Ok(Some(piped)),
        (Some(argument), piped) if piped.trim().is_empty() => Ok(Some(argument.to_owned())),
        (Some(argument), piped) => Ok(Some(format!("{argument}\n\n{piped}"))),
    }
}

/// Standard input as the turns of a conversation.
pub struct Turns<R> {
    input: R,
    /// Whether there is more of it, that came together with what was read.
    has_more: fn() -> bool,
    /// Lines read.
    lines: usize,
}

/// The turns of a terminal: lines that are pasted are one.
pub fn typed() -> Turns<StdinLock<'static>> {
    // A terminal gives a line at a time, so that no other is in the buffer unseen.
    Turns::new(io::stdin().lock(), terminal::has_more)
}

/// A turn for each line.
pub fn lines() -> Turns<StdinLock<'static>> {
    Turns::new(io::stdin().lock(), || false)
}

impl<R: BufRead> Turns<R> {
    fn new(input: R, has_more: fn() -> bool) -> Turns<R> {
        Turns { input, has_more, lines: 0 }
    }

    /// The next turn, without the end of its last line; `None` at the end of the input. A
    /// turn that is no text is lost, and the next can be had.
    pub fn read(&mut self) -> Result<Option<Result<String, NotUtf8>>, Failure> {
        let first = self.lines + 1;
        let mut bytes = Vec::new();
        loop {
            let read = self.input.read_until(b'\n', &mut bytes);
            if read.map_err(|error| Failure::usage(format!("standard input: {error}")))? == 0 {
                break;
            }
            self.lines += 1;
            let pasting = last(&bytes, PASTE[0]) > last(&bytes, PASTE[1]);
            if !pasting && !(self.has_more)() {
                break;
            }
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let turn = text(&bytes, first).map(|text| {
            let text = PASTE.iter().fold(text.to_owned(), |text, mark| text.replace(mark, ""));
            without_end(&text).to_owned()
        });
        Ok(Some(turn))
    }
}

/// One past where `mark` begins for the last time; 0 where it does not.
fn last(bytes: &[u8], mark: &str) -> usize {
    bytes.windows(mark.len()).rposition(|window| window == mark.as_bytes()).map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(input: &[u8]) -> Vec<Result<String, NotUtf8>> {
        let mut turns = Turns::new(input, || false);
        std::iter::from_fn(|| turns.read().unwrap()).collect()
    }

    #[test]
    fn a_line_is_a_turn_and_keeps_its_indentation() {
        assert_eq!(turns(b"a\n  b \r\n\n\tc"), ["a", "  b ", "", "\tc"].map(|line| Ok(line.to_owned())));
    }

    #[test]
    fn what_is_pasted_is_one_turn() {
        let input = b"\x1b[200~a\n  b\n\nc\x1b[201~\nd\nx \x1b[200~y\x1b[201~ z\n\x1b[200~never\nends";
        let expected = ["a\n  b\n\nc", "d", "x y z", "never\nends"];
        assert_eq!(turns(input), expected.map(|turn| Ok(turn.to_owned())));
    }

    #[test]
    fn lines_that_arrive_together_are_one_turn() {
        let mut turns = Turns::new(&b"a\n b\nc\n"[..], || true);
        assert_eq!(turns.read().unwrap(), Some(Ok("a\n b\nc".to_owned())));
        assert_eq!(turns.read().unwrap(), None);
    }

    #[test]
    fn bytes_that_are_no_text_cost_their_line_alone() {
        let all = turns(b"a\nb\xffc\nd\n");
        assert_eq!(all, [Ok("a".to_owned()), Err(NotUtf8 { line: 2, byte: 2 }), Ok("d".to_owned())]);
        assert_eq!(text(b"a\n\xe9", 1), Err(NotUtf8 { line: 2, byte: 1 }));
    }
}
