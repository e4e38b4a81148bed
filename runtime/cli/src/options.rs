//! From flags as typed to what the programs use: environment, defaults, conflicts.

use std::{
    hash::{BuildHasher, RandomState},
    path::PathBuf,
    sync::Arc,
};

use clap::CommandFactory;
use phobos_artifact::DType;
use phobos_device::Device;
use phobos_engine::{EngineError, EngineOptions, GenerateParams, SamplingParams};
use phobos_models::{Activations, Settings};

use crate::{
    args::{ActArg, BenchArgs, CliArgs, Count, KvArg, ModelArgs, SamplingArgs, Seed},
    failure::Failure,
};

/// What the resolve step reads from the process, so that it can be tested without one.
pub trait Environment {
    /// An environment variable, when set and not empty.
    fn variable(&self, name: &str) -> Option<String>;
    /// A seed that differs from run to run.
    fn seed(&self) -> u64;
}

/// The process.
pub struct Process;

impl Environment for Process {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }

    fn seed(&self) -> u64 {
        // The standard library's per-process random keys are the only entropy needed; a
        // seed of at most 32 bits is easier to type again.
        RandomState::new().hash_one(std::process::id()) >> 32
    }
}

/// Where a model runs.
#[derive(Debug)]
pub struct Place {
    /// The device's name.
    pub device: String,
    /// Threads of the host device; `None` takes what the machine has.
    pub threads: Option<usize>,
}

impl Place {
    /// Opens the device.
    pub fn open(&self) -> Result<Arc<dyn Device>, Failure> {
        let options = phobos_devices::OpenOptions { threads: self.threads };
        Ok(phobos_devices::open(&self.device, &options).map_err(EngineError::from)?)
    }
}

/// What `phobos-cli` runs a model with.
#[derive(Debug)]
pub struct CliOptions {
    /// The model file.
    pub gguf: PathBuf,
    /// Where the model runs.
    pub place: Place,
    /// How it runs.
    pub engine: EngineOptions,
    /// How it answers.
    pub generate: GenerateParams,
    /// What to ask, `-` for standard input.
    pub prompt: Option<String>,
    /// Each line of standard input is a turn of a conversation.
    pub lines: bool,
    /// What a conversation does when it no longer fits the context.
    pub drop_oldest: bool,
    /// Leave out the chat template.
    pub raw: bool,
}

/// What `phobos-bench` measures.
#[derive(Debug)]
pub struct BenchOptions {
    /// The model file.
    pub gguf: PathBuf,
    /// Where the model runs.
    pub place: Place,
    /// How it runs.
    pub engine: EngineOptions,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens to generate.
    pub gen_tokens: usize,
    /// Tokens in the context before either.
    pub depth: usize,
    /// Measurements.
    pub repeat: u32,
    /// Print JSON.
    pub json: bool,
}

impl CliOptions {
    /// Resolves the flags of `phobos-cli`.
    pub fn resolve(args: CliArgs, environment: &dyn Environment) -> Result<CliOptions, Failure> {
        if args.model.gguf.is_none()
            && let [word, ..] = &args.prompt[..]
            && let Some(meant) = similar_command(word)
        {
            return Err(Failure::usage(format!("no subcommand `{word}`: did you mean `{meant}`?")));
        }
        let prompt = match &args.prompt[..] {
            [] => None,
            [prompt] => Some(prompt.clone()),
            [first, second, ..] => {
                let problem = format!("`{first}` and `{second}` are two prompts: quote the prompt");
                return Err(Failure::usage(problem));
            }
        };
        let (gguf, place, engine) = model(args.model, environment)?;
        let sampling = sampling(&args.sampling, environment)?;
        let max_tokens = match args.num {
            Some(Count::Most(most)) => Some(most),
            Some(Count::Unlimited) | None => None,
        };
        let generate = GenerateParams { sampling, max_tokens };
        let (raw, lines, drop_oldest) = (args.raw, args.lines, args.drop_oldest);
        Ok(CliOptions { gguf, place, engine, generate, prompt, lines, drop_oldest, raw })
    }
}

/// The subcommand that `word` may be a slip of the keys of.
fn similar_command(word: &str) -> Option<String> {
    let command = CliArgs::command();
    let names = command.get_subcommands().map(|command| command.get_name().to_owned());
    let distance = |name: &String| strsim::osa_distance(word, name);
    names.min_by_key(distance).filter(|name| distance(name) <= 2)
}

