//! How many threads to run without being told: one for each physical core. Two hardware
//! threads of one core share what kernels are bound by, its multipliers and its part of
//! the memory's bandwidth, and a barrier waits for the slower one.

use std::{collections::BTreeSet, fs, path::Path, thread};

/// Physical cores that this process may use; where Linux does not tell, hardware threads.
pub(super) fn physical() -> usize {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    // A quota of a control group may leave fewer than there are cores.
    cores(Path::new("/proc/self/status"), Path::new("/sys/devices/system/cpu"))
        .map_or(threads, |cores| threads.min(cores))
}

/// Distinct sets of sibling threads among the processors that `status` allows.
fn cores(status: &Path, processors: &Path) -> Option<usize> {
    let status = fs::read_to_string(status).ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let siblings: Option<BTreeSet<String>> = processor_list(allowed)?
        .into_iter()
        .map(|number| {
            let file = processors.join(format!("cpu{number}/topology/thread_siblings_list"));
            fs::read_to_string(file).ok()
        })
        .collect();
    siblings.map(|sets| sets.len()).filter(|cores| *cores > 0)
}

/// `0-3,8` as numbers; `None` for anything else, or more than Linux has.
fn processor_list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last > 1 << 16 {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with two cores of two threads, as Linux describes it.
    fn machine(allowed: &str) -> Option<usize> {
        let folder = tempfile::tempdir().unwrap();
        let status = folder.path().join("status");
        fs::write(&status, format!("Name:\tx\nCpus_allowed_list:\t{allowed}\nMems_allowed_list:\t0\n"))
            .unwrap();
        for (number, siblings) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")] {
            let topology = folder.path().join(format!("cpu{number}/topology"));
            fs::create_dir_all(&topology).unwrap();
            fs::write(topology.join("thread_siblings_list"), format!("{siblings}\n")).unwrap();
        }
        cores(&status, folder.path())
    }

    #[test]
    fn threads_of_one_core_count_once() {
        assert_eq!(machine("0-3"), Some(2));
        assert_eq!(machine("0,2"), Some(1));
        assert_eq!(machine("0-1,3"), Some(2));
    }

    #[test]
    fn what_linux_does_not_tell_is_not_guessed() {
        assert_eq!(machine("0-7"), None);
        assert_eq!(machine("x"), None);
        assert_eq!(machine("0-4000000000"), None);
        assert_eq!(cores(Path::new("/nonexistent"), Path::new("/nonexistent")), None);
    }

    #[test]
    fn here_there_is_at_least_one() {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        assert!((1..=threads).contains(&physical()));
    }
}
