//! Forms of numbers and entries for people.

use phobos_kernel_cache::{Store, entry::Header, store::Listed};

/// `12.3 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = units[0];
    for next in &units[1..] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// `1 kernel`, `2 kernels`.
pub(crate) fn kernels(count: u64) -> String {
    format!("{count} kernel{}", if count == 1 { "" } else { "s" })
}

/// What the tool knows of an entry.
pub(crate) struct Known {
    pub(crate) listed: Listed,
    /// What it says about itself; an error text when it is damaged.
    pub(crate) header: Result<Header, String>,
}

impl Known {
    pub(crate) fn new(store: &Store, listed: Listed) -> Known {
        let header = store.header(&listed).map_err(|error| error.to_string());
        Known { listed, header }
    }

    /// The kernel's name, from the name of the file when the entry is damaged.
    pub(crate) fn kernel(&self) -> &str {
        match &self.header {
            Ok(header) => &header.kernel,
            Err(_) => {
                let name = self.listed.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                name.rsplit_once('-').map_or(name, |(kernel, _)| kernel)
            }
        }
    }

    /// The request without the chip, which stands in a column of its own.
    pub(crate) fn label(&self) -> &str {
        match &self.header {
            Ok(header) => header.label.rsplit_once(' ').map_or(&header.label, |(label, _)| label),
            Err(_) => self.kernel(),
        }
    }

    /// What is unusual about it.
    pub(crate) fn remark(&self) -> Option<String> {
        match &self.header {
            Ok(header) if header.fingerprint == phobos_worker::fingerprint::current().long() => None,
            Ok(header) => Some(format!("build {}", header.fingerprint.chars().take(16).collect::<String>())),
            Err(_) => Some("damaged".to_owned()),
        }
    }

    /// One line of a list.
    pub(crate) fn line(&self) -> String {
        let remark = self.remark().map(|remark| format!("  ({remark})")).unwrap_or_default();
        let chip = self.listed.chip.to_string();
        format!("{chip:<15} {:<48} {:>10}{remark}", self.label(), size(self.listed.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (5 << 20, "5.0 MiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
