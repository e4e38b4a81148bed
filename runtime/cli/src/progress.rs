//! Progress on standard error: a bar on a terminal, plain lines otherwise.

use std::{
    io::{self, IsTerminal},
    sync::{Mutex, PoisonError},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use phobos_engine::{KernelCounts, Progress};

use crate::output;

/// Shows `compiling kernels 12/57`. Off a terminal a line every tenth of the way, so
/// that a log stays short.
pub struct Reporter {
    bar: Option<ProgressBar>,
    last_tenth: Mutex<Option<usize>>,
}

impl Default for Reporter {
    fn default() -> Reporter {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{msg} {pos}/{len} {wide_bar}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_message("compiling kernels");
            bar
        });
        Reporter { bar, last_tenth: Mutex::new(None) }
    }
}

impl Reporter {
    /// Takes a report.
    pub fn report(&self, progress: Progress) {
        let Progress::Kernels { done, total } = progress;
        match &self.bar {
            Some(bar) => {
                bar.set_length(total as u64);
                bar.set_position(done as u64);
                if done == total {
                    bar.finish_and_clear();
                }
            }
            None => {
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

fn summary(kernels: KernelCounts) -> String {
    format!("kernels: {} compiled, {} cached", kernels.compiled, kernels.cached)
}