impl BenchOptions {
    /// Resolves the flags of `phobos-bench`.
    pub fn resolve(args: BenchArgs, environment: &dyn Environment) -> Result<BenchOptions, Failure> {
        let (gguf, place, mut engine) = model(args.model, environment)?;
        let tokens = |flag: &str, value: u64| match usize::try_from(value) {
            Ok(tokens) if tokens <= MAX_BENCH_TOKENS => Ok(tokens),
            _ => Err(Failure::usage(format!("{flag} {value}: expected at most {MAX_BENCH_TOKENS}"))),
        };
        let prompt_tokens = tokens("--prompt-tokens", args.prompt_tokens)?;
        let gen_tokens = tokens("--gen-tokens", args.gen_tokens)?;
        let depth = tokens("--depth", args.depth)?;
        if prompt_tokens + gen_tokens == 0 {
            return Err(Failure::usage("--prompt-tokens 0 with --gen-tokens 0 measures nothing"));
        }
        // The context that the measurement needs; at least one position is read before generating.
        let positions = (depth + prompt_tokens).max(depth.max(1) + gen_tokens);
        engine.settings.context.get_or_insert(positions as u64);
        // A compiler beside it would be measured too.
        engine.upgrade = false;
        let (repeat, json) = (args.repeat, args.json);
        Ok(BenchOptions { gguf, place, engine, prompt_tokens, gen_tokens, depth, repeat, json })
    }
}

const MAX_BENCH_TOKENS: usize = 1 << 20;

/// The file and how the model runs.
fn model(args: ModelArgs, environment: &dyn Environment) -> Result<(PathBuf, Place, EngineOptions), Failure> {
    let gguf = args.gguf.ok_or_else(|| Failure::usage("--gguf FILE is missing"))?;
    let device = args.device.or_else(|| environment.variable("PHOBOS_DEVICE"));
    let activations = match args.act {
        ActArg::F32 => Activations::F32,
        ActArg::Q8 => Activations::Q8,
    };
    let kv = match args.kv {
        KvArg::F16 => DType::F16,
        KvArg::F32 => DType::F32,
    };
    let place = Place {
        device: device.unwrap_or_else(|| "host".to_owned()),
        threads: args.threads.map(|threads| threads as usize),
    };
    let engine = EngineOptions {
        mmap: !args.no_mmap,
        upgrade: true,
        settings: Settings { context: args.ctx, kv, activations, ..Settings::default() },
    };
    Ok((gguf, place, engine))
}

