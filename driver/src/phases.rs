//! How long each phase of a compilation took (`PHOBOS_PRINT_PHASES=1`).

use std::time::{Duration, Instant};

/// Measures phases in order.
pub struct Phases {
    print: bool,
    last: Instant,
    done: Vec<(&'static str, Duration)>,
}

impl Phases {
    /// Starts the first phase; prints at the end if the environment asks.
    pub fn start() -> Phases {
        let print = std::env::var_os("PHOBOS_PRINT_PHASES").is_some_and(|value| value == "1");
        Phases { print, last: Instant::now(), done: Vec::new() }
    }

    /// Ends the phase that ran since the last call.
    pub fn end(&mut self, name: &'static str) {
        let now = Instant::now();
        self.done.push((name, now - self.last));
        self.last = now;
    }

    /// Prints one line to stderr.
    pub fn report(&self, label: &str) {
        if !self.print {
            return;
        }
        let total: Duration = self.done.iter().map(|(_, time)| *time).sum();
        let parts: Vec<String> =
            self.done.iter().map(|(name, time)| format!("{name} {:.1}", milliseconds(*time))).collect();
        eprintln!("{label}: {} = {:.1} ms", parts.join(" + "), milliseconds(total));
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
