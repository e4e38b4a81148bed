//! A loaded kernel.

use std::{any::Any, fmt, sync::Arc};

use phobos_artifact::Metadata;

use crate::{
    device::{DeviceId, DeviceToken},
    error::DeviceError,
    signature::Signature,
};

/// A handle of a kernel that a device has loaded. Clones share it.
#[derive(Clone)]
pub struct Kernel(Arc<Inner>);

struct Inner {
    device: DeviceId,
    metadata: Metadata,
    signature: Signature,
    code: Box<dyn Any + Send + Sync>,
}

impl Kernel {
    /// A kernel of the device that holds `token`, for implementations of
    /// [`crate::Device`]: checks and resolves the metadata, then calls `load` for the code.
    pub fn new(
        token: &DeviceToken,
        metadata: &Metadata,
        load: impl FnOnce() -> Result<Box<dyn Any + Send + Sync>, DeviceError>,
    ) -> Result<Kernel, DeviceError> {
        let signature = Signature::resolve(metadata)
            .map_err(|reason| DeviceError::BadArtifact { kernel: metadata.kernel.clone(), reason })?;
        let code = load()?;
        Ok(Kernel(Arc::new(Inner { device: token.id(), metadata: metadata.clone(), signature, code })))
    }

    /// What the artifact says about the kernel.
    pub fn metadata(&self) -> &Metadata {
        &self.0.metadata
    }

    /// The device that loaded it.
    pub fn device(&self) -> DeviceId {
        self.0.device
    }

    /// The device's form of the code, when it is a `T`.
    pub fn code<T: Any>(&self) -> Option<&T> {
        self.0.code.downcast_ref()
    }

    pub(crate) fn signature(&self) -> &Signature {
        &self.0.signature
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} for {})", self.metadata().kernel, self.metadata().chip)
    }
}
