//! What LLVM calls the levels of the host.

use phobos_artifact::HostLevel;

/// The CPU model of a level.
pub(crate) fn cpu(level: HostLevel) -> &'static str {
    match level {
        HostLevel::V2 => "x86-64-v2",
        HostLevel::V3 => "x86-64-v3",
        HostLevel::V4 | HostLevel::V4Vnni => "x86-64-v4",
    }
}

/// What may be used beside the CPU model, and what is preferred: LLVM would rather use half
/// of a 512-bit register; the vectors here were chosen.
pub(crate) fn features(level: HostLevel) -> &'static str {
    match level {
        HostLevel::V2 | HostLevel::V3 => "",
        HostLevel::V4 => "-prefer-256-bit",
        HostLevel::V4Vnni => "-prefer-256-bit,+avx512vnni,+fast-dpwssd",
    }
}
