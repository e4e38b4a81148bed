//! The path from a request to an artifact.

use std::{collections::BTreeMap, sync::Once};

use phobos_artifact::{
    Artifact, Chip, CompileRequest, Contract, Image, ImageKind, IndexBits, Metadata,
    limits::{MAX_ARGUMENTS, MAX_DIMS},
};
use phobos_codegen::{CodegenError, FileKind, Translated, link};
use phobos_dialect::{
    Context, Module,
    driver::{MlirError, Report, new_context, register_mlir_passes, run_pipeline, with_diagnostics},
    ir,
    pass::Fault,
};
use phobos_lang::{
    Code, Diagnostic, Location, SourceFile, Span,
    diagnostics::{RenderOptions, render, to_json},
    import::Loader,
    typed::Kernel,
};
use phobos_lower::{Locate, LowerError};
use phobos_passes::host::{REMARKS_ATTRIBUTE, SCRATCH_ATTRIBUTE};
use phobos_worker::frame::{CompileFailure, FailureKind};

use crate::{metadata, phases::Phases, plant, tune};

/// How far to go, and in which form to show the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Tile IR with parameters.
    Tile,
    /// Tile IR with parameters bound.
    Specialized,
    /// The `llvm` dialect.
    Host,
    /// LLVM IR after optimisation.
    Llvm,
    /// Assembly.
    Asm,
    /// A relocatable object.
    Obj,
    /// The artifact.
    Artifact,
}

/// What a compilation gives.
#[derive(Debug)]
pub enum Output {
    /// Text of an intermediate stage.
    Text(String),
    /// Bytes of an object.
    Bytes(Vec<u8>),
    /// The artifact.
    Artifact(Box<Artifact>),
}

/// What a compilation gives, and what it found on the way.
#[derive(Debug)]
pub struct Compiled {
    /// The result of the stage.
    pub output: Output,
    /// What a launch must know, with the path that each operation took; `None` at the
    /// stages before the paths are chosen.
    pub metadata: Option<Box<Metadata>>,
    /// The warnings.
    pub warnings: Messages,
}

/// Diagnostics in both of their forms.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    /// As text.
    pub rendered: String,
    /// As objects.
    pub json: Vec<serde_json::Value>,
}

impl Messages {
    fn new(diagnostics: &[Diagnostic], source: &SourceFile, options: RenderOptions) -> Messages {
        let rendered = diagnostics.iter().map(|diagnostic| render(diagnostic, source, options)).collect();
        let json = diagnostics
            .iter()
            .map(|diagnostic| {
                serde_json::from_str(&to_json(diagnostic, source)).unwrap_or(serde_json::Value::Null)
            })
            .collect();
        Messages { rendered, json }
    }
}

/// Why a compilation failed, with the diagnostics rendered.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.rendered)]
pub struct Failure(pub CompileFailure);

impl Failure {
    fn user(text: impl Into<String>) -> Failure {
        let text = text.into();
        let json = serde_json::json!([{ "severity": "error", "message": text }]);
        Failure(CompileFailure { kind: FailureKind::User, rendered: format!("error: {text}\n"), json })
    }

    fn internal(text: impl Into<String>) -> Failure {
        let text = text.into();
        let json = serde_json::json!([{ "severity": "error", "message": text }]);
        let rendered = format!("internal error: {text}\n");
        Failure(CompileFailure { kind: FailureKind::Internal, rendered, json })
    }

    /// With what was said before it failed.
    fn behind(mut self, before: Messages) -> Failure {
        self.0.rendered = before.rendered + &self.0.rendered;
        if let serde_json::Value::Array(all) = &mut self.0.json {
            all.splice(0..0, before.json);
        }
        self
    }

    fn diagnostics(diagnostics: &[Diagnostic], source: &SourceFile, options: RenderOptions) -> Failure {
        let Messages { rendered, json } = Messages::new(diagnostics, source, options);
        Failure(CompileFailure { kind: FailureKind::User, rendered, json: serde_json::Value::Array(json) })
    }
}

/// The text of a source with its imports expanded; `loader` reads a file by its path
/// relative to the source, whose own path is `name`.
pub fn expand_imports(
    name: &str,
    text: &str,
    loader: &mut dyn Loader,
    options: RenderOptions,
) -> Result<String, Failure> {
    let (source, diagnostics) = phobos_lang::import::expand(name, text, loader);
    if phobos_lang::check::has_errors(&diagnostics) {
        return Err(Failure::diagnostics(&diagnostics, &source, options));
    }
    Ok(source.text().to_owned())
}

