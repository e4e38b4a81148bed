//! Compiling and loading the kernels of a model, and telling how far it has come.

use std::sync::atomic::{AtomicUsize, Ordering};

use phobos_artifact::{Artifact, CompileRequest};
use phobos_device::{Device, DeviceError};
use phobos_models::{Architecture, kernels::KernelSet};
use phobos_worker::{CompileError, KernelSource, compile_all};

use crate::EngineError;

/// How far loading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A kernel is being compiled, or was.
    Kernels {
        /// Kernels there are.
        done: usize,
        /// Kernels wanted.
        total: usize,
    },
    /// Weights are being copied to the device.
    Weights {
        /// Bytes copied.
        done: u64,
        /// Bytes to be copied.
        total: u64,
    },
}

/// How a model got its kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Compiled by this process.
    pub compiled: usize,
    /// Found in the kernel cache, or put there meanwhile by another process.
    pub cached: usize,
}

/// Counts kernels, and is silent until one has to be compiled: a start from a warm cache
/// has nothing to tell.
pub(crate) struct Meter<'a> {
    progress: &'a (dyn Fn(Progress) + Sync),
    compiled: AtomicUsize,
    done: AtomicUsize,
    total: AtomicUsize,
}

impl<'a> Meter<'a> {
    pub fn new(progress: &'a (dyn Fn(Progress) + Sync)) -> Meter<'a> {
        let (done, total) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Meter { progress, compiled: AtomicUsize::new(0), done, total }
    }

    /// A kernel is about to be compiled.
    fn compiles(&self) {
        if self.compiled.fetch_add(1, Ordering::SeqCst) == 0 {
            self.report();
        }
    }

    /// `done` of `total` kernels are there.
    fn answered(&self, done: usize, total: usize) {
        self.done.store(done, Ordering::SeqCst);
        self.total.store(total, Ordering::SeqCst);
        if done > 0 && self.compiled.load(Ordering::SeqCst) > 0 {
            self.report();
        }
    }

    /// What it counted, once the kernels are there.
    pub fn counts(&self) -> KernelCounts {
        let (compiled, total) = (self.compiled.load(Ordering::SeqCst), self.total.load(Ordering::SeqCst));
        KernelCounts { compiled, cached: total.saturating_sub(compiled) }
    }

    /// `done` of `total` bytes of weights are on the device.
    pub fn copied(&self, done: u64, total: u64) {
        (self.progress)(Progress::Weights { done, total });
    }

    fn report(&self) {
        let (done, total) = (self.done.load(Ordering::SeqCst), self.total.load(Ordering::SeqCst));
        (self.progress)(Progress::Kernels { done, total });
    }
}

/// A source whose every answer is compiled anew, as seen by a meter.
pub(crate) struct Metered<'a, S> {
    pub source: S,
    pub meter: &'a Meter<'a>,
}

impl<S: KernelSource> KernelSource for Metered<'_, S> {
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        self.meter.compiles();
        self.source.get(request)
    }

    fn parallelism(&self) -> usize {
        self.source.parallelism()
    }
}

/// What gives another artifact for one that the device refused.
type Again<'a> = dyn Fn(&CompileRequest, &DeviceError) -> Result<Artifact, CompileError> + 'a;

/// Where the kernels of a model come from.
pub(crate) struct Kernels<'a> {
    pub source: &'a dyn KernelSource,
    /// Takes every request, and those of files of the same shape in other formats.
    pub record: Option<&'a dyn Fn(&CompileRequest)>,
    pub again: &'a Again<'a>,
    pub meter: &'a Meter<'a>,
}

impl Kernels<'_> {
    /// Compiles and loads every kernel of the model for the device's best chip.
    pub fn load(
        &self,
        architecture: &dyn Architecture,
        device: &dyn Device,
    ) -> Result<KernelSet, EngineError> {
        let chip = *device.chips().first().ok_or_else(|| DeviceError::Unavailable {
            device: device.name().to_owned(),
            reason: "it runs no chip that kernels are compiled for".to_owned(),
        })?;
        let requests = architecture.requests(chip);
        if let Some(record) = self.record {
            // Before anything is compiled, so that a machine without a compiler records too.
            requests.iter().chain(&architecture.requests_of_every_format(chip)).for_each(record);
        }
        let artifacts = compile_all(self.source, &requests, &|done, total| self.meter.answered(done, total));
        let mut kernels = KernelSet::default();
        for ((role, request), artifact) in architecture.roles().iter().zip(&requests).zip(artifacts) {
            let kernel = match device.load(&artifact?) {
                // An entry of the cache may be whole and yet no use to the device.
                Err(error @ DeviceError::BadArtifact { .. }) => {
                    device.load(&(self.again)(request, &error)?)?
                }
                loaded => loaded?,
            };
            kernels.insert(*role, kernel);
        }
        Ok(kernels)
    }
}
