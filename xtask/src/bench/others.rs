//! What else the machine did meanwhile, as the kernel of Linux counts it.

use std::fs;
use std::thread;
use std::time::Instant;

/// Ticks of /proc in a second: the same on every machine of the kind that this runs on.
const TICKS: f64 = 100.0;

/// Processor time up to now.
#[derive(Debug)]
pub struct Watch {
    start: Instant,
    /// In ticks: of everything, and of this process with the programs that it ran to their end.
    times: Option<(f64, f64)>,
}

impl Watch {
    /// Begins to count.
    pub fn start() -> Self {
        Self { start: Instant::now(), times: times() }
    }

    /// How many cores others kept busy since the start, on average; `None` where the system does not tell.
    pub fn busy_cores(&self) -> Option<f64> {
        let ((all, own), (all_now, own_now)) = (self.times?, times()?);
        let ticks = (all_now - all) - (own_now - own);
        Some((ticks / TICKS / self.start.elapsed().as_secs_f64()).max(0.0))
    }
}

/// Whether `threads` threads had a core each beside others that kept `busy` cores busy.
pub fn crowded(threads: usize, busy: f64) -> bool {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // More threads than cores share them in any case.
    threads.min(cores) as f64 + busy > cores as f64 + ALLOWED
}

/// Of a core: what a machine at rest does, and the granularity of ticks.
const ALLOWED: f64 = 0.15;

fn times() -> Option<(f64, f64)> {
    let all = busy(&fs::read_to_string("/proc/stat").ok()?)?;
    Some((all, own(&fs::read_to_string("/proc/self/stat").ok()?)?))
}

/// Ticks in which some core was not idle, out of `cpu  user nice system idle iowait irq softirq steal ...`. What a
/// hypervisor took away counts; the time of guests is a part of the user's.
fn busy(stat: &str) -> Option<f64> {
    let fields: Vec<f64> =
        stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map_while(|n| n.parse().ok()).collect();
    match fields[..] {
        [user, nice, system, _, _, irq, softirq, steal, ..] => {
            Some(user + nice + system + irq + softirq + steal)
        }
        _ => None,
    }
}

/// Ticks of a process and of its children that have ended: fields 14 to 17 of proc(5). The name, which may hold
/// anything, stands in brackets before them.
fn own(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: Vec<f64> = fields.split_whitespace().skip(11).take(4).map_while(|n| n.parse().ok()).collect();
    (ticks.len() == 4).then(|| ticks.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_out_of_proc() {
        assert_eq!(busy("cpu  100 20 30 4000 50 6 7 8 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n"), Some(171.0));
        assert_eq!(busy("cpu  100 20 30\n"), None);
        assert_eq!(own("7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 10 20 300 400 20 0 1 0"), Some(730.0));
        assert_eq!(own("7 (a) S 1 7"), None);
    }

    #[test]
    fn threads_want_a_core_each() {
        let cores = thread::available_parallelism().unwrap().get();
        assert!(!crowded(cores, 0.1));
        assert!(crowded(cores, 0.2));
        assert!(crowded(cores + 5, 0.2) && !crowded(cores + 5, 0.1));
        assert!(!crowded(1, cores as f64 - 1.0));
    }

    #[test]
    fn others_are_counted_where_the_system_tells() {
        let watch = Watch::start();
        assert!(watch.busy_cores().is_none_or(|cores| cores >= 0.0));
    }
}
