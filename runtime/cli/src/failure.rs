//! Why a program ends, and its exit code.

use std::fmt::Display;

use phobos_engine::EngineError;

/// Why a program ends. Printed as `error: MESSAGE` on standard error, unless the message is
/// empty.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What to say.
    pub message: String,
}

impl Failure {
    /// The exit code when the user's input or usage is at fault.
    pub const USAGE: u8 = 2;
    /// The exit code when the program or the machine is at fault.
    pub const FAULT: u8 = 1;
    /// The exit code after Ctrl-C.
    pub const INTERRUPTED: u8 = 130;
    /// The exit code after a request to terminate.
    pub const TERMINATED: u8 = 143;

    /// The user's input or usage is at fault.
    pub fn usage(message: impl Display) -> Failure {
        Failure { code: Failure::USAGE, message: message.to_string() }
    }

    /// The program or the machine is at fault.
    pub fn fault(message: impl Display) -> Failure {
        Failure { code: Failure::FAULT, message: message.to_string() }
    }

    /// A model cannot be loaded for `device`. What to ask for instead is said here: the
    /// compiler does not know this program's flags.
    pub fn of_loading(error: EngineError, device: &str) -> Failure {
        match &error {
            EngineError::Compile(compile) if compile.is_user_error() && device != "host" => {
                Failure::usage(format!("{}\nhelp: use --device host", error.to_string().trim_end()))
            }
            _ => error.into(),
        }
    }

    /// Ended by a signal, which gives the exit code.
    pub fn stopped(code: u8) -> Failure {
        Failure { code, message: String::new() }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        if error.is_input() { Failure::usage(error) } else { Failure::fault(error) }
    }
}
