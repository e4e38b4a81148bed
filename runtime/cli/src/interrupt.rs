//! Ctrl-C: the first stops the answer at its next token, the second ends the program. A
//! request to terminate does the same, but nothing comes after the answer that it stops.

use std::{
    sync::atomic::{AtomicBool, AtomicI32, Ordering},
    thread,
};

use nix::sys::signal::{SigSet, Signal};

use crate::{failure::Failure, terminal};

/// Set by a signal, cleared when an answer begins.
static PRESSED: AtomicBool = AtomicBool::new(false);
/// The signal that came last.
static SIGNAL: AtomicI32 = AtomicI32::new(Signal::SIGINT as i32);
/// Whether an answer is being generated that can be stopped.
static ANSWERING: AtomicBool = AtomicBool::new(false);

/// Gives the signals to a thread of their own. Outside of an answer they end the program at
/// once. To be called before other threads are started: they inherit that signals are blocked.
pub fn install() -> Result<(), Failure> {
    let fault = |error: &dyn std::fmt::Display| Failure::fault(format!("cannot handle Ctrl-C: {error}"));
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block().map_err(|error| fault(&error))?;
    let wait = move || {
        while let Ok(signal) = signals.wait() {
            SIGNAL.store(signal as i32, Ordering::SeqCst);
            let again = PRESSED.swap(true, Ordering::SeqCst);
            if again || !ANSWERING.load(Ordering::SeqCst) {
                terminal::restore();
                std::process::exit(i32::from(code()));
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop).map_err(|error| fault(&error))
}

/// The exit code of the signal that came last, as shells give it.
fn code() -> u8 {
    match SIGNAL.load(Ordering::SeqCst) {
        signal if signal == Signal::SIGTERM as i32 => Failure::TERMINATED,
        _ => Failure::INTERRUPTED,
    }
}

/// The signal that came since the answer began, as the reason to end the program.
pub fn pressed() -> Option<Failure> {
    PRESSED.load(Ordering::SeqCst).then(|| Failure::stopped(code()))
}

/// Whether the program was told to end, and not only the answer.
pub fn terminated() -> Option<Failure> {
    pressed().filter(|failure| failure.code == Failure::TERMINATED)
}

/// Runs `answer` so that the first Ctrl-C only sets the flag given to it.
pub fn while_answering<T>(answer: impl FnOnce(&AtomicBool) -> T) -> T {
    PRESSED.store(false, Ordering::SeqCst);
    ANSWERING.store(true, Ordering::SeqCst);
    let result = answer(&PRESSED);
    ANSWERING.store(false, Ordering::SeqCst);
    result
}
