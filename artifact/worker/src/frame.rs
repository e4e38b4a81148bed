//! What the runtime and a `phobos-compile --worker` process say to each other over
//! the worker's stdin and stdout.
//!
//! A frame is a 32-bit little-endian length and that many bytes: one tag byte and a
//! message. The worker says hello first, then answers each request with an artifact
//! or a failure that repeats the request's id. It exits when its stdin ends. Its
//! stderr is a log. A worker must keep its own libraries from printing to stdout.

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use phobos_artifact::{Artifact, CompileRequest};

use crate::fingerprint;

/// The version of this protocol.
pub const PROTOCOL: u32 = 1;

/// The largest frame that either side accepts, in bytes.
pub const MAX_FRAME_BYTES: u32 = 64 << 20;

const HELLO: u8 = 1;
const REQUEST: u8 = 2;
const ARTIFACT: u8 = 3;
const FAILURE: u8 = 4;

/// What goes over the pipe.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The worker's first words.
    Hello(Hello),
    /// A kernel to compile.
    Request {
        /// Repeated in the answer.
        id: u64,
        /// What to compile.
        request: Box<CompileRequest>,
    },
    /// The answer when it compiled.
    Artifact {
        /// The request's.
        id: u64,
        /// What [`Artifact::encode`] wrote.
        bytes: Vec<u8>,
    },
    /// The answer when it did not; the worker is ready for the next request.
    Failure {
        /// The request's.
        id: u64,
        /// Why.
        failure: CompileFailure,
    },
}

/// Who the worker is. Unknown members are ignored, so that another build's hello can
/// still be read far enough to say that it is another build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the worker's build.
    pub protocol: u32,
    /// [`Fingerprint::long`] of the worker's build.
    pub fingerprint: String,
    /// The build ids of the libLLVM and libMLIR that it has loaded.
    pub llvm: String,
}

impl Hello {
    /// The hello of this build, with the build ids of the loaded LLVM libraries.
    pub fn current(llvm: impl Into<String>) -> Hello {
        Hello { protocol: PROTOCOL, fingerprint: fingerprint::current().long(), llvm: llvm.into() }
    }
}

/// Why a kernel did not compile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompileFailure {
    /// Whose fault it is.
    pub kind: FailureKind,
    /// The diagnostics as text, with source lines and carets.
    pub rendered: String,
    /// The diagnostics as data; null when there is none.
    #[serde(default)]
    pub json: serde_json::Value,
}

/// Whose fault a failed compilation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The source or the request is wrong.
    User,
    /// The compiler is.
    Internal,
}

