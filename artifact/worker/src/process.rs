//! One worker process. Three threads do the blocking work on its pipes, so that a
//! worker which neither reads nor writes cannot hold a request beyond its time.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

use phobos_artifact::{Artifact, CompileRequest};

use crate::{
    CompileError, WorkerOptions, fingerprint,
    frame::{FailureKind, FrameError, Message, PROTOCOL, log_mark, write_frame},
};

/// How much of a worker's stderr is kept for an error message, in bytes.
const LOG_TAIL: usize = 8 << 10;

/// How long a worker may take to exit once its stdin is closed.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Worker {
    program: PathBuf,
    child: Child,
    /// Frames for the writing thread; dropped to close the worker's stdin.
    frames: Option<SyncSender<Vec<u8>>>,
    messages: Receiver<Result<Option<Message>, FrameError>>,
    log: Arc<Mutex<VecDeque<u8>>>,
    /// Disconnects when the log has been read to its end.
    log_ended: Receiver<()>,
    last_id: u64,
}

impl Worker {
    /// Starts `program` and hears its hello. `request` is named in errors.
    pub(super) fn start(
        program: PathBuf,
        options: &WorkerOptions,
        request: &CompileRequest,
    ) -> Result<Worker, CompileError> {
        let mut command = Command::new(&program);
        command.arg("--worker");
        if let Some(limit) = options.memory_limit {
            command.arg("--memory-limit").arg(limit.to_string());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: Ctrl-C stops an answer, not the compiler.
        command.process_group(0);
        let mut worker = match spawn(&mut command, options.echo_log) {
            Ok((child, pipes)) => {
                let Pipes { frames, messages, log, log_ended } = pipes;
                Worker { program, child, frames: Some(frames), messages, log, log_ended, last_id: 0 }
            }
            Err(error) => return Err(CompileError::Spawn { program, error: Arc::new(error) }),
        };
        let hello = match worker.receive(request, Instant::now(), options.timeout)? {
            Message::Hello(hello) => hello,
            _ => return Err(worker.nonsense(request, "it did not say hello")),
        };
        let ours = fingerprint::current().long();
        if hello.protocol != PROTOCOL || hello.fingerprint != ours {
            let short = |text: &str| text.chars().take(16).collect();
            return Err(CompileError::OtherBuild {
                program: worker.program.clone(),
                ours: short(&ours),
                theirs: short(&hello.fingerprint),
            });
        }
        Ok(worker)
    }

    /// Sends `request` and waits at most `timeout` for the answer.
    pub(super) fn ask(
        &mut self,
        request: &CompileRequest,
        timeout: Duration,
    ) -> Result<Artifact, CompileError> {
        let begin = Instant::now();
        self.last_id += 1;
        let expected = self.last_id;

        let message = Message::Request { id: expected, request: Box::new(request.clone()) };
        let frame = message.encode().map_err(|error| self.nonsense(request, error.to_string()))?;
        // The channel has room: one request at a time. It is closed when the worker is
        // gone, and then `receive` says how that ended.
        if let Some(frames) = &self.frames {
            let _ = frames.send(frame);
        }

        match self.receive(request, begin, timeout)? {
            Message::Artifact { id, bytes } if id == expected => match Artifact::decode(&bytes) {
                Ok(artifact)
                    if artifact.metadata.kernel == request.kernel
                        && artifact.metadata.chip == request.chip =>
                {
                    Ok(artifact)
                }
                Ok(Artifact { metadata, .. }) => {
                    let other = format!("it is kernel {} for {}", metadata.kernel, metadata.chip);
                    Err(self.nonsense(request, other))
                }
                Err(error) => Err(self.nonsense(request, error.to_string())),
            },
            Message::Failure { id, failure } if id == expected => {
                let (kernel, kind, failure) = (request.label(), failure.kind, Box::new(failure));
                Err(match kind {
                    FailureKind::User => CompileError::Rejected { kernel, failure },
                    FailureKind::Internal => CompileError::Internal { kernel, failure },
                })
            }
            _ => Err(self.nonsense(request, "it is no answer to the request")),
        }
    }

    /// The next message, at most `limit` after `begin`.
    fn receive(
        &mut self,
        request: &CompileRequest,
        begin: Instant,
        limit: Duration,
    ) -> Result<Message, CompileError> {
        match self.messages.recv_timeout(limit.saturating_sub(begin.elapsed())) {
            Ok(Ok(Some(message))) => Ok(message),
            Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => {
                Err(self.ended(request, "its output ended"))
            }
            // A worker that dies while it writes ends the stream inside a frame.
            Ok(Err(error @ (FrameError::Truncated { .. } | FrameError::Io(_)))) => {
                Err(self.ended(request, error.to_string()))
            }
            Ok(Err(error)) => Err(self.nonsense(request, error.to_string())),
            Err(RecvTimeoutError::Timeout) => {
                self.kill();
                Err(CompileError::Timeout { kernel: request.label(), limit, stderr: self.last_words() })
            }
        }
    }

    /// The error for a worker whose output is over.
    fn ended(&mut self, request: &CompileRequest, how: impl Into<String>) -> CompileError {
        match self.wait(PATIENCE) {
            Some(status) => CompileError::Died { kernel: request.label(), status, stderr: self.last_words() },
            None => self.nonsense(request, format!("{}, but it goes on running", how.into())),
        }
    }

    fn nonsense(&mut self, request: &CompileRequest, message: impl Into<String>) -> CompileError {
        self.kill();
        CompileError::protocol(request, message, self.last_words())
    }

    /// What the worker logged during this request, ready to be put behind a message.
    fn last_words(&self) -> String {
        // A process that inherited the pipe may hold it open: do not wait for it.
        let _ = self.log_ended.recv_timeout(Duration::from_millis(300));
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = log.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        // What stands before the mark belongs to requests before this one. Without the mark
        // all does: it is the start, or the log is longer than what is kept of it.
        let mark = log_mark(self.last_id);
        let own = text
            .rsplit_once(&mark)
            .map_or(text.as_ref(), |(_, own)| own.split_once('\n').map_or("", |(_label, own)| own));
        own.trim().lines().map(|line| format!("\n    {line}")).collect()
    }

    /// Whether the process runs.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the process at once.
    pub(super) fn kill(&mut self) {
        // Fails only when it has been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Closes the worker's stdin, upon which it exits.
    pub(super) fn hang_up(&mut self) {
        self.frames = None;
    }

    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let begin = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if begin.elapsed() < patience => thread::sleep(Duration::from_millis(2)),
                _ => return None,
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.hang_up();
        if self.wait(PATIENCE).is_none() {
            self.kill();
        }
    }
}

/// The ends of the threads that serve a worker's pipes.
struct Pipes {
    frames: SyncSender<Vec<u8>>,
    messages: Receiver<Result<Option<Message>, FrameError>>,
    log: Arc<Mutex<VecDeque<u8>>>,
    log_ended: Receiver<()>,
}

/// Starts the process and the threads on its pipes. The threads end with the pipes.
fn spawn(command: &mut Command, echo_log: bool) -> io::Result<(Child, Pipes)> {
    let mut child = command.spawn()?;
    match serve_pipes(&mut child, echo_log) {
        Ok(pipes) => Ok((child, pipes)),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

fn serve_pipes(child: &mut Child, echo_log: bool) -> io::Result<Pipes> {
    let missing = || io::Error::other("a pipe to the worker is missing");
    let mut stdin = child.stdin.take().ok_or_else(missing)?;
    let mut stdout = child.stdout.take().ok_or_else(missing)?;
    let mut stderr = child.stderr.take().ok_or_else(missing)?;
    let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
        thread::Builder::new().name(format!("compiler {name}")).spawn(body).map(drop)
    };

    let (frames, to_write) = mpsc::sync_channel::<Vec<u8>>(1);
    spawn(
        "stdin",
        Box::new(move || {
            for frame in to_write {
                if write_frame(&mut stdin, &frame).is_err() {
                    break;
                }
            }
        }),
    )?;

    // Room for one message: a worker that floods us blocks itself.
    let (received, messages) = mpsc::sync_channel(1);
    spawn(
        "stdout",
        Box::new(move || {
            loop {
                let message = Message::read(&mut stdout);
                let over = !matches!(message, Ok(Some(_)));
                if received.send(message).is_err() || over {
                    break;
                }
            }
        }),
    )?;

    let log = Arc::new(Mutex::new(VecDeque::new()));
    let (ends, log_ended) = mpsc::channel();
    let tail = Arc::clone(&log);
    spawn(
        "stderr",
        Box::new(move || {
            let _ends: mpsc::Sender<()> = ends;
            let mut buffer = [0; 4096];
            loop {
                match stderr.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => keep(&tail, &buffer[..count], echo_log),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        }),
    )?;
    Ok(Pipes { frames, messages, log, log_ended })
}

fn keep(tail: &Mutex<VecDeque<u8>>, bytes: &[u8], echo: bool) {
    if echo {
        // A log that cannot be shown is no reason to stop.
        let _ = io::stderr().write_all(bytes);
    }
    let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
    tail.extend(bytes);
    let excess = tail.len().saturating_sub(LOG_TAIL);
    tail.drain(..excess);
}
