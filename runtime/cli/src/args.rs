//! Command lines as typed: plain data, no defaults from the environment, no checks
//! across flags. [`crate::options`] turns them into what the programs use.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};

const EXAMPLES: &str = "\
Examples:
  phobos-cli --gguf model.gguf 'Why is the sky blue?'
  phobos-cli --gguf model.gguf                     a conversation; /help lists its commands
  phobos-cli --gguf model.gguf 'What does this do?' < main.c
  phobos-cli --gguf model.gguf --raw -n 32 -t 0 'Once upon a time'
  phobos-cli inspect model.gguf --tensors
  phobos-cli completions bash > phobos-cli.bash

Only the model's text goes to standard output.
Standard input that is no terminal is read to its end: it is the prompt, or stands behind
PROMPT and a blank line. Give `< /dev/null` where it shall not be read.

Exit status: 0 done, 1 failure, 2 bad usage or input (also of a turn of --lines), 130
interrupted, 143 terminated.";

/// `phobos-cli` as typed.
#[derive(Debug, Parser)]
#[command(
    name = "phobos-cli",
    about = "Runs a language model from a GGUF file; every device operation is a Phobos kernel.",
    after_help = EXAMPLES,
    disable_version_flag = true,
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    override_usage = "phobos-cli --gguf <FILE> [OPTIONS] [PROMPT]\n       phobos-cli <COMMAND>"
)]
pub struct CliArgs {
    /// What to do other than generate.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Where the model is and how it runs.
    #[command(flatten)]
    pub model: ModelArgs,

    /// What to ask, `-` for standard input; without it, a conversation at the terminal.
    // As many as there are, so that more than one can be told to need quotes.
    #[arg(value_name = "PROMPT", num_args = 0..)]
    pub prompt: Vec<String>,

    /// At most this many tokens per answer; -1 until the model ends it [default: -1].
    #[arg(short = 'n', long = "num", value_name = "N", value_parser = parse::count, allow_negative_numbers = true)]
    pub num: Option<Count>,

    /// Take each line of standard input as a turn of a conversation.
    #[arg(long, conflicts_with_all = ["prompt", "raw"])]
    pub lines: bool,

    /// Let the oldest turns go when a conversation no longer fits the context.
    #[arg(long)]
    pub drop_oldest: bool,

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
    #[arg(long, value_name = "FILE")]
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
    /// takes twice its size. A mapped file of f32, f16 or bf16 must not be truncated or
    /// rewritten in place while it is in use: that ends the program (SIGBUS) or changes the
    /// weights.
    #[arg(long)]
    pub no_mmap: bool,
}

/// How tokens are chosen.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// Temperature, up to 2; 0 always takes the best token [default: 0.8].
    #[arg(short = 't', value_name = "T", value_parser = parse::short_temperature, allow_negative_numbers = true, overrides_with = "temp")]
    pub short_temp: Option<f32>,

    /// The same without the limit.
    #[arg(long, value_name = "T", allow_negative_numbers = true, overrides_with = "short_temp")]
    pub temp: Option<f32>,

    /// Choose among the K best tokens; 0 for all.
    #[arg(short = 'k', long, value_name = "K", default_value_t = 40)]
    pub top_k: u32,

    /// Choose among the best tokens whose probabilities reach P; 1 for all.
    #[arg(short = 'p', long, value_name = "P", default_value_t = 0.95, value_parser = parse::top_p, allow_negative_numbers = true)]
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

    /// Seed of the draws; -1 for a new one each run [default: -1].
    #[arg(long, value_name = "SEED", value_parser = parse::seed, allow_negative_numbers = true)]
    pub seed: Option<Seed>,
}

/// `--num`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// No limit: -1.
    Unlimited,
    /// At most so many.
    Most(u64),
}

/// `--seed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seed {
    /// A new one each run: -1.
    New,
    /// This.
    Fixed(u64),
}

/// Values as typed.
mod parse {
    use super::{Count, Seed};

    pub fn count(text: &str) -> Result<Count, String> {
        match text.parse() {
            _ if text == "-1" => Ok(Count::Unlimited),
            Ok(most @ 1..) => Ok(Count::Most(most)),
            _ => Err("expected a number from 1, or -1 for no limit".to_owned()),
        }
    }

    pub fn seed(text: &str) -> Result<Seed, String> {
        match text.parse() {
            _ if text == "-1" => Ok(Seed::New),
            Ok(seed) => Ok(Seed::Fixed(seed)),
            _ => Err("expected a number from 0, or -1 for a new seed each run".to_owned()),
        }
    }

    /// In other programs `-t` is the number of threads: what can hardly be meant as a
    /// temperature is to be spelled out.
    pub fn short_temperature(text: &str) -> Result<f32, String> {
        match text.parse::<f32>() {
            Ok(value) if value > 2.0 => {
                Err("so high a temperature is to be given by --temp (threads are --threads)".to_owned())
            }
            Ok(value) => Ok(value),
            Err(error) => Err(error.to_string()),
        }
    }

    pub fn top_p(text: &str) -> Result<f32, String> {
        text.parse().map_err(|error| format!("{error} (-p is --top-p; a prompt has no flag)"))
    }
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
    args_override_self = true,
    override_usage = "phobos-bench --gguf <FILE> [OPTIONS]",
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
