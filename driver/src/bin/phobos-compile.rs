//! `phobos-compile`: kernels to artifacts, and the worker that the runtime asks.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{CommandFactory, Parser, ValueEnum};
use phobos_artifact::{Chip, CompileOptions, CompileRequest, DimRange, Element, IndexBits, Metadata};
use phobos_driver::{
    Failure, Stage,
    compile::{Messages, Output, expand_imports},
    compile_to,
};
use phobos_lang::{MAX_TEXT, SourceFile, diagnostics::RenderOptions, import::Loader};
use phobos_worker::{fingerprint::version_line, frame::FailureKind};

const EXAMPLES: &str = "\
Examples:
  phobos-compile examples/saxpy_fp32.ph --chip host -o saxpy.phk
  phobos-compile models/kernels/linear.ph --kernel linear --type A=q16_1 --type F=q4_1 --param TILE_M=1 \\
      --chip host --explain
  phobos-compile k.ph --chip host --emit llvm
  phobos-compile --explain PH0012

Environment:
  PHOBOS_PRINT_PHASES=1  print the time of each phase to stderr
  NO_COLOR               no colours in diagnostics

Exit status: 0 done; 2 the source or the arguments are wrong; 1 everything else.";

/// Compiles a .ph kernel to an artifact.
#[derive(Parser)]
#[command(name = "phobos-compile", after_help = EXAMPLES, disable_version_flag = true)]
struct Arguments {
    /// The .ph source; with --explain also a code
    file: Option<PathBuf>,
    /// The kernel to compile; not needed when the source has only one
    #[arg(long, value_name = "K")]
    kernel: Option<String>,
    /// host, host-x86-64-v2, -v3, -v4, -v4-vnni, or sm_75, sm_80, sm_86, sm_89, sm_90, sm_120
    #[arg(long, default_value = "sm_75", value_name = "CHIP")]
    chip: String,
    /// Fix an @autotune parameter
    #[arg(long = "param", value_name = "N=V", value_parser = number)]
    params: Vec<(String, u64)>,
    /// Fix a named dim at compile time
    #[arg(long = "dim", value_name = "N=V", value_parser = number)]
    dims: Vec<(String, u64)>,
    /// Say which values a dim has at launch, such as M=1, M=2..31 or M=32..: tiles are chosen
    /// for them
    #[arg(long = "range", value_name = "N=A..B", value_parser = range)]
    ranges: Vec<(String, DimRange)>,
    /// Bind a generic parameter to an element type, such as F=q4_1
    #[arg(long = "type", value_name = "N=T", value_parser = element)]
    types: Vec<(String, Element)>,
    /// Width of index arithmetic; by default what the sizes need
    #[arg(long, value_name = "32|64")]
    index_bits: Option<Bits>,
    /// Take the first value of each @autotune list
    #[arg(long)]
    no_tune: bool,
    /// Stop at a stage and write it
    #[arg(long, value_enum)]
    emit: Option<Emit>,
    /// Where to write; `-` is stdout
    #[arg(short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Say which path each dot took and why; with a code such as PH0012 in place of the file,
    /// explain that diagnostic
    #[arg(long)]
    explain: bool,
    /// How diagnostics are written to stderr
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    message_format: MessageFormat,
    /// Print the version and the compiler's fingerprint
    #[arg(long, short = 'V')]
    version: bool,
    /// Print a completion script
    #[arg(long, value_enum, value_name = "SHELL")]
    completions: Option<clap_complete::Shell>,
    /// Answer requests of the runtime on stdin and stdout
    #[arg(long, hide = true)]
    worker: bool,
    /// The most memory of the worker in bytes
    #[arg(long, hide = true)]
    memory_limit: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Bits {
    #[value(name = "32")]
    B32,
    #[value(name = "64")]
    B64,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Emit {
    /// Tile IR with parameters
    Tile,
    /// Tile IR with parameters bound
    Specialized,
    /// The llvm dialect
    Host,
    /// LLVM IR
    Llvm,
    /// Assembly
    Asm,
    /// A relocatable object
    Obj,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum MessageFormat {
    Text,
    Json,
}

fn pair(text: &str) -> Result<(String, &str), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value)),
        _ => Err("expected NAME=VALUE".into()),
    }
}

fn number(text: &str) -> Result<(String, u64), String> {
    let (name, value) = pair(text)?;
    let value = value.parse().map_err(|_| format!("`{value}` is not a whole number"))?;
    Ok((name, value))
}

fn range(text: &str) -> Result<(String, DimRange), String> {
    let (name, value) = pair(text)?;
    let range = value.parse().map_err(|error| format!("{error}"))?;
    Ok((name, range))
}

fn element(text: &str) -> Result<(String, Element), String> {
    let (name, value) = pair(text)?;
    let element = value.parse().map_err(|error| format!("{error}"))?;
    Ok((name, element))
}

/// A failure with the exit status that says whose fault it was.
struct Exit {
    status: u8,
    message: String,
}

impl Exit {
    fn usage(message: impl Into<String>) -> Exit {
        Exit { status: 2, message: format!("error: {}\n", message.into()) }
    }

