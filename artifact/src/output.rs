//! The files that the programs write for people.

use std::{fs, io, path::Path, process};

/// Writes a file so that nobody ever sees half of it: beside it, then renamed. A device or a
/// pipe, such as /dev/null, is written to and not replaced.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(path, bytes);
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tmp{}", process::id()));
    let temporary = path.with_file_name(name);
    fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
        // What it left is named after it, and the caller learns of the first error.
        let _ = fs::remove_file(&temporary);
    })
}