/// What went wrong on the pipe.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FrameError {
    /// Reading or writing failed.
    #[error("the pipe failed: {0}")]
    Io(#[source] Arc<io::Error>),
    /// The stream ended inside a frame.
    #[error("the stream ended after {got} of {expected} bytes of a frame's {part}")]
    Truncated {
        /// `length` or `contents`.
        part: &'static str,
        /// Bytes read.
        got: usize,
        /// Bytes announced.
        expected: usize,
    },
    /// A frame above the limit.
    #[error("a frame of {bytes} bytes, the limit is {MAX_FRAME_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A frame that holds no message.
    #[error("a frame of {bytes} bytes is no message: {message}")]
    Malformed {
        /// Its size.
        bytes: usize,
        /// What is wrong.
        message: String,
    },
    /// A message that has no place here.
    #[error("unexpected message: {0}")]
    Unexpected(&'static str),
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> FrameError {
        FrameError::Io(Arc::new(error))
    }
}

/// Writes one frame and flushes.
pub fn write_frame(output: &mut (impl Write + ?Sized), payload: &[u8]) -> Result<(), FrameError> {
    let length = u32::try_from(payload.len())
        .ok()
        .filter(|length| *length <= MAX_FRAME_BYTES)
        .ok_or(FrameError::TooLarge { bytes: payload.len() })?;
    output.write_all(&length.to_le_bytes())?;
    output.write_all(payload)?;
    Ok(output.flush()?)
}

/// Reads one frame; `None` when the stream ends before one begins. Memory grows with
/// the bytes that arrive, not with the length that is announced.
pub fn read_frame(input: &mut (impl Read + ?Sized)) -> Result<Option<Vec<u8>>, FrameError> {
    let mut length = [0; 4];
    match read_full(input, &mut length)? {
        0 => return Ok(None),
        4 => {}
        got => return Err(FrameError::Truncated { part: "length", got, expected: 4 }),
    }
    let length = u32::from_le_bytes(length);
    let expected = length as usize;
    if length > MAX_FRAME_BYTES {
        return Err(FrameError::TooLarge { bytes: expected });
    }
    let mut payload = Vec::new();
    let got = input.take(u64::from(length)).read_to_end(&mut payload)?;
    if got < expected {
        return Err(FrameError::Truncated { part: "contents", got, expected });
    }
    Ok(Some(payload))
}

/// Fills `buffer` as far as the stream goes and returns how far that is.
fn read_full(input: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match input.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

impl Message {
    /// The contents of the frame that carries this message.
    pub fn encode(&self) -> Result<Vec<u8>, FrameError> {
        let json = |value: serde_json::Result<Vec<u8>>| {
            value.map_err(|error| FrameError::Malformed { bytes: 0, message: error.to_string() })
        };
        let (tag, id, contents) = match self {
            Message::Hello(hello) => (HELLO, None, &json(serde_json::to_vec(hello))?),
            Message::Request { id, request } => (REQUEST, Some(id), &json(serde_json::to_vec(request))?),
            Message::Artifact { id, bytes } => (ARTIFACT, Some(id), bytes),
            Message::Failure { id, failure } => (FAILURE, Some(id), &json(serde_json::to_vec(failure))?),
        };
        let mut payload = Vec::with_capacity(contents.len() + 9);
        payload.push(tag);
        if let Some(id) = id {
            payload.extend_from_slice(&id.to_le_bytes());
        }
        payload.extend_from_slice(contents);
        Ok(payload)
    }

    /// Reads the contents of a frame. The bytes of an artifact are not looked at.
    pub fn decode(payload: &[u8]) -> Result<Message, FrameError> {
        let malformed = |message: String| FrameError::Malformed { bytes: payload.len(), message };
        let (&tag, rest) = payload.split_first().ok_or_else(|| malformed("it is empty".into()))?;
        if tag == HELLO {
            return parse(rest).map(Message::Hello).map_err(malformed);
        }
        let (id, rest) = rest.split_first_chunk().ok_or_else(|| malformed("its id is cut".into()))?;
        let id = u64::from_le_bytes(*id);
        match tag {
            REQUEST => parse(rest).map(|request| Message::Request { id, request }).map_err(malformed),
            ARTIFACT => Ok(Message::Artifact { id, bytes: rest.to_vec() }),
            FAILURE => parse(rest).map(|failure| Message::Failure { id, failure }).map_err(malformed),
            _ => Err(malformed(format!("unknown tag {tag}"))),
        }
    }

    /// Writes the message as one frame.
    pub fn write(&self, output: &mut (impl Write + ?Sized)) -> Result<(), FrameError> {
        write_frame(output, &self.encode()?)
    }

    /// Reads one message; `None` at the end of the stream.
    pub fn read(input: &mut (impl Read + ?Sized)) -> Result<Option<Message>, FrameError> {
        read_frame(input)?.map(|payload| Message::decode(&payload)).transpose()
    }
}

fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

/// The line that begins a request in a worker's log, up to the request's label. Stderr
/// runs beside the frames, so only this tells the log of one request from the next.
pub(crate) fn log_mark(id: u64) -> String {
    format!("phobos-compile: request {id}:")
}

/// The worker's side: says hello, then answers requests until `input` ends. Each request
/// begins with a line on stderr.
pub fn serve(
    input: &mut impl Read,
    output: &mut impl Write,
    hello: Hello,
    mut compile: impl FnMut(&CompileRequest) -> Result<Artifact, CompileFailure>,
) -> Result<(), FrameError> {
    Message::Hello(hello).write(output)?;
    while let Some(message) = Message::read(input)? {
        let Message::Request { id, request } = message else {
            return Err(FrameError::Unexpected("a worker is only asked requests"));
        };
        // Without a log, as after the parent died, the answer still counts.
        let _ = writeln!(io::stderr(), "{} {}", log_mark(id), request.label());
        let answer = match compile(&request) {
            Ok(artifact) => Message::Artifact { id, bytes: artifact.encode() },
            Err(failure) => Message::Failure { id, failure },
        };
        match answer.write(output) {
            Err(FrameError::TooLarge { bytes }) => {
                let rendered = format!("the result is {bytes} bytes, the limit is {MAX_FRAME_BYTES}");
                let json = serde_json::Value::Null;
                let failure = CompileFailure { kind: FailureKind::Internal, rendered, json };
                Message::Failure { id, failure }.write(output)?;
            }
            written => written?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use phobos_artifact::{Chip, CompileOptions};

    fn request() -> CompileRequest {
        CompileRequest {
            source: "kernel k() {}".into(),
            kernel: "k".into(),
            elements: BTreeMap::from([("F".into(), "q4_0".parse().unwrap())]),
            dims: BTreeMap::new(),
            ranges: BTreeMap::new(),
            params: BTreeMap::from([("T".into(), 1)]),
            options: CompileOptions::default(),
            chip: Chip::Sm(80),
        }
    }

    fn failure() -> CompileFailure {
        CompileFailure {
            kind: FailureKind::User,
            rendered: "k.ph:1:1: error: no\n".into(),
            json: serde_json::json!([{ "line": 1 }]),
        }
    }

    fn messages() -> Vec<Message> {
        vec![
            Message::Hello(Hello::current("libLLVM ab12")),
            Message::Request { id: 7, request: Box::new(request()) },
            Message::Artifact { id: u64::MAX, bytes: vec![1, 2, 3] },
            Message::Failure { id: 0, failure: failure() },
        ]
    }

    #[test]
    fn messages_round_trip_one_after_another() {
        let mut pipe = Vec::new();
        for message in messages() {
            message.write(&mut pipe).unwrap();
        }
        let mut input = &pipe[..];
        for message in messages() {
            assert_eq!(Message::read(&mut input).unwrap(), Some(message));
        }
        assert_eq!(Message::read(&mut input).unwrap(), None);
    }

    #[test]
    fn a_stream_cut_anywhere_is_an_error_except_between_frames() {
        for message in messages() {
            let mut pipe = Vec::new();
            message.write(&mut pipe).unwrap();
            for length in 1..pipe.len() {
                let error = Message::read(&mut &pipe[..length]).unwrap_err();
                assert!(matches!(error, FrameError::Truncated { .. }), "cut at {length}: {error}");
            }
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_on_both_sides() {
        let mut input = &(MAX_FRAME_BYTES + 1).to_le_bytes()[..];
        assert!(matches!(read_frame(&mut input), Err(FrameError::TooLarge { bytes: 67_108_865 })));
        let mut output = Vec::new();
        let huge = vec![0; MAX_FRAME_BYTES as usize + 1];
        assert!(matches!(write_frame(&mut output, &huge), Err(FrameError::TooLarge { .. })));
        assert!(output.is_empty(), "nothing may be written of a frame that is refused");
    }

    #[test]
    fn an_announced_length_is_not_allocated() {
        // The largest legal length and 10 bytes: the vector holds what came.
        let mut bytes = MAX_FRAME_BYTES.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[0; 10]);
        let error = read_frame(&mut &bytes[..]).unwrap_err();
        assert!(matches!(error, FrameError::Truncated { part: "contents", got: 10, .. }), "{error}");
    }

    #[test]
    fn frames_that_are_no_message() {
        for payload in [&[][..], &[9, 0, 0, 0, 0, 0, 0, 0, 0], &[ARTIFACT, 1, 2], &[HELLO, b'['], b"\x02"] {
            let error = Message::decode(payload).unwrap_err();
            assert!(matches!(error, FrameError::Malformed { .. }), "{payload:?}: {error}");
        }
    }

    #[test]
    fn a_newer_hello_is_still_read() {
        let payload = b"\x01{\"protocol\":2,\"fingerprint\":\"x\",\"llvm\":\"y\",\"new\":[1]}";
        match Message::decode(payload).unwrap() {
            Message::Hello(hello) => assert_eq!((hello.protocol, hello.fingerprint.as_str()), (2, "x")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn serve_answers_in_order_and_ends_with_its_input() {
        let mut input = Vec::new();
        for id in [3, 4] {
            Message::Request { id, request: Box::new(request()) }.write(&mut input).unwrap();
        }
        let mut output = Vec::new();
        let mut asked = 0;
        serve(&mut &input[..], &mut output, Hello::current("none"), |got| {
            assert_eq!(*got, request());
            asked += 1;
            Err(failure())
        })
        .unwrap();
        assert_eq!(asked, 2);
        let mut output = &output[..];
        assert!(matches!(Message::read(&mut output).unwrap(), Some(Message::Hello(_))));
        for id in [3, 4] {
            let expected = Message::Failure { id, failure: failure() };
            assert_eq!(Message::read(&mut output).unwrap(), Some(expected));
        }
        assert_eq!(Message::read(&mut output).unwrap(), None);
    }
}