    fn other(message: impl Into<String>) -> Exit {
        Exit { status: 1, message: format!("error: {}\n", message.into()) }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => {
            // A closed stderr leaves nobody to tell.
            io::stderr().write_all(exit.message.as_bytes()).ok();
            ExitCode::from(exit.status)
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Exit> {
    if arguments.version {
        return print(version_line("phobos-compile").as_bytes(), true);
    }
    if let Some(shell) = arguments.completions {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "phobos-compile", &mut script);
        return print(&script, false);
    }
    if arguments.worker {
        if let Some(limit) = arguments.memory_limit {
            rlimit::setrlimit(rlimit::Resource::AS, limit, limit)
                .map_err(|error| Exit::other(format!("--memory-limit {limit}: {error}")))?;
        }
        return phobos_driver::worker::run().map_err(|error| Exit::other(error.to_string()));
    }
    let Some(file) = arguments.file.clone() else {
        return Err(Exit::usage("no input: name a .ph file (see --help)"));
    };
    if arguments.explain {
        if let Some(code) = file.to_str().filter(|text| looks_like_code(text)) {
            let code: phobos_lang::Code = code.parse().map_err(|error| Exit::usage(format!("{error}")))?;
            return print(code.explain().as_bytes(), false);
        }
        if let Some(emit @ (Emit::Tile | Emit::Specialized)) = arguments.emit {
            let stage = emit.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            return Err(Exit::usage(format!(
                "--explain: `--emit {stage}` stops before paths are chosen; use a later stage, or no --emit"
            )));
        }
    }
    let colour =
        std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && io::stderr().is_terminal();
    let options = RenderOptions { colour };
    let (request, name) = request(&arguments, &file, options)?;
    let stage = match arguments.emit {
        None => Stage::Artifact,
        Some(Emit::Tile) => Stage::Tile,
        Some(Emit::Specialized) => Stage::Specialized,
        Some(Emit::Host) => Stage::Host,
        Some(Emit::Llvm) => Stage::Llvm,
        Some(Emit::Asm) => Stage::Asm,
        Some(Emit::Obj) => Stage::Obj,
    };
    let compiled = compile_to(&request, &name, stage, options)
        .map_err(|failure| failed(failure, arguments.message_format))?;
    warn(&compiled.warnings, arguments.message_format);
    if arguments.explain
        && let Some(metadata) = &compiled.metadata
    {
        explain(metadata);
    }
    write_output(&arguments, &file, &request, compiled.output)
}

/// Warnings, which change no exit status.
fn warn(warnings: &Messages, format: MessageFormat) {
    let text = match format {
        MessageFormat::Text => warnings.rendered.clone(),
        MessageFormat::Json => warnings.json.iter().map(|one| format!("{one}\n")).collect(),
    };
    // A closed stderr leaves nobody to tell.
    io::stderr().write_all(text.as_bytes()).ok();
}

/// `PH` and digits, whether there is such a diagnostic or not.
fn looks_like_code(text: &str) -> bool {
    let digits = text.get(..2).filter(|prefix| prefix.eq_ignore_ascii_case("PH")).and(text.get(2..));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn request(
    arguments: &Arguments,
    file: &Path,
    options: RenderOptions,
) -> Result<(CompileRequest, String), Exit> {
    let name = file.display().to_string();
    let text = read_text(file).map_err(|error| Exit::usage(format!("{name}: {error}")))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let source = expand_imports(&name, &text, &mut Folder(folder), options)
        .map_err(|failure| failed(failure, arguments.message_format))?;
    let chip: Chip = arguments.chip.parse().map_err(|error| Exit::usage(format!("--chip: {error}")))?;
    let kernel = match &arguments.kernel {
        Some(kernel) => kernel.clone(),
        None => only_kernel(&source, &name)?,
    };
    let index_bits = arguments.index_bits.map(|bits| match bits {
        Bits::B32 => IndexBits::B32,
        Bits::B64 => IndexBits::B64,
    });
    let request = CompileRequest {
        source,
        kernel,
        elements: unique("type", &arguments.types)?,
        dims: unique("dim", &arguments.dims)?,
        ranges: unique("range", &arguments.ranges)?,
        params: unique("param", &arguments.params)?,
        options: CompileOptions { index_bits, no_tune: arguments.no_tune },
        chip,
    };
    Ok((request, name))
}

/// The folder of the root file, from which imports are read.
struct Folder<'a>(&'a Path);

impl Loader for Folder<'_> {
    fn load(&mut self, path: &str) -> Result<String, String> {
        read_text(&self.0.join(path)).map_err(|error| error.to_string())
    }

    fn identity(&mut self, path: &str) -> String {
        // A file that cannot be found is reported when it is read.
        let found = fs::canonicalize(self.0.join(path));
        found.map_or_else(|_| path.to_owned(), |found| found.to_string_lossy().into_owned())
    }
}

/// Reads a source text, no more of it than the compiler takes.
fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(MAX_TEXT as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// The options of one kind as a map.
fn unique<V: Copy>(what: &str, pairs: &[(String, V)]) -> Result<BTreeMap<String, V>, Exit> {
    let mut map = BTreeMap::new();
    for (name, value) in pairs {
        if map.insert(name.clone(), *value).is_some() {
            return Err(Exit::usage(format!("--{what} {name} is given twice")));
        }
    }
    Ok(map)
}

/// The kernel of a source that has only one. Errors in the source are left to the
/// compilation, which reports them all.
fn only_kernel(source: &str, name: &str) -> Result<String, Exit> {
    let (module, _) = phobos_lang::parse(&SourceFile::new(name, source));
    let kernels: Vec<String> =
        phobos_lang::check::kernels(&module).map(|kernel| kernel.name.name.clone()).collect();
    match &kernels[..] {
        [] => Ok(String::new()),
        [kernel] => Ok(kernel.clone()),
        many => Err(Exit::usage(format!(
            "{name} has several kernels: choose with --kernel ({})",
            many.join(", ")
        ))),
    }
}

fn failed(failure: Failure, format: MessageFormat) -> Exit {
    let failure = failure.0;
    let status = match failure.kind {
        FailureKind::User => 2,
        FailureKind::Internal => 1,
    };
    let message = match (format, &failure.json) {
        (MessageFormat::Json, serde_json::Value::Array(all)) => {
            all.iter().map(|one| format!("{one}\n")).collect()
        }
        _ => failure.rendered,
    };
    Exit { status, message }
}

fn explain(metadata: &Metadata) {
    let params: Vec<String> = metadata.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    eprintln!("{} for {}: {}", metadata.kernel, metadata.chip, params.join(" "));
    eprintln!("  grid {} x {} x {}", metadata.grid[0], metadata.grid[1], metadata.grid[2]);
    eprintln!("  scratch {} bytes", metadata.scratch_bytes);
    for remark in &metadata.remarks {
        eprintln!("  {remark}");
    }
}

fn write_output(
    arguments: &Arguments,
    file: &Path,
    request: &CompileRequest,
    output: Output,
) -> Result<(), Exit> {
    let (bytes, default) = match output {
        Output::Text(text) => (text.into_bytes(), None),
        Output::Bytes(bytes) => (bytes, Some("o")),
        Output::Artifact(artifact) => (artifact.encode(), Some("phk")),
    };
    let target = match (&arguments.output, default) {
        (Some(path), _) if path.as_os_str() == "-" => None,
        (Some(path), _) => Some(path.clone()),
        (None, None) => None,
        (None, Some(extension)) => {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            Some(PathBuf::from(format!("{stem}.{}.{extension}", request.chip)))
        }
    };
    let Some(path) = target else { return print(&bytes, false) };
    write_file(&path, &bytes)
        .map_err(|error| Exit::other(format!("cannot write {}: {error}", path.display())))
}

/// Writes a file so that a reader never sees half of it: beside it, then renamed. A
/// device or a pipe, such as /dev/null, is written to and not replaced.
fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(path, bytes);
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tmp{}", std::process::id()));
    let temporary = path.with_file_name(name);
    fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
        fs::remove_file(&temporary).ok();
    })
}

