//! The harness finds what it should, on a device in memory whose kernels are Rust; and
//! every case of the suite passes the checks of a launch against its own source.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Mutex,
};

use phobos_artifact::{
    Access, ArgKind, Argument, Artifact, Chip, CompileRequest, Element, Extent, GridExpr, Image, ImageKind,
    IndexBits, Metadata,
};

use super::{
    FAMILIES,
    case::{Case, Tolerance, Value},
    data::{Data, count},
    harness::Harness,
    report::{Problem, Report},
    requests, run,
};
use crate::{
    Buffer, CheckedLaunch, Device, DeviceError, DeviceToken, Kernel, MemoryInfo, Permission, SharedBytes,
};

/// Memory in one vector, with kernels that are chosen by their name.
struct Fake {
    token: DeviceToken,
    memory: Mutex<Vec<u8>>,
}

const CHIPS: [Chip; 1] = [Chip::Sm(75)];

impl Fake {
    fn new() -> Fake {
        Fake { token: DeviceToken::new(), memory: Mutex::new(Vec::new()) }
    }
}

/// `copy(X, Y)` with a fault.
#[derive(Clone, Copy)]
enum Behaviour {
    Right,
    LastWrong,
    LastMissing,
    ReadsOutside,
    WritesAfter,
    WritesBefore,
    WritesInput,
    DoesNotRun,
    /// Launches are checked, nothing is done.
    Nothing,
}

