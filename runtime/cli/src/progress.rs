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
    is_terminal: bool,
    /// What is counted, and the bar that shows it.
    bar: Mutex<Option<(&'static str, ProgressBar)>>,
    last_tenth: Mutex<Option<usize>>,
    /// When the first weights were there.
    weights: OnceLock<Instant>,
}

impl Default for Reporter {
    fn default() -> Reporter {
        let is_terminal = io::stderr().is_terminal();
        Reporter {
            is_terminal,
            bar: Mutex::new(None),
            last_tenth: Mutex::new(None),
            weights: OnceLock::new(),
        }
    }
}

const COMPILING: &str = "compiling kernels";
const WAITING: &str = "waiting for kernels that another process compiles";

impl Reporter {
    /// Takes a report.
    pub fn report(&self, progress: Progress) {
        match progress {
            Progress::Kernels { done, total } => self.kernels(COMPILING, done, total),
            Progress::Waiting { done, total } => self.kernels(WAITING, done, total),
            Progress::Weights { done, total } => {
                if self.is_terminal && self.weights.get_or_init(Instant::now).elapsed() > PATIENCE {
                    self.show("loading weights, MB:", done / 1_000_000, total / 1_000_000);
                }
            }
        }
    }

    fn kernels(&self, what: &'static str, done: usize, total: usize) {
        if self.is_terminal {
            self.show(what, done as u64, total as u64);
            if done == total {
                self.clear();
            }
            return;
        }
        let tenth = Some(done * 10 / total.max(1));
        let mut last = self.last_tenth.lock().unwrap_or_else(PoisonError::into_inner);
        if *last < tenth {
            *last = tenth;
            output::note(&format!("{what} {done}/{total}"));
        }
    }

    fn show(&self, what: &'static str, done: u64, total: u64) {
        let mut shown = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        match &*shown {
            Some((same, bar)) if *same == what => bar.set_position(done),
            _ => {
                // Drawn for the first time when there is something to see.
                let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
                let style = ProgressStyle::with_template("{msg} {pos}/{len} {wide_bar}");
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                bar.set_message(what);
                bar.set_position(done);
                if let Some((_, before)) = shown.replace((what, bar.clone())) {
                    before.finish_and_clear();
                }
                bar.set_draw_target(ProgressDrawTarget::stderr());
                bar.tick();
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
        let mut shown = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bar)) = shown.take() {
            bar.finish_and_clear();
        }
    }
}

fn summary(kernels: KernelCounts) -> String {
    let KernelCounts { compiled, cached, stand_ins } = kernels;
    let stand_ins = match stand_ins {
        0 => String::new(),
        _ => format!(", {stand_ins} of them stand-ins"),
    };
    format!("kernels: {compiled} compiled, {cached} cached{stand_ins}")
}
