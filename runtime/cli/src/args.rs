//! Command lines as typed: plain data, no defaults from the environment, no checks
//! across flags. [`crate::options`] turns them into what the programs use.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};

const EXAMPLES: &str = "\
Examples:
  phobos-cli --gguf model.gguf 'Why is the sky blue?'
  phobos-cli --gguf model.gguf                     a conversation; /reset starts anew, /exit ends it
  phobos-cli --gguf model.gguf --raw -n 32 -t 0 'Once upon a time'
  phobos-cli inspect model.gguf --tensors
  phobos-cli completions bash > phobos-cli.bash

Only the model's text goes to standard output.
Exit status: 0 done, 1 failure, 2 bad usage or input, 130 interrupted.";

/// `phobos-cli` as typed.
#[derive(Debug, Parser)]
#[command(
    name = "phobos-cli",
    about = "Runs a language model from a GGUF file; every device operation is a Phobos kernel.",
    after_help = EXAMPLES,
    disable_version_flag = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct CliArgs {
    /// What to do other than generate.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Where the model is and how it runs.
    #[command(flatten)]
    pub model: ModelArgs,

    /// What to ask; without it, a conversation on standard input.
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,

    /// At most this many tokens per answer [default: until the model ends it].
    #[arg(short = 'n', long = "num", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub num: Option<u64>,

    /// Take the prompt as it is, without the model's chat template.
    #[arg(long)]
    pub raw: bool,

    /// How tokens are chosen.
    #[command(flatten)]
    pub sampling: SamplingArgs,

    /// Print the version and the compiler fingerprint.
    #[arg(short = 'V', long)]
    pub version: bool,
}

/// Where the model is and how it runs: shared by the programs.
#[derive(Clone, Debug, Args)]
pub struct ModelArgs {
    /// The model file.
    #[arg(long, value_name = "FILE", required_unless_present = "version")]
    pub gguf: Option<PathBuf>,

    /// Worker threads of the host device [default: one per physical core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,

    /// Where kernels run: host, cuda or emulator:sm_XX [env: PHOBOS_DEVICE] [default: host].
    #[arg(long, value_name = "DEVICE", value_parser = NonEmptyStringValueParser::new())]
    pub device: Option<String>,

    /// Precision of activations in products with quantised weights.
    #[arg(long, value_enum, default_value_t = ActArg::F32)]
    pub act: ActArg,

    /// Element of the key/value cache.
    #[arg(long, value_enum, default_value_t = KvArg::F16)]
    pub kv: KvArg,

    /// Positions of the context [default: the model's, at most 4096].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub ctx: Option<u64>,

    /// Read the file into memory instead of mapping it; while it loads, a quantised model then
    /// takes twice its size.
    #[arg(long)]
    pub no_mmap: bool,
}

/// How tokens are chosen.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// Temperature; 0 always takes the best token.
    #[arg(short = 't', long, value_name = "T", default_value_t = 0.8, allow_negative_numbers = true)]
    pub temp: f32,

    /// Choose among the K best tokens; 0 for all.
    #[arg(short = 'k', long, value_name = "K", default_value_t = 40)]
    pub top_k: u32,

    /// Choose among the best tokens whose probabilities reach P; 1 for all.
    #[arg(short = 'p', long, value_name = "P", default_value_t = 0.95, allow_negative_numbers = true)]
    pub top_p: f32,

    /// Choose among tokens at least P times as likely as the best; 0 for all.
    #[arg(long, value_name = "P", default_value_t = 0.05, allow_negative_numbers = true)]
    pub min_p: f32,

    /// Taken once from the logit of each token that the answer already has.
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    pub presence_penalty: f32,

    /// Makes tokens that the context already has less likely; 1 changes nothing.
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true)]
    pub repetition_penalty: f32,

    /// Seed of the draws [default: a new one each run].
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
}

/// `--act`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ActArg {
    /// Exact products with f32 activations.
    F32,
    /// Products of integers: activations in blocks of 16-bit codes when decoding, of 8-bit
    /// codes when reading a prompt.
    Q8,
}

/// `--kv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KvArg {
    /// Half precision.
    F16,
    /// Single precision.
    F32,
}

/// What `phobos-cli` does other than generate.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what a GGUF file holds.
    Inspect {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// List the tensors too.
        #[arg(long)]
        tensors: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Read the file into memory instead of mapping it.
        #[arg(long)]
        no_mmap: bool,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

/// `phobos-bench` as typed.
#[derive(Debug, Parser)]
#[command(
    name = "phobos-bench",
    about = "Measures prompt processing and generation in tokens per second.",
    disable_version_flag = true,
    after_help = "Example:\n  phobos-bench --gguf model.gguf --prompt-tokens 512 --gen-tokens 64 --threads 2 --json"
)]
pub struct BenchArgs {
    /// Where the model is and how it runs.
    #[command(flatten)]
    pub model: ModelArgs,

    /// Tokens of the prompt; 0 leaves the measurement out.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub prompt_tokens: u64,

    /// Tokens to generate; 0 leaves the measurement out.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub gen_tokens: u64,

    /// Tokens in the context before what is measured; reading them is not in the numbers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub depth: u64,

    /// Measure this often and give the median.
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,

    /// Print the version and the compiler fingerprint.
    #[arg(short = 'V', long)]
    pub version: bool,
}
