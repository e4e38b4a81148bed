//! How a fault is shown to people and as JSON.

use std::fmt::Write as _;

use super::{Fault, ThreadPlace};
use crate::decode::Kernel;

fn place(thread: &ThreadPlace) -> String {
    let [cx, cy, cz] = thread.cta;
    let [tx, ty, tz] = thread.thread;
    format!("cta ({cx},{cy},{cz}) thread ({tx},{ty},{tz}) warp {} lane {}", thread.warp, thread.lane)
}

/// `file.ptx:LINE: text (source.cu:LINE)` of an instruction.
fn instruction(kernel: &Kernel, pc: u32) -> String {
    let Some(place) = kernel.places.get(pc as usize) else { return "unknown instruction".to_owned() };
    let mut text = format!("{}:{}: {}", kernel.file, place.pos.line, kernel.line_text(place.pos.line));
    if let Some((file, line)) = place.loc
        && let Some(file) = kernel.files.get(file as usize)
    {
        let _ = write!(text, "   ({file}:{line})");
    }
    text
}

impl Fault {
    /// Several lines that name the kernel, the place and both sides.
    pub fn render(&self, kernel: &Kernel) -> String {
        let mut text = format!("fault: {}: {}\n", self.kind.title(), self.message);
        let _ = writeln!(text, "  at    {}", instruction(kernel, self.pc));
        let _ = write!(text, "  by    kernel {} {}", kernel.name, place(&self.thread));
        if let Some(address) = self.address {
            let _ = write!(text, " address {address:#x}");
        }
        text.push('\n');
        for side in &self.others {
            let _ = writeln!(text, "  {} {}", side.what, place(&side.thread));
            let _ = writeln!(text, "    at  {}", instruction(kernel, side.pc));
        }
        if self.count > 1 {
            let _ = writeln!(text, "  {} times here", self.count);
        }
        text
    }

    /// The same as a JSON object.
    pub fn json(&self, kernel: &Kernel) -> serde_json::Value {
        let at = |pc: u32| {
            let place = kernel.places.get(pc as usize);
            let source = place.and_then(|place| place.loc).map(
                |(file, line)| serde_json::json!({ "file": kernel.files.get(file as usize), "line": line }),
            );
            serde_json::json!({
                "line": place.map(|place| place.pos.line),
                "text": place.map(|place| kernel.line_text(place.pos.line)),
                "source": source,
            })
        };
        serde_json::json!({
            "kind": self.kind,
            "message": self.message,
            "kernel": kernel.name,
            "thread": self.thread,
            "address": self.address.map(|address| format!("{address:#x}")),
            "ptx": at(self.pc),
            "others": self.others.iter().map(|side| serde_json::json!({
                "what": side.what,
                "thread": side.thread,
                "ptx": at(side.pc),
            })).collect::<Vec<_>>(),
            "count": self.count,
        })
    }
}
