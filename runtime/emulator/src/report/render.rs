//! How a fault is shown to people and as JSON.

use std::fmt::Write as _;

use super::{Fault, Severity, ThreadPlace};
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
        let _ = write!(text, "   ({file}:{line}");
        for (file, line) in kernel.chains.get(place.chain as usize).into_iter().flatten() {
            if let Some(file) = kernel.files.get(*file as usize) {
                let _ = write!(text, ", inlined at {file}:{line}");
            }
        }
        text.push(')');
    }
    text
}

impl Fault {
    /// Several lines that name the kernel, the place and both sides.
    pub fn render(&self, kernel: &Kernel) -> String {
        let severity = match self.kind.severity() {
            Severity::Fault => "fault",
            Severity::Note => "note",
        };
        self.render_as(kernel, severity)
    }

    /// The same under another heading than its kind's own.
    pub fn render_as(&self, kernel: &Kernel, severity: &str) -> String {
        let mut text = format!("{severity}: {}: {}\n", self.kind.title(), self.message);
        let _ = writeln!(text, "  at    {}", instruction(kernel, self.pc));
        let _ = write!(text, "  by    kernel {} {}", kernel.shown(), place(&self.thread));
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
            let chain = place.and_then(|place| kernel.chains.get(place.chain as usize)).into_iter().flatten();
            let inlined: Vec<_> = chain
                .map(|(file, line)| {
                    serde_json::json!({ "file": kernel.files.get(*file as usize), "line": line })
                })
                .collect();
            serde_json::json!({
                "inlined_at": inlined,
                "line": place.map(|place| place.pos.line),
                "text": place.map(|place| kernel.line_text(place.pos.line)),
                "source": source,
            })
        };
        serde_json::json!({
            "kind": self.kind,
            "severity": self.kind.severity(),
            "message": self.message,
            "kernel": kernel.name,
            "kernel_shown": kernel.shown(),
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
