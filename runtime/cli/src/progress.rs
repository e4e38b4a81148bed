//! Progress on standard error: a bar on a terminal, plain lines otherwise.

use std::{
    io::{self, IsTerminal},
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use phobos_engine::{KernelCounts, Progress};

use crate::output;

/// How long weights are copied before a bar is worth a look.
const PATIENCE: Duration = Duration::from_millis(300);

/// Shows `compiling kernels 12/57`, off a terminal as a line every tenth of the way, so
/// that a log stays short; then `loading weights, MB: 812/4096`, on a terminal only.
pub struct Reporter {
    bar: Option<ProgressBar>,
    last_tenth: Mutex<Option<usize>>,
    /// When the first weights were there.
    weights: OnceLock<Instant>,
}

impl Default for Reporter {
    fn default() -> Reporter {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{msg} {pos}/{len} {wide_bar}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Reporter { bar, last_tenth: Mutex::new(None), weights: OnceLock::new() }
    }
}

impl Reporter {
    /// Takes a report.
    pub fn report(&self, progress: Progress) {
        match (&self.bar, progress) {
            (Some(bar), Progress::Kernels { done, total }) => {
                show(bar, "compiling kernels", done as u64, total as u64);
                if done == total {
                    bar.finish_and_clear();
                }
            }
            (Some(bar), Progress::Weights { done, total }) => {
                if self.weights.get_or_init(Instant::now).elapsed() > PATIENCE {
                    show(bar, "loading weights, MB:", done / 1_000_000, total / 1_000_000);
                }
            }
            (None, Progress::Weights { .. }) => {}
            (None, Progress::Kernels { done, total }) => {
                let tenth = Some(done * 10 / total.max(1));
                let mut last = self.last_tenth.lock().unwrap_or_else(PoisonError::into_inner);
                if *last < tenth {
                    *last = tenth;
                    output::note(&format!("compiling kernels {done}/{total}"));
                }
            }
        }
    }

    /// Ends the bar and says where the kernels came from.
    pub fn loaded(&self, kernels: KernelCounts) {
        self.clear();
        output::note(&summary(kernels));
    }

    /// Clears the bar when loading failed halfway.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn show(bar: &ProgressBar, what: &'static str, done: u64, total: u64) {
    if bar.is_finished() {
        bar.reset();
    }
    bar.set_length(total);
    bar.set_position(done);
    bar.set_message(what);
}

fn summary(kernels: KernelCounts) -> String {
    let KernelCounts { compiled, cached, stand_ins } = kernels;
    let stand_ins = match stand_ins {
        0 => String::new(),
        _ => format!(", {stand_ins} of them stand-ins"),
    };
    format!("kernels: {compiled} compiled, {cached} cached{stand_ins}")
}
