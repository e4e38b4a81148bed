//! Devices by name: the one place that knows every kind. Programs open a device here and
//! hand it on; what runs on one knows the trait alone.

use std::sync::Arc;

use phobos_artifact::Chip;
use phobos_device::{Device, DeviceError, HostDevice};
use phobos_emulator::EmulatorDevice;

/// How to open a device.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Threads of the host device, the launching one included; `None` takes what the
    /// machine has.
    pub threads: Option<usize>,
}

/// Opens `host`, `emulator:sm_XX` or `cuda[:N]`. There is no CUDA device yet.
pub fn open(name: &str, options: &OpenOptions) -> Result<Arc<dyn Device>, DeviceError> {
    let (family, rest) = match name.split_once(':') {
        Some((family, rest)) => (family, Some(rest)),
        None => (name, None),
    };
    let not_built = |reason| Err(DeviceError::NotBuilt { device: name.to_owned(), reason });
    match (family, rest) {
        ("host", None) => Ok(Arc::new(HostDevice::new(options.threads)?)),
        ("emulator", Some(chip)) if is_gpu(chip) => {
            Ok(Arc::new(EmulatorDevice::named(name, Default::default())?))
        }
        ("cuda", None) => not_built("this program has no CUDA device"),
        ("cuda", Some(number)) if number.parse::<u32>().is_ok() => {
            not_built("this program has no CUDA device")
        }
        _ => Err(DeviceError::UnknownDevice(name.to_owned())),
    }
}

fn is_gpu(chip: &str) -> bool {
    chip.parse::<Chip>().is_ok_and(|chip| !chip.is_host())
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
        assert_eq!(message("emulator:sm_86"), "emulator:sm_86");
        for unknown in ["", "gpu", "host:1", "emulator", "emulator:host", "emulator:sm_1", "cuda:x", "cuda:"]
        {
            assert!(message(unknown).starts_with(&format!("unknown device `{unknown}`")), "{unknown}");
        }
    }
}