impl Device for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    fn chips(&self) -> &[Chip] {
        &CHIPS
    }

    fn allocate(&self, bytes: u64) -> Result<Buffer, DeviceError> {
        let mut memory = self.memory.lock().unwrap();
        let address = memory.len() as u64;
        memory.resize((address + bytes).next_multiple_of(64) as usize, 0);
        Ok(Buffer::new(&self.token, address, bytes, Permission::ReadWrite, Box::new(())))
    }

    fn import(&self, _: SharedBytes, _: Range<usize>) -> Result<Buffer, DeviceError> {
        Err(DeviceError::ReadOnly { action: "import" })
    }

    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let start = (buffer.address() + offset) as usize;
        self.memory.lock().unwrap()[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn read(&self, buffer: &Buffer, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        let start = (buffer.address() + offset) as usize;
        data.copy_from_slice(&self.memory.lock().unwrap()[start..start + data.len()]);
        Ok(())
    }

    fn copy(&self, _: &Buffer, _: u64, _: &Buffer, _: u64, _: u64) -> Result<(), DeviceError> {
        Err(DeviceError::ReadOnly { action: "copy to" })
    }

    fn load(&self, artifact: &Artifact) -> Result<Kernel, DeviceError> {
        let behaviour = match artifact.images[0].bytes.as_slice() {
            b"right" => Behaviour::Right,
            b"last wrong" => Behaviour::LastWrong,
            b"last missing" => Behaviour::LastMissing,
            b"reads outside" => Behaviour::ReadsOutside,
            b"writes after" => Behaviour::WritesAfter,
            b"writes before" => Behaviour::WritesBefore,
            b"writes input" => Behaviour::WritesInput,
            b"does not run" => Behaviour::DoesNotRun,
            b"nothing" => Behaviour::Nothing,
            _ => return Err(DeviceError::BadArtifact { kernel: "copy".into(), reason: "planted".into() }),
        };
        Kernel::new(&self.token, &artifact.metadata, || Ok(Box::new(behaviour)))
    }

    fn launch(&self, launch: &CheckedLaunch<'_>) -> Result<(), DeviceError> {
        let behaviour = *launch.kernel().code::<Behaviour>().unwrap();
        if matches!(behaviour, Behaviour::Nothing) {
            return Ok(());
        }
        let mut memory = self.memory.lock().unwrap();
        let [x, y, n] = [0, 1, 2].map(|index| launch.slots()[index] as usize);
        memory.copy_within(x..x + 4 * n, y);
        let last = y + 4 * n - 4;
        match behaviour {
            Behaviour::Right | Behaviour::Nothing => {}
            Behaviour::LastWrong => memory[last..last + 4].copy_from_slice(&2.0f32.to_le_bytes()),
            Behaviour::LastMissing => {
                memory[last..last + 4].copy_from_slice(&0x7fc5_c5c5u32.to_le_bytes());
            }
            Behaviour::ReadsOutside => memory.copy_within(x + 4 * n..x + 4 * n + 4, last),
            Behaviour::WritesAfter => memory[y + 4 * n + 1] = 0,
            Behaviour::WritesBefore => memory[y - 8] = 0,
            Behaviour::WritesInput => memory[x + 6] ^= 1,
            Behaviour::DoesNotRun => {
                return Err(DeviceError::Fault { kernel: "copy".into(), reason: "planted".into() });
            }
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn memory(&self) -> MemoryInfo {
        MemoryInfo::default()
    }
}

/// A compiler that reads no more than the kernel's head, and puts `image` behind it.
fn compile(request: &CompileRequest, image: &str) -> Result<Artifact, String> {
    Ok(Artifact {
        metadata: Metadata {
            kernel: request.kernel.clone(),
            chip: request.chip,
            fingerprint: String::new(),
            arguments: head(request)?,
            grid: [GridExpr::Const(1), GridExpr::Const(1), GridExpr::Const(1)],
            threads: 1,
            shared_bytes: 0,
            scratch_bytes: 0,
            index_bits: IndexBits::B32,
            params: request.params.clone(),
            bound_dims: request.dims.clone(),
            contracts: Vec::new(),
            remarks: Vec::new(),
        },
        images: vec![Image { kind: ImageKind::Ptx, bytes: image.as_bytes().to_vec() }],
    })
}

/// The arguments of the requested kernel, from the text between its parentheses.
fn head(request: &CompileRequest) -> Result<Vec<Argument>, String> {
    let start = request
        .source
        .match_indices(&format!("kernel {}", request.kernel))
        .map(|(at, matched)| &request.source[at + matched.len()..])
        .find(|rest| rest.starts_with(['(', '[']))
        .ok_or("no such kernel")?;
    let open = start.find('(').ok_or("no arguments")?;
    let generics = &start[..open];
    let body = start.find('{').ok_or("no body")?;
    let list = start[open + 1..body].trim().strip_suffix(')').ok_or("no end of the arguments")?;
    for name in request.elements.keys() {
        if !generics.contains(&format!("{name}: ")) {
            return Err(format!("no generic {name}"));
        }
    }
    let element = |name: &str| match request.elements.get(name) {
        Some(element) => Ok(*element),
        None => name.parse::<Element>().map_err(|error| error.to_string()),
    };
    let (mut arguments, mut dims) = (Vec::new(), BTreeSet::new());
    let mut rest = list.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once(':').ok_or("no type")?;
        let after = after.trim_start();
        let kind;
        if let Some(tensor) = after.strip_prefix("tensor<") {
            let (inner, tail) = tensor.split_once(">[").ok_or("no shape")?;
            let (shape, tail) = tail.split_once(']').ok_or("no end of a shape")?;
            let shape = shape
                .split(',')
                .map(|extent| match extent.trim().parse() {
                    Ok(value) => Extent::Const(value),
                    Err(_) => {
                        dims.insert(extent.trim().to_owned());
                        Extent::Name(extent.trim().to_owned())
                    }
                })
                .collect();
            // What is written is not known here; saying that everything is makes the overlap
            // check the strictest.
            kind = ArgKind::Tensor { element: element(inner)?, shape, access: Access::ReadWrite };
            rest = tail;
        } else {
            let end = after.find([',', '\n']).unwrap_or(after.len());
            let Element::Scalar(dtype) = element(after[..end].trim())? else { return Err("a block".into()) };
            kind = ArgKind::Scalar { dtype };
            rest = &after[end..];
        }
        arguments.push(Argument { name: name.trim().to_owned(), kind });
        rest = rest.trim_start_matches([',', ' ', '\n']);
    }
    if let Some(name) = request.dims.keys().find(|name| !dims.contains(*name)) {
        return Err(format!("no dim {name}"));
    }
    for name in request.params.keys() {
        if !request.source.contains(&format!("{name} in [")) {
            return Err(format!("no parameter {name}"));
        }
    }
    arguments.sort_by_key(|argument| matches!(argument.kind, ArgKind::Scalar { .. }));
    arguments.extend(dims.into_iter().map(|name| Argument { name, kind: ArgKind::Dim }));
    Ok(arguments)
}

fn copy_case() -> Case {
    let x = Data::f32(&[3], &[1.0, -3.0, 5.0]);
    Case::new("copy", "kernel copy(X: tensor<f32>[N], Y: tensor<f32>[N]) { }", "copy").input("X", &x).output(
        "Y",
        &[3],
        x.values.clone(),
        Tolerance::EXACT,
    )
}

/// The report of `copy`, run twice, with `image` as its code.
fn report(image: &str) -> Report {
    let device = Fake::new();
    let compile = |request: &CompileRequest| match image {
        "does not compile" => Err("planted".to_owned()),
        image => {
            assert_eq!(request.chip, CHIPS[0]);
            compile(request, image)
        }
    };
    let mut harness = Harness::new(&device, &compile);
    harness.run(&copy_case());
    harness.run(&copy_case());
    harness.finish()
}

fn problems(image: &str) -> Vec<Problem> {
    report(image).failures.into_iter().map(|failure| failure.problem).collect()
}

#[test]
fn a_right_kernel_passes() {
    let report = report("right");
    assert_eq!((report.cases, report.skipped, report.failures.len()), (2, 0, 0));
    assert_eq!(report.to_string(), "2 cases, 0 failures");
}

#[test]
fn wrong_elements_are_located() {
    let report = report("last wrong");
    assert_eq!(
        report.to_string(),
        "2 cases, 2 failures\n\
         copy: X[3] Y[3]: Y[2] is 2e0, 5e0 is wanted (1 of 3 are wrong)\n\
         copy: X[3] Y[3]: Y[2] is 2e0, 5e0 is wanted (1 of 3 are wrong)"
    );
    for image in ["last missing", "reads outside"] {
        let problems = problems(image);
        let Problem::Value { index, found, wrong: 1, of: 3, .. } = &problems[0] else {
            panic!("{problems:?}")
        };
        assert_eq!(index, &[2], "{image}");
        assert!(found.is_nan(), "{image}");
    }
}

#[test]
fn bytes_written_outside_and_inputs_changed_are_found() {
    let guard = |offset| Problem::Guard { tensor: "Y".into(), offset };
    assert_eq!(problems("writes after")[0], guard(13));
    assert_eq!(problems("writes before")[0], guard(-8));
    assert_eq!(problems("writes input")[0], Problem::InputChanged { tensor: "X".into(), offset: 6 });
}

#[test]
fn a_kernel_that_is_not_there_is_reported_once() {
    let report = report("does not compile");
    assert_eq!((report.cases, report.skipped), (0, 2));
    assert_eq!(report.failures.len(), 1);
    assert_eq!(report.failures[0].problem, Problem::Compile("planted".into()));
    assert!(matches!(problems("unknown image")[..], [Problem::Load(_)]));
    assert!(matches!(problems("does not run")[..], [Problem::Run(_), Problem::Run(_)]));
}

#[test]
fn every_case_fits_its_source() {
    let device = Fake::new();
    let compile = |request: &CompileRequest| compile(request, "nothing");
    for family in FAMILIES {
        let (mut cases, mut passed) = (0, Vec::new());
        for case in (family.cases)() {
            for (name, value) in &case.arguments {
                if let Value::Output(output) = value {
                    assert_eq!(output.wanted.len(), count(&output.shape), "{} {name}", case.op);
                    let slack = output.slack.len();
                    assert!(slack == 0 || slack == output.wanted.len(), "{} {name}", case.op);
                }
            }
            device.memory.lock().unwrap().clear();
            let mut harness = Harness::new(&device, &compile);
            harness.run(&case);
            let report = harness.finish();
            assert_eq!(report.skipped, 0, "{report}");
            // Nothing was computed, so all that may be wrong is a value.
            let other =
                report.failures.iter().find(|failure| !matches!(failure.problem, Problem::Value { .. }));
            assert_eq!(other, None);
            cases += 1;
            if report.failures.is_empty() {
                passed.push(format!("{}: {}", case.op, case.label()));
            }
        }
        // A kernel that does nothing passes only where nothing was to be done.
        eprintln!("{}: {cases} cases; passed by doing nothing: {passed:?}", family.name);
        assert!(cases > 0 && passed.len() * 20 <= cases, "{}", family.name);
    }
}

#[test]
fn the_filter_chooses_by_operation() {
    let device = Fake::new();
    let seen = Mutex::new(BTreeMap::new());
    let compile = |request: &CompileRequest| {
        seen.lock().unwrap().insert(request.kernel.clone(), request.clone());
        compile(request, "nothing")
    };
    let report = run(&device, &compile, &|op| op == "softcap");
    assert!(report.cases > 0);
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["softcap"]);
    assert_eq!(requests(CHIPS[0], &|op| op == "softcap"), [seen["softcap"].clone()]);
    eprintln!("{} kernels", requests(CHIPS[0], &|_| true).len());
}

