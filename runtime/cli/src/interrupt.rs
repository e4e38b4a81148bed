//! Ctrl-C: the first stops the answer at its next token, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// Set by Ctrl-C (and by the signals to terminate), cleared when an answer begins.
static PRESSED: AtomicBool = AtomicBool::new(false);
/// Whether an answer is being generated that can be stopped.
static ANSWERING: AtomicBool = AtomicBool::new(false);

/// Installs the handler. Outside of an answer Ctrl-C ends the program at once.
pub fn install() -> Result<(), Failure> {
    ctrlc::set_handler(|| {
        let again = PRESSED.swap(true, Ordering::SeqCst);
        if again || !ANSWERING.load(Ordering::SeqCst) {
            std::process::exit(i32::from(Failure::INTERRUPTED));
        }
    })
    .map_err(|error| Failure::fault(format!("cannot handle Ctrl-C: {error}")))
}

/// Whether it was pressed since the answer began.
pub fn pressed() -> bool {
    PRESSED.load(Ordering::SeqCst)
}

/// Runs `answer` so that the first Ctrl-C only sets the flag given to it.
pub fn while_answering<T>(answer: impl FnOnce(&AtomicBool) -> T) -> T {
    PRESSED.store(false, Ordering::SeqCst);
    ANSWERING.store(true, Ordering::SeqCst);
    let result = answer(&PRESSED);
    ANSWERING.store(false, Ordering::SeqCst);
    result
}