fn sampling(args: &SamplingArgs, environment: &dyn Environment) -> Result<SamplingParams, Failure> {
    let defaults = SamplingParams::default();
    let params = SamplingParams {
        // One overrides the other.
        temperature: args.temp.or(args.short_temp).unwrap_or(defaults.temperature),
        top_k: args.top_k,
        top_p: args.top_p,
        min_p: args.min_p,
        presence_penalty: args.presence_penalty,
        repetition_penalty: args.repetition_penalty,
        seed: match args.seed {
            Some(Seed::Fixed(seed)) => seed,
            Some(Seed::New) | None => environment.seed(),
        },
    };
    params.validate().map_err(Failure::usage)?;
    Ok(params)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// An environment with at most PHOBOS_DEVICE in it.
    struct Fixed(Option<&'static str>);

    impl Environment for Fixed {
        fn variable(&self, name: &str) -> Option<String> {
            (name == "PHOBOS_DEVICE").then_some(self.0).flatten().map(str::to_owned)
        }

        fn seed(&self) -> u64 {
            42
        }
    }

    fn cli(line: &str, environment: &dyn Environment) -> Result<CliOptions, Failure> {
        let words = std::iter::once("phobos-cli").chain(line.split_whitespace());
        CliOptions::resolve(CliArgs::try_parse_from(words).unwrap(), environment)
    }

    fn bench(line: &str) -> Result<BenchOptions, Failure> {
        let words = std::iter::once("phobos-bench").chain(line.split_whitespace());
        BenchOptions::resolve(BenchArgs::try_parse_from(words).unwrap(), &Fixed(None))
    }

    #[test]
    fn the_flag_tables_are_consistent() {
        CliArgs::command().debug_assert();
        BenchArgs::command().debug_assert();
    }

    #[test]
    fn defaults() {
        let options = cli("--gguf m.gguf hello", &Fixed(None)).unwrap();
        assert_eq!(options.gguf, PathBuf::from("m.gguf"));
        assert_eq!(options.prompt.as_deref(), Some("hello"));
        assert_eq!(options.place.device, "host");
        assert_eq!(options.place.threads, None);
        assert!(options.engine.mmap && !options.raw);
        assert_eq!(options.engine.settings, Settings::default());
        assert_eq!(options.generate.sampling, SamplingParams { seed: 42, ..SamplingParams::default() });
        assert_eq!(options.generate.max_tokens, None);
    }

    #[test]
    fn every_flag_arrives() {
        let line = "--gguf m.gguf -n 5 -t 0.5 -k 7 -p 0.9 --min-p 0.1 --presence-penalty -0.5 \
                    --repetition-penalty 1.1 --seed 9 --raw --threads 3 --device emulator:sm_86 --act q8 \
                    --ctx 128 --no-mmap --kv f32 x";
        let options = cli(line, &Fixed(None)).unwrap();
        let sampling = SamplingParams {
            temperature: 0.5,
            top_k: 7,
            top_p: 0.9,
            min_p: 0.1,
            presence_penalty: -0.5,
            repetition_penalty: 1.1,
            seed: 9,
        };
        assert_eq!(options.generate.sampling, sampling);
        assert_eq!(options.generate.max_tokens, Some(5));
        assert_eq!((options.raw, options.place.threads), (true, Some(3)));
        assert_eq!(options.place.device, "emulator:sm_86");
        assert!(!options.engine.mmap);
        let settings = Settings {
            context: Some(128),
            kv: DType::F32,
            activations: Activations::Q8,
            ..Settings::default()
        };
        assert_eq!(options.engine.settings, settings);
    }

    #[test]
    fn the_flag_wins_over_the_environment_and_that_over_the_default() {
        let environment = Fixed(Some("emulator:sm_75"));
        let device = |line: &str| cli(line, &environment).unwrap().place.device;
        assert_eq!(device("--gguf m x"), "emulator:sm_75");
        assert_eq!(device("--gguf m --device host x"), "host");
    }

    #[test]
    fn values_out_of_range_and_conflicts_are_usage_errors() {
        for (line, expected) in [
            ("--gguf m -t -1 x", "temperature is -1: expected 0 (greedy) or a positive number"),
            ("--gguf m -t nan x", "temperature is NaN: expected 0 (greedy) or a positive number"),
            ("--gguf m -p 2 x", "top-p is 2: expected 0 to 1"),
            ("--gguf m --repetition-penalty 0 x", "repetition penalty is 0: expected a positive number"),
            ("--gguf m hello world", "`hello` and `world` are two prompts: quote the prompt"),
            ("insepct m", "no subcommand `insepct`: did you mean `inspect`?"),
            ("inspcet", "no subcommand `inspcet`: did you mean `inspect`?"),
            ("hello", "--gguf FILE is missing"),
        ] {
            let failure = cli(line, &Fixed(None)).unwrap_err();
            assert!(failure.message.starts_with(expected), "{line}: {}", failure.message);
            assert_eq!(failure.code, Failure::USAGE, "{line}");
        }
    }

    #[test]
    fn minus_one_is_the_default_and_the_last_of_a_repeated_flag_counts() {
        let options = cli("--gguf m -n 3 -n -1 --seed 5 --seed -1 --ctx 9 --ctx 8 x", &Fixed(None)).unwrap();
        assert_eq!(options.generate.max_tokens, None);
        assert_eq!(options.generate.sampling.seed, 42);
        assert_eq!(options.engine.settings.context, Some(8));
        let temperature = |line: &str| cli(line, &Fixed(None)).unwrap().generate.sampling.temperature;
        assert_eq!(temperature("--gguf m x"), SamplingParams::default().temperature);
        assert_eq!(temperature("--gguf m --temp 4 x"), 4.0);
        assert_eq!(temperature("--gguf m --temp 4 -t 1 x"), 1.0);
        assert_eq!(temperature("--gguf m -t 1 --temp 0 x"), 0.0);
        assert_eq!(bench("--gguf m --depth 3 --depth 4").unwrap().depth, 4);
    }

    #[test]
    fn a_bench_takes_the_context_it_needs() {
        let options = bench("--gguf m --prompt-tokens 100 --gen-tokens 200").unwrap();
        assert_eq!(options.engine.settings.context, Some(201));
        assert_eq!(bench("--gguf m --ctx 77").unwrap().engine.settings.context, Some(77));
        let context = |line: &str| bench(line).unwrap().engine.settings.context;
        assert_eq!(context("--gguf m --prompt-tokens 100 --gen-tokens 64 --depth 2048"), Some(2148));
        assert_eq!(context("--gguf m --prompt-tokens 0 --gen-tokens 64 --depth 2048"), Some(2112));
        assert!(bench("--gguf m --depth 99999999").is_err());
        assert!(bench("--gguf m --prompt-tokens 0 --gen-tokens 0").is_err());
        assert!(bench("--gguf m --prompt-tokens 99999999").is_err());
    }

    #[test]
    fn a_prompt_may_be_called_like_a_subcommand() {
        assert_eq!(cli("--gguf m inspect", &Fixed(None)).unwrap().prompt.as_deref(), Some("inspect"));
    }
}