/// Compiles a request to its artifact. Warnings go to stderr.
pub fn compile(request: &CompileRequest) -> Result<Artifact, Failure> {
    let compiled = compile_to(request, "kernel.ph", Stage::Artifact, RenderOptions::default())?;
    eprint!("{}", compiled.warnings.rendered);
    match compiled.output {
        Output::Artifact(artifact) => Ok(*artifact),
        _ => Err(Failure::internal("the last stage gave no artifact")),
    }
}

/// Compiles a request up to a stage. `name` is the source's name in diagnostics.
/// Warnings come with the result, and before the errors of a compilation that fails.
pub fn compile_to(
    request: &CompileRequest,
    name: &str,
    stage: Stage,
    options: RenderOptions,
) -> Result<Compiled, Failure> {
    let source = SourceFile::new(name, &request.source);
    let mut phases = Phases::start();
    let (kernel, warnings) = front_end(request, &source, options)?;
    phases.end("check");
    let warnings = Messages::new(&warnings, &source, options);
    let path = Path { request, kernel: &kernel, source: &source, options };
    match path.compile(stage, phases) {
        Ok((output, metadata)) => Ok(Compiled { output, metadata, warnings }),
        Err(failure) => Err(failure.behind(warnings)),
    }
}

/// One compilation of a checked kernel.
struct Path<'a> {
    request: &'a CompileRequest,
    kernel: &'a Kernel,
    source: &'a SourceFile,
    options: RenderOptions,
}

impl Path<'_> {
    fn compile(&self, stage: Stage, mut phases: Phases) -> Result<(Output, Option<Box<Metadata>>), Failure> {
        let Path { request, kernel, source, options } = *self;
        register_passes();
        let Chip::Host(level) = request.chip else {
            return Err(Failure::user(format!(
                "code generation for {} is not available yet: use --chip host",
                request.chip
            )));
        };
        check_ranges(request, kernel)?;
        let rule = tune::HostRule::new(kernel, &request.ranges);
        let params = tune::choose(kernel, source, &request.params, request.options.no_tune, &rule)
            .map_err(|error| Failure::user(error.to_string()))?;
        let values = bindings(request, kernel, &params, source, options)?;
        phases.end("tune");

        let context = new_context();
        phases.end("context");
        let mut module = lower(&context, kernel, source, options)?;
        phases.end("lower");
        if stage == Stage::Tile {
            return Ok((Output::Text(text(&module)), None));
        }
        let bind: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let specialize = format!(
            "builtin.module(phobos.kernel(phobos-specialize{{bind={}}},phobos-simplify,cse))",
            bind.join(",")
        );
        run(&context, &mut module, &specialize, source, options)?;
        phases.end("specialize");
        if stage == Stage::Specialized {
            return Ok((Output::Text(text(&module)), None));
        }
        let dims = dim_names(&module)?;
        within_limits(kernel, dims.len()).map_err(|error| Failure::diagnostics(&[error], source, options))?;
        run(&context, &mut module, &phobos_passes::host_pipeline(level.name()), source, options)?;
        phases.end("passes");
        let (scratch, mut remarks) = function_facts(&module)?;
        if request.options.index_bits == Some(IndexBits::B32) {
            remarks.push("--index-bits 32 has no effect on the host: its index arithmetic is 64-bit".into());
        }
        let metadata = Box::new(metadata::for_host(request, kernel, &params, &dims, scratch, remarks));
        if stage == Stage::Host {
            return Ok((Output::Text(text(&module)), Some(metadata)));
        }
        plant::abort(&module, &kernel.name, level).map_err(|error| Failure::internal(error.to_string()))?;
        let (translated, messages) =
            with_diagnostics(&context, || Translated::for_host(ir::module_operation(&module), level));
        let mut translated = translated.map_err(|error| codegen_failure(kernel, error, &messages))?;
        let code = |error| codegen_failure(kernel, error, &[]);
        translated.optimize().map_err(code)?;
        phases.end("optimise");
        match stage {
            Stage::Llvm => return Ok((Output::Text(translated.to_text()), Some(metadata))),
            Stage::Asm => {
                let assembly = translated.emit(FileKind::Assembly).map_err(code)?;
                let assembly = String::from_utf8_lossy(&assembly).into_owned();
                return Ok((Output::Text(assembly), Some(metadata)));
            }
            _ => {}
        }
        let object = translated.emit(FileKind::Object).map_err(code)?;
        phases.end("emit");
        if stage == Stage::Obj {
            return Ok((Output::Bytes(object), Some(metadata)));
        }
        let image = link(&object).map_err(code)?;
        phases.end("link");
        phases.report(&request.label());
        let images = vec![Image { kind: ImageKind::SharedObject, bytes: image }];
        let artifact = Artifact { metadata: (*metadata).clone(), images };
        Ok((Output::Artifact(Box::new(artifact)), Some(metadata)))
    }
}

