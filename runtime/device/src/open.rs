//! Devices by name.

use std::sync::Arc;

use crate::{device::Device, error::DeviceError, host::HostDevice};

/// How to open a device.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Threads of the host device, the launching one included; `None` takes what the
    /// machine has.
    pub threads: Option<usize>,
}

/// Opens `host`, `emulator:sm_XX` or `cuda[:N]`. Only `host` is built so far.
pub fn open(name: &str, options: &OpenOptions) -> Result<Arc<dyn Device>, DeviceError> {
    let (family, rest) = match name.split_once(':') {
        Some((family, rest)) => (family, Some(rest)),
        None => (name, None),
    };
    let not_built = |reason| Err(DeviceError::NotBuilt { device: name.to_owned(), reason });
    match (family, rest) {
        ("host", None) => Ok(Arc::new(HostDevice::new(options.threads)?)),
        ("emulator", Some(chip)) if is_gpu(chip) => not_built("this program has no PTX emulator"),
        ("cuda", None) => not_built("this program has no CUDA device"),
        ("cuda", Some(number)) if number.parse::<u32>().is_ok() => {
            not_built("this program has no CUDA device")
        }
        _ => Err(DeviceError::UnknownDevice(name.to_owned())),
    }
}

fn is_gpu(chip: &str) -> bool {
    chip.parse::<phobos_artifact::Chip>().is_ok_and(|chip| !chip.is_host())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str) -> String {
        match open(name, &OpenOptions { threads: Some(1) }) {
            Ok(device) => device.name().to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn names() {
        assert_eq!(message("host"), "host");
        assert_eq!(
            message("cuda:1"),
            "device `cuda:1`: not built yet: this program has no CUDA device; use `host`"
        );
        assert_eq!(
            message("emulator:sm_86"),
            "device `emulator:sm_86`: not built yet: this program has no PTX emulator; use `host`"
        );
        for unknown in ["", "gpu", "host:1", "emulator", "emulator:host", "emulator:sm_1", "cuda:x", "cuda:"]
        {
            assert!(message(unknown).starts_with(&format!("unknown device `{unknown}`")), "{unknown}");
        }
    }
}