#[path = "../../tests/support/mod.rs"]
#[allow(dead_code)] // the tests of the host device use the rest
mod support;

/// Plain C in f32 for some kernels, one program for the whole grid. Arguments: tensors, scalars,
/// dims by name.
const IN_C: &[(&str, &str)] = &[
    (
        "saxpy_fp32",
        "const float *x = P(0); float *y = P(1); float a = *(const float *)&args[2]; i64 n = args[3];
         for (i64 i = 0; i < n; i++) y[i] = a * x[i] + y[i];",
    ),
    (
        "gemm",
        "const float *a = P(0), *b = P(1); float *c = P(2);
         float alpha = *(const float *)&args[3], beta = *(const float *)&args[4];
         i64 k = args[5], m = args[6], n = args[7];
         for (i64 i = 0; i < m; i++)
           for (i64 j = 0; j < n; j++) {
             float sum = 0;
             for (i64 l = 0; l < k; l++) sum += a[i * k + l] * b[l * n + j];
             c[i * n + j] = alpha * sum + beta * c[i * n + j];
           }",
    ),
    (
        "linear",
        "const float *x = P(0), *w = P(1); float *y = P(2);
         i64 k = args[3], m = args[4], n = args[5];
         for (i64 i = 0; i < m; i++)
           for (i64 j = 0; j < n; j++) {
             float sum = 0;
             for (i64 l = 0; l < k; l++) sum += x[i * k + l] * w[j * k + l];
             y[i * n + j] = sum;
           }",
    ),
    (
        "embed",
        "const int *ids = P(0); const float *w = P(1); float *x = P(2);
         float scale = *(const float *)&args[3]; i64 e = args[4], n = args[5], v = args[6];
         for (i64 i = 0; i < n; i++)
           for (i64 j = 0; j < e; j++)
             if (ids[i] >= 0 && ids[i] < v) x[i * e + j] = w[ids[i] * e + j] * scale;",
    ),
    (
        "rmsnorm",
        "const float *x = P(0), *w = P(1); float *y = P(2); float eps = *(const float *)&args[3];
         i64 e = args[4], n = args[5];
         for (i64 i = 0; i < n; i++) {
           float sum = 0;
           for (i64 j = 0; j < e; j++) sum += x[i * e + j] * x[i * e + j];
           float scale = 1.0f / __builtin_sqrtf(sum / (float)e + eps);
           for (i64 j = 0; j < e; j++) y[i * e + j] = x[i * e + j] * scale * w[j];
         }",
    ),
    (
        "rmsnorm_add",
        "const float *x = P(0), *w = P(1); float *y = P(2); float eps = *(const float *)&args[3];
         i64 e = args[4], n = args[5];
         for (i64 i = 0; i < n; i++) {
           float sum = 0;
           for (i64 j = 0; j < e; j++) sum += x[i * e + j] * x[i * e + j];
           float scale = 1.0f / __builtin_sqrtf(sum / (float)e + eps);
           for (i64 j = 0; j < e; j++) y[i * e + j] += x[i * e + j] * scale * w[j];
         }",
    ),
    (
        "rope",
        "float *q = P(0), *keys = P(6), *values = P(7);
         const float *key = P(1), *value = P(2), *c = P(3), *s = P(4);
         const int *pos = P(5); i64 d = args[8], g = args[9], h = args[10], n = args[11];
         i64 r = args[13], rows = args[14];
         for (i64 i = 0; i < n * h * r; i++) {
           i64 at = pos[i / (h * r)] * r + i % r;
           float a = q[2 * i], b = q[2 * i + 1];
           q[2 * i] = a * c[at] - b * s[at];
           q[2 * i + 1] = a * s[at] + b * c[at];
         }
         for (i64 i = 0; i < n * g * r; i++) {
           i64 row = pos[i / (g * r)], at = row * r + i % r;
           float a = key[2 * i], b = key[2 * i + 1];
           if (row >= rows) continue;
           float *to = keys + 2 * ((i / r % g * rows + row) * r + i % r);
           to[0] = a * c[at] - b * s[at];
           to[1] = a * s[at] + b * c[at];
         }
         for (i64 i = 0; i < n * g * d; i++) {
           i64 row = pos[i / (g * d)];
           if (row < rows) values[(i / d % g * rows + row) * d + i % d] = value[i];
         }",
    ),
];

#[test]
fn plain_c_on_the_host_passes_the_tolerances() {
    let device = crate::HostDevice::new(Some(2)).unwrap();
    let mut images = BTreeMap::new();
    for (kernel, body) in IN_C {
        let source = format!(
            "typedef unsigned long u64; typedef long i64; typedef unsigned char u8;
#define P(i) ((void *)args[i])
void phobos_entry(const u64 *args, const i64 *pid, u8 *scratch) {{ {body} }}"
        );
        let Some(image) = support::compile_c(&source) else { return };
        images.insert(*kernel, image);
    }
    let compile = |request: &CompileRequest| {
        let mut artifact = compile(request, "")?;
        let bytes = images.get(request.kernel.as_str()).ok_or("not in C")?.clone();
        artifact.images = vec![Image { kind: ImageKind::SharedObject, bytes }];
        Ok(artifact)
    };
    let models = ["linear f32", "embed f32", "embed outside f32", "rmsnorm", "rmsnorm_add", "rope f32"];
    let ops = [&["saxpy_fp32", "gemm"], &models[..]].concat();
    let report = run(&device, &compile, &|op| ops.contains(&op));
    assert!(report.failures.is_empty() && report.skipped == 0, "{report}");
    assert!(report.cases > 200, "{report}");
}