/// Refuses what no device would load. `unbound` dims are passed at launch.
fn within_limits(kernel: &Kernel, unbound: usize) -> Result<(), Diagnostic> {
    let refuse = |what: String| Err(Diagnostic::error(Code::NotYet, kernel.span, what));
    let (tensors, scalars) = (kernel.tensors.len(), kernel.scalars.len());
    let arguments = tensors + scalars + unbound;
    if arguments > MAX_ARGUMENTS {
        return refuse(format!(
            "kernel `{}` has {arguments} arguments ({tensors} tensors, {scalars} scalars, {unbound} dims that are not \
             bound): at most {MAX_ARGUMENTS} are available",
            kernel.name
        ));
    }
    if kernel.dims.len() > MAX_DIMS {
        return refuse(format!(
            "kernel `{}` has {} named dims: at most {MAX_DIMS} are available",
            kernel.name,
            kernel.dims.len()
        ));
    }
    Ok(())
}

fn register_passes() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        register_mlir_passes();
        phobos_passes::register();
    });
}

/// Parses and checks: the kernel and the warnings.
fn front_end(
    request: &CompileRequest,
    source: &SourceFile,
    options: RenderOptions,
) -> Result<(Kernel, Vec<Diagnostic>), Failure> {
    let (module, mut diagnostics) = phobos_lang::parse(source);
    if phobos_lang::check::has_errors(&diagnostics) {
        return Err(Failure::diagnostics(&diagnostics, source, options));
    }
    let checked = phobos_lang::check(&module, &request.kernel, &request.elements);
    diagnostics.extend(checked.diagnostics);
    let Some(kernel) = checked.kernel else {
        return Err(Failure::diagnostics(&diagnostics, source, options));
    };
    Ok((kernel, diagnostics))
}

/// A range is of a dim that the launch gives.
fn check_ranges(request: &CompileRequest, kernel: &Kernel) -> Result<(), Failure> {
    for (name, range) in &request.ranges {
        if !kernel.dims.contains(name) {
            return Err(unknown_dim(kernel, name));
        }
        if let Some(value) = request.dims.get(name) {
            return Err(Failure::user(format!("dim `{name}` is bound to {value} and has a range, {range}")));
        }
    }
    Ok(())
}

fn unknown_dim(kernel: &Kernel, name: &str) -> Failure {
    let known = kernel.dims.join(", ");
    Failure::user(format!("kernel `{}` has no dim `{name}`; it has {known}", kernel.name))
}

/// Every name that specialisation binds: parameters, and dims that the request fixes.
fn bindings(
    request: &CompileRequest,
    kernel: &Kernel,
    params: &BTreeMap<String, u64>,
    source: &SourceFile,
    options: RenderOptions,
) -> Result<BTreeMap<String, u64>, Failure> {
    let mut values = params.clone();
    for (name, value) in &request.dims {
        if !kernel.dims.contains(name) {
            return Err(unknown_dim(kernel, name));
        }
        if *value == 0 || i64::try_from(*value).is_err() {
            return Err(Failure::user(format!(
                "--dim {name}={value}: a dim bound at compile time is 1 to 2^63 - 1"
            )));
        }
        values.insert(name.clone(), *value);
    }
    for contract in &kernel.contracts {
        if let Contract::Multiple { dim, of } = contract
            && let Some(value) = values.get(dim)
            && value % of != 0
        {
            return Err(Failure::user(format!(
                "--dim {dim}={value}: kernel `{}` needs a multiple of {of}",
                kernel.name
            )));
        }
    }
    let unbound: Vec<Diagnostic> = kernel
        .required_dims
        .iter()
        .filter(|(name, _)| !values.contains_key(*name))
        .map(|(name, span)| {
            let message = format!("the dim `{name}` is the extent of a tile here and is not bound");
            Diagnostic::error(Code::DimNotStatic, *span, message)
                .help(format!("bind it with `--dim {name}=VALUE`"))
        })
        .collect();
    if !unbound.is_empty() {
        return Err(Failure::diagnostics(&unbound, source, options));
    }
    Ok(values)
}