/// Writes to stdout; a reader that went away is no error.
fn print(bytes: &[u8], newline: bool) -> Result<(), Exit> {
    let mut out = io::stdout().lock();
    let result = out.write_all(bytes).and_then(|()| if newline { out.write_all(b"\n") } else { Ok(()) });
    match result.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Exit::other(format!("stdout: {error}"))),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn flags_of(text: &str, found: &mut BTreeSet<String>) {
        for (at, _) in text.match_indices("--") {
            let before = text.get(..at).and_then(|before| before.chars().next_back());
            let name: String = text
                .get(at + 2..)
                .unwrap_or_default()
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '-')
                .collect();
            let begins = before.is_none_or(|c| c.is_whitespace() || "`\"({".contains(c));
            if begins && name.len() > 1 && !name.starts_with('-') {
                found.insert(name.trim_end_matches('-').to_owned());
            }
        }
    }

    fn read(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).expect("a folder of the sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                read(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "ph") {
                flags_of(&fs::read_to_string(&path).expect("a text"), found);
            }
        }
    }

    #[test]
    fn every_flag_that_a_message_names_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut named = BTreeSet::new();
        for folder in ["dialect/lang", "dialect/lower/src", "driver/src", "passes/src"] {
            read(&root.join(folder), &mut named);
        }
        let mut command = Arguments::command();
        command.build();
        let known: Vec<&str> = command.get_arguments().filter_map(|argument| argument.get_long()).collect();
        let passes = |name: &str| {
            ["phobos-", "convert-phobos-", "mlir-", "pass-pipeline"].iter().any(|p| name.starts_with(p))
        };
        let unknown: Vec<&String> =
            named.iter().filter(|name| !known.contains(&name.as_str()) && !passes(name)).collect();
        assert!(unknown.is_empty(), "no such flags: {unknown:?}");
        assert!(["type", "dim", "param", "chip"].iter().all(|name| named.contains(*name)), "{named:?}");
    }
}
