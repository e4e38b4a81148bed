//! One line on stderr when a step starts and one when it ends.

use crate::error::Result;
use std::time::{Duration, Instant};

/// Runs `work` between two lines on stderr: what it is, and how long it took.
pub fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    note(what);
    let start = Instant::now();
    let result = work();
    let outcome = if result.is_ok() { "done" } else { "failed" };
    note(&format!("{what}: {outcome} in {}", seconds(start.elapsed())));
    result
}

/// One line on stderr.
pub fn note(text: &str) {
    eprintln!("xtask: {text}");
}

/// A duration for people: `0.4 s`, `12.0 s`, `3 min 20 s`.
pub fn seconds(time: Duration) -> String {
    let all = time.as_secs();
    if all < 120 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {} s", all / 60, all % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_for_people() {
        assert_eq!(seconds(Duration::from_millis(449)), "0.4 s");
        assert_eq!(seconds(Duration::from_secs(119)), "119.0 s");
        assert_eq!(seconds(Duration::from_secs(200)), "3 min 20 s");
    }
}
