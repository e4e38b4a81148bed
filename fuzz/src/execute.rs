//! Compiling and running in a process of its own: what LLVM aborts, or a kernel that reads
//! where nothing is, ends that process and not the fuzzer.

use std::{
    io::{self, BufRead, BufReader, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Mutex,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::Duration,
};

use half::{bf16, f16};
use phobos_artifact::{CompileRequest, DType, Element};
use phobos_device::{Buffer, Device, DeviceError, HostDevice, Launch, Scalar, Tensor};
use phobos_worker::frame::FailureKind;
use serde::{Deserialize, Serialize};

/// A kernel and its arguments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// What to compile.
    pub request: CompileRequest,
    /// The tensors, in the order of a file.
    pub tensors: Vec<TensorArgument>,
    /// The scalars.
    pub scalars: Vec<ScalarArgument>,
}

/// A tensor argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TensorArgument {
    /// The parameter.
    pub name: String,
    /// The element type.
    pub element: Element,
    /// The extents.
    pub shape: Vec<u64>,
    /// The content.
    pub bytes: Vec<u8>,
}

/// A scalar argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScalarArgument {
    /// The parameter.
    pub name: String,
    /// The type.
    pub dtype: DType,
    /// The bytes of the value.
    pub bytes: Vec<u8>,
}

/// What came of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The bytes of every tensor afterwards, as they lie on the device.
    Done(Vec<Vec<u8>>),
    /// It did not compile.
    Compile {
        /// Whether the compiler called it a fault of its own.
        internal: bool,
        /// What it said.
        text: String,
    },
    /// It did not load or launch.
    Run(String),
    /// It wrote outside a tensor.
    Guard {
        /// The tensor next to the place.
        tensor: String,
        /// The place, in bytes from the tensor's first.
        offset: i64,
    },
    /// The process ended.
    Crash(String),
    /// It did not end.
    Hang,
}

/// Bytes of poison before and after each tensor; a multiple of every alignment.
const GUARD: usize = 4096;
const POISON: u8 = 0xc5;
/// Seconds of the processor that a job may take before it counts as endless. Kernels take
/// milliseconds; compiling long ones for a format takes some seconds.
const PATIENCE: u64 = 60;
/// The argument that makes this program an executor.
pub const EXECUTOR: &str = "--executor";

