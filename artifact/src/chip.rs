//! Targets: the six GPU generations and the host's x86-64 levels.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A target that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Chip {
    /// The CPU, at one of the x86-64 psABI levels.
    Host(HostLevel),
    /// An NVIDIA GPU by compute capability: 75, 80, 86, 89, 90 or 120.
    Sm(u16),
}

/// The x86-64 psABI micro-architecture levels that kernels are compiled for, and one above
/// them: integer dot products make products with quantised activations twice as fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostLevel {
    /// SSE4.2, POPCNT.
    V2,
    /// AVX2, FMA, F16C, BMI.
    V3,
    /// AVX-512 F, BW, CD, DQ, VL.
    V4,
    /// V4 and AVX-512 VNNI.
    V4Vnni,
}

impl HostLevel {
    /// All levels, the most capable first: the order in which a run looks for kernels.
    pub const BEST_FIRST: [HostLevel; 4] = [HostLevel::V4Vnni, HostLevel::V4, HostLevel::V3, HostLevel::V2];

    /// The best level that this CPU has; `None` below v2 or on another architecture.
    pub fn detect() -> Option<HostLevel> {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let v2 = has!("sse4.2") && has!("popcnt") && has!("ssse3");
            let v3 = v2 && has!("avx2") && has!("fma") && has!("f16c") && has!("bmi2") && has!("lzcnt");
            let v4 = v3
                && has!("avx512f")
                && has!("avx512bw")
                && has!("avx512cd")
                && has!("avx512dq")
                && has!("avx512vl");
            let v4_vnni = v4 && has!("avx512vnni");
            match (v2, v3, v4, v4_vnni) {
                (_, _, _, true) => Some(HostLevel::V4Vnni),
                (_, _, true, _) => Some(HostLevel::V4),
                (_, true, _, _) => Some(HostLevel::V3),
                (true, _, _, _) => Some(HostLevel::V2),
                _ => None,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    /// The name in chips and pipelines: `v2`, `v3`, `v4`, `v4-vnni`.
    pub fn name(self) -> &'static str {
        match self {
            HostLevel::V2 => "v2",
            HostLevel::V3 => "v3",
            HostLevel::V4 => "v4",
            HostLevel::V4Vnni => "v4-vnni",
        }
    }
}

impl Chip {
    /// The GPU generations that Phobos generates code for.
    pub const GPUS: [Chip; 6] =
        [Chip::Sm(75), Chip::Sm(80), Chip::Sm(86), Chip::Sm(89), Chip::Sm(90), Chip::Sm(120)];

    /// Whether kernels for this chip are native code of the CPU.
    pub fn is_host(self) -> bool {
        matches!(self, Chip::Host(_))
    }
}

impl fmt::Display for Chip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Chip::Host(level) => write!(f, "host-x86-64-{}", level.name()),
            Chip::Sm(number) => write!(f, "sm_{number}"),
        }
    }
}

/// A chip name that Phobos does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChipError {
    /// Not one of the known names.
    #[error(
        "unknown chip `{0}`: expected host, host-x86-64-v2, host-x86-64-v3, host-x86-64-v4, \
         host-x86-64-v4-vnni, sm_75, sm_80, sm_86, sm_89, sm_90 or sm_120"
    )]
    Unknown(String),
    /// `host` was asked for on a CPU below the lowest level.
    #[error("chip `host`: this CPU has no x86-64-v2 level (SSE4.2 and POPCNT are needed)")]
    NoHostLevel,
}

impl FromStr for Chip {
    type Err = ChipError;

    /// Parses `sm_86`, `host-x86-64-v3`, or `host` for the best level of this CPU.
    fn from_str(name: &str) -> Result<Chip, ChipError> {
        if name == "host" {
            return HostLevel::detect().map(Chip::Host).ok_or(ChipError::NoHostLevel);
        }
        HostLevel::BEST_FIRST
            .into_iter()
            .map(Chip::Host)
            .chain(Chip::GPUS)
            .find(|chip| chip.to_string() == name)
            .ok_or_else(|| ChipError::Unknown(name.to_owned()))
    }
}

impl TryFrom<String> for Chip {
    type Error = ChipError;
    fn try_from(name: String) -> Result<Chip, ChipError> {
        name.parse()
    }
}

impl From<Chip> for String {
    fn from(chip: Chip) -> String {
        chip.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for chip in Chip::GPUS.into_iter().chain(HostLevel::BEST_FIRST.map(Chip::Host)) {
            assert_eq!(chip.to_string().parse::<Chip>(), Ok(chip));
        }
        assert_eq!("sm_70".parse::<Chip>(), Err(ChipError::Unknown("sm_70".into())));
    }
}