struct Places<'a>(&'a SourceFile);

impl Locate for Places<'_> {
    fn locate(&self, span: Span) -> (String, usize, usize) {
        let location = self.0.location(span.start);
        (location.file, location.line, location.column)
    }
}

fn lower<'c>(
    context: &'c Context,
    kernel: &Kernel,
    source: &SourceFile,
    options: RenderOptions,
) -> Result<Module<'c>, Failure> {
    let (module, messages) =
        with_diagnostics(context, || phobos_lower::lower(context, kernel, &Places(source)));
    module.map_err(|error| match error {
        LowerError::Unsupported { what, span, help } => {
            let diagnostic = Diagnostic::error(Code::NotYet, span, format!("{what} is not available yet"))
                .help_opt(help.map(str::to_owned));
            Failure::diagnostics(&[diagnostic], source, options)
        }
        LowerError::Internal(text) => Failure::internal(with_reports(text, &messages)),
    })
}

/// Runs passes. What they refuse is shown at its place in the source.
fn run<'c>(
    context: &'c Context,
    module: &mut Module<'c>,
    pipeline: &str,
    source: &SourceFile,
    options: RenderOptions,
) -> Result<(), Failure> {
    run_pipeline(context, module, pipeline).map_err(|error| refused(&error, source, options))
}

/// What passes reported, as the failure of whoever is at fault: the compiler, if one
/// report says so.
fn refused(error: &MlirError, source: &SourceFile, options: RenderOptions) -> Failure {
    let code = |report: &Report| match report.fault {
        Fault::User => Some(Code::RefusedValues),
        Fault::Unsupported => Some(Code::NotYet),
        Fault::Internal => None,
    };
    let Some(codes) = error.0.iter().map(code).collect::<Option<Vec<Code>>>() else {
        return Failure::internal(error.to_string());
    };
    let placed = error.0.iter().zip(codes).map(|(report, code)| {
        span_of(report, source).map(|span| Diagnostic::error(code, span, report.message.clone()))
    });
    match placed.collect::<Option<Vec<Diagnostic>>>() {
        Some(diagnostics) => Failure::diagnostics(&diagnostics, source, options),
        None => Failure::user(error.to_string()),
    }
}

/// The character at which a report points.
fn span_of(report: &Report, source: &SourceFile) -> Option<Span> {
    let (file, line, column) = report.place.clone()?;
    let start = source.offset(&Location { file, line, column })?;
    Some(Span::new(start, start + 1))
}

fn with_reports(mut text: String, reports: &[Report]) -> String {
    for report in reports {
        text.push('\n');
        text.push_str(&report.to_string());
    }
    text
}

fn text(module: &Module<'_>) -> String {
    format!("{}\n", module.as_operation())
}

/// The dims that are passed at launch, from the kernel's signature.
fn dim_names(module: &Module<'_>) -> Result<Vec<String>, Failure> {
    ir::collect(ir::module_operation(module))
        .into_iter()
        .find(|op| ir::name(*op) == "phobos.kernel")
        .map(phobos_passes::host::dim_names)
        .ok_or_else(|| Failure::internal("the module has no kernel"))
}

/// The scratch size and remarks that convert-phobos-to-host recorded.
fn function_facts(module: &Module<'_>) -> Result<(u64, Vec<String>), Failure> {
    let function = ir::collect(ir::module_operation(module))
        .into_iter()
        .find(|op| ir::name(*op) == "llvm.func")
        .ok_or_else(|| Failure::internal("the module has no function"))?;
    let scratch = ir::integer_attribute(function, SCRATCH_ATTRIBUTE)
        .and_then(|bytes| u64::try_from(bytes).ok())
        .ok_or_else(|| Failure::internal("the function has no scratch size"))?;
    let remarks = ir::string_array_attribute(function, REMARKS_ATTRIBUTE);
    Ok((scratch, remarks))
}

fn codegen_failure(kernel: &Kernel, error: CodegenError, messages: &[Report]) -> Failure {
    Failure::internal(with_reports(format!("kernel `{}`: {error}", kernel.name), messages))
}