/// What the last panic said.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Answers jobs on stdin, one a line, until it ends.
pub fn serve() -> io::Result<()> {
    let device = HostDevice::new(Some(1)).map_err(io::Error::other)?;
    std::panic::set_hook(Box::new(|panic| {
        if let Ok(mut last) = LAST_PANIC.lock() {
            *last = panic.to_string();
        }
    }));
    for line in io::stdin().lock().lines() {
        let job: Job = serde_json::from_str(&line?)?;
        let reply = catch_unwind(AssertUnwindSafe(|| answer(&device, &job)))
            .unwrap_or_else(|_| Reply::Crash(LAST_PANIC.lock().map_or(String::new(), |last| last.clone())));
        let mut output = io::stdout().lock();
        serde_json::to_writer(&mut output, &reply)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

fn answer(device: &HostDevice, job: &Job) -> Reply {
    let artifact = match phobos_driver::compile(&job.request) {
        Ok(artifact) => artifact,
        Err(failure) => {
            let internal = failure.0.kind == FailureKind::Internal;
            return Reply::Compile { internal, text: failure.0.rendered };
        }
    };
    match device.load(&artifact).and_then(|kernel| launch(device, &kernel, job)) {
        Ok(reply) => reply,
        Err(error) => Reply::Run(error.to_string()),
    }
}

fn launch(device: &HostDevice, kernel: &phobos_device::Kernel, job: &Job) -> Result<Reply, DeviceError> {
    let mut tensors = Vec::with_capacity(job.tensors.len());
    for argument in &job.tensors {
        let content = device_layout(argument).ok_or_else(|| DeviceError::Shape {
            element: argument.element,
            shape: argument.shape.clone(),
            block: argument.element.block_elements(),
        })?;
        let mut bytes = vec![POISON; content.len() + 2 * GUARD];
        bytes[GUARD..GUARD + content.len()].copy_from_slice(&content);
        let buffer: Buffer = device.allocate(bytes.len() as u64)?;
        device.write(&buffer, 0, &bytes)?;
        tensors.push(Tensor::new(&buffer, GUARD as u64, argument.element, argument.shape.clone())?);
    }
    let mut launch = Launch::new(kernel);
    for (argument, tensor) in job.tensors.iter().zip(&tensors) {
        launch = launch.tensor(&argument.name, tensor);
    }
    for argument in &job.scalars {
        launch = launch.scalar(&argument.name, scalar(argument));
    }
    launch.run(device)?;
    device.synchronize()?;
    let mut outputs = Vec::with_capacity(tensors.len());
    for (argument, tensor) in job.tensors.iter().zip(&tensors) {
        let mut after = vec![0; tensor.buffer.len() as usize];
        device.read(&tensor.buffer, 0, &mut after)?;
        let end = after.len() - GUARD;
        let outside = (0..GUARD).chain(end..after.len()).find(|at| after[*at] != POISON);
        if let Some(at) = outside {
            return Ok(Reply::Guard { tensor: argument.name.clone(), offset: at as i64 - GUARD as i64 });
        }
        outputs.push(after[GUARD..end].to_vec());
    }
    Ok(Reply::Done(outputs))
}

/// The bytes of a tensor in the order that kernels expect.
pub fn device_layout(argument: &TensorArgument) -> Option<Vec<u8>> {
    let (Element::Block(format), Some((columns, outer))) = (argument.element, argument.shape.split_last())
    else {
        return Some(argument.bytes.clone());
    };
    let rows = outer.last().map_or(1, |rows| *rows as usize);
    let blocks = *columns as usize / format.elements;
    let mut device = Vec::new();
    for matrix in argument.bytes.chunks((rows * blocks * format.bytes).max(1)) {
        let start = device.len();
        device.resize(start + format.device_matrix_bytes(rows as u64, blocks as u64)? as usize, 0);
        format.to_device(rows, blocks, matrix, &mut device[start..]).ok()?;
    }
    Some(device)
}

fn scalar(argument: &ScalarArgument) -> Scalar {
    let mut wide = [0; 8];
    wide[..argument.bytes.len()].copy_from_slice(&argument.bytes);
    let bits = u64::from_le_bytes(wide);
    match argument.dtype {
        DType::Bool => (bits != 0).into(),
        DType::I8 => (bits as i8).into(),
        DType::U8 => (bits as u8).into(),
        DType::I16 => (bits as i16).into(),
        DType::I32 => (bits as i32).into(),
        DType::U32 => (bits as u32).into(),
        DType::I64 => (bits as i64).into(),
        DType::F16 => f16::from_bits(bits as u16).into(),
        DType::Bf16 => bf16::from_bits(bits as u16).into(),
        DType::F32 => f32::from_bits(bits as u32).into(),
        DType::F64 => f64::from_bits(bits).into(),
    }
}

/// A process that answers jobs, started again whenever it ends.
pub struct Executor {
    program: PathBuf,
    variable: Option<(String, String)>,
    running: Option<Running>,
}

struct Running {
    child: Child,
    input: ChildStdin,
    replies: Receiver<String>,
}

impl Executor {
    /// An executor that is `program --executor`.
    pub fn new(program: &Path) -> Executor {
        Executor { program: program.to_owned(), variable: None, running: None }
    }

    /// The same with a variable in the environment of its process.
    pub fn with_variable(mut self, name: &str, value: &str) -> Executor {
        self.variable = Some((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs a job.
    ///
    /// # Errors
    /// When no process can be started.
    pub fn run(&mut self, job: &Job) -> io::Result<Reply> {
        if self.running.is_none() {
            self.running = Some(start(&self.program, self.variable.clone())?);
        }
        let Some(running) = &mut self.running else { return Err(io::Error::other("no executor")) };
        let mut line = serde_json::to_vec(job)?;
        line.push(b'\n');
        // A process that has ended is found by the missing answer.
        let _ = running.input.write_all(&line).and_then(|()| running.input.flush());
        let before = processor_seconds(running.child.id());
        let reply = loop {
            match running.replies.recv_timeout(Duration::from_secs(1)) {
                Ok(line) => return Ok(serde_json::from_str(&line)?),
                // A machine with other work to do is no reason to give up.
                Err(RecvTimeoutError::Timeout)
                    if processor_seconds(running.child.id()).saturating_sub(before) < PATIENCE => {}
                Err(RecvTimeoutError::Timeout) => break Reply::Hang,
                Err(RecvTimeoutError::Disconnected) => {
                    let status = running.child.wait()?;
                    break Reply::Crash(status.to_string());
                }
            }
        };
        self.stop();
        Ok(reply)
    }

    fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What a process has used of the processor; 0 where the system does not say.
fn processor_seconds(process: u32) -> u64 {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Fields 14 and 15, counted from the name in parentheses, which may hold spaces.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks / TICKS_PER_SECOND
}

fn start(program: &Path, variable: Option<(String, String)>) -> io::Result<Running> {
    let mut child = Command::new(program)
        .arg(EXECUTOR)
        .envs(variable)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("no pipes"));
    };
    let (send, replies) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { return };
            if send.send(line).is_err() {
                return;
            }
        }
    });
    Ok(Running { child, input, replies })
}
