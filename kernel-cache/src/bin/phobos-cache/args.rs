//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use phobos_artifact::Chip;
use phobos_worker::fingerprint;

use crate::pattern::Pattern;

/// Fills, shows and empties the cache of compiled kernels.
///
/// The cache is the directory given with --dir, else PHOBOS_KERNEL_CACHE_DIR, else
/// ~/.phobos/kernel-cache.
#[derive(Debug, Parser)]
#[command(name = "phobos-cache", version = fingerprint::version(), after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  PHOBOS_KERNEL_MANIFEST=m phobos-cli --gguf model.gguf -n 1 hello   record what a model needs
  phobos-cache warm --manifest m --chip host-x86-64-v3 --chip host   compile it for two levels
  phobos-cache list --chip host-x86-64-v3                            show what is there
  phobos-cache clear 'flash_*'                                       remove some kernels
  phobos-cache prune --manifest m --dry-run                          what does m not need?
  phobos-cache completions bash > /etc/bash_completion.d/phobos-cache";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compile every request of the manifests, without a device
    #[command(after_help = WARM_EXAMPLES)]
    Warm(Warm),
    /// Show the kernels by chip and name with their size
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Remove kernels, and what older versions and crashes left behind
    #[command(after_help = CLEAR_EXAMPLES)]
    Clear(Clear),
    /// Remove what the given manifests do not ask for, other builds' kernels included
    #[command(after_help = PRUNE_EXAMPLES)]
    Prune(Prune),
    /// Print a completion script for a shell
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

const WARM_EXAMPLES: &str = "\
Examples:
  phobos-cache warm --manifest m                         for this machine's CPU
  phobos-cache warm --manifest m --chip all --jobs 8     for every chip
  phobos-cache warm --manifest m --chip sm_86 'gemm_*'   some kernels only";

const LIST_EXAMPLES: &str = "\
Examples:
  phobos-cache list
  phobos-cache list --json --dir ./kernel-cache 'linear*'";

const CLEAR_EXAMPLES: &str = "\
Examples:
  phobos-cache clear --dry-run
  phobos-cache clear --chip sm_86 'flash_*' rms_norm";

const PRUNE_EXAMPLES: &str = "\
Examples:
  phobos-cache prune --manifest llama --manifest qwen";

/// The chips of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Chips {
    All,
    One(Chip),
}

fn parse_chips(text: &str) -> Result<Chips, String> {
    match text {
        "all" => Ok(Chips::All),
        name => {
            name.parse().map(Chips::One).map_err(|error: phobos_artifact::chip::ChipError| error.to_string())
        }
    }
}

/// Which kernels.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// A chip: sm_75, sm_80, sm_86, sm_89, sm_90, sm_120, host-x86-64-v2, -v3, -v4, -v4-vnni, host
    /// (the best level of this CPU) or all; may be repeated.
    #[arg(long = "chip", value_name = "CHIP", value_parser = parse_chips)]
    chips: Vec<Chips>,
    /// Kernels by name; `*` stands for any characters. All when none is given.
    #[arg(value_name = "KERNEL")]
    pub(crate) kernels: Vec<Pattern>,
}

impl Selection {
    /// The chips that were named, or `default` when none was.
    pub(crate) fn chips(&self, default: impl FnOnce() -> Vec<Chip>) -> Vec<Chip> {
        if self.chips.is_empty() {
            return default();
        }
        let mut chips = Vec::new();
        for chip in &self.chips {
            let named = match chip {
                Chips::All => every_chip(),
                Chips::One(chip) => vec![*chip],
            };
            chips.extend(named.into_iter().filter(|chip| !chips.contains(chip)).collect::<Vec<_>>());
        }
        chips
    }

    /// Whether a kernel of this name is meant.
    pub(crate) fn has_kernel(&self, name: &str) -> bool {
        self.kernels.is_empty() || self.kernels.iter().any(|pattern| pattern.matches(name))
    }
}

/// Every chip that kernels are compiled for.
pub(crate) fn every_chip() -> Vec<Chip> {
    let levels = phobos_artifact::HostLevel::BEST_FIRST.into_iter().rev().map(Chip::Host);
    Chip::GPUS.into_iter().chain(levels).collect()
}

#[derive(Debug, Args)]
pub(crate) struct Warm {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The cache to fill.
    #[arg(long, value_name = "CACHE")]
    pub(crate) dir: Option<PathBuf>,
    /// A manifest that a run recorded; may be repeated.
    #[arg(long = "manifest", value_name = "DIR", required = true)]
    pub(crate) manifests: Vec<PathBuf>,
    /// How many kernels to compile at the same time [default: the number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Compile also what is there.
    #[arg(long)]
    pub(crate) force: bool,
    /// The ptxas that assembles PTX [default: from PATH, then CUDA_PATH]
    #[arg(long, value_name = "PATH", conflicts_with = "no_ptxas")]
    pub(crate) ptxas: Option<PathBuf>,
    /// Store PTX only, also where there is a ptxas.
    #[arg(long)]
    pub(crate) no_ptxas: bool,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The cache to show [default: yours and the one beside the program]
    #[arg(long, value_name = "CACHE")]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Clear {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The cache to empty.
    #[arg(long, value_name = "CACHE")]
    pub(crate) dir: Option<PathBuf>,
    /// Say what would be removed, and remove nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Prune {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The cache to prune.
    #[arg(long, value_name = "CACHE")]
    pub(crate) dir: Option<PathBuf>,
    /// A manifest whose kernels stay; may be repeated.
    #[arg(long = "manifest", value_name = "DIR", required = true)]
    pub(crate) manifests: Vec<PathBuf>,
    /// Say what would be removed, and remove nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn chips_are_named_once() {
        let parse = |arguments: &[&str]| {
            let line = ["phobos-cache", "list"].iter().chain(arguments);
            match Arguments::try_parse_from(line).unwrap().command {
                Command::List(list) => list.selection.chips(Vec::new),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            parse(&["--chip", "sm_86", "--chip", "sm_75", "--chip", "sm_86"]),
            [Chip::Sm(86), Chip::Sm(75)]
        );
        assert_eq!(parse(&["--chip", "all", "--chip", "sm_75"]).len(), 10);
        assert!(parse(&[]).is_empty());
    }
}
