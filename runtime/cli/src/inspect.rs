//! `phobos-cli inspect`: what a GGUF file holds.

use std::path::Path;

use phobos_gguf::{GgufFile, OpenOptions, render_json, render_text};

use crate::{failure::Failure, output};

/// Prints the file as text or JSON.
pub fn run(path: &Path, tensors: bool, json: bool, mmap: bool) -> Result<(), Failure> {
    let file = GgufFile::open_part(path, OpenOptions { mmap }).map_err(Failure::usage)?;
    if json {
        output::print(&format!("{:#}\n", render_json(&file, tensors)))
    } else {
        let text = render_text(&file, tensors);
        output::print(&format!("{}\n", text.trim_end()))
    }
}
