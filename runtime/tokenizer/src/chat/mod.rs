//! Chat templates: a list of messages to the prompt of a model.
//!
//! Templates are Jinja, rendered as Hugging Face `transformers` does: `trim_blocks` and
//! `lstrip_blocks`, loop controls, no escaping, `raise_exception` and `strftime_now`, methods of
//! Python's `str`, `dict` and `list`, and a `tojson` that writes what Python's `json.dumps` does.

mod clock;
mod generation_tag;
mod guard;
mod json;
mod python;

use std::sync::Arc;
use std::time::SystemTime;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Serde, Value, ValueKind};
use minijinja::{Environment, ErrorKind, State};
use serde_json::Map;
use thiserror::Error;

use guard::{Guard, Markers};

/// What a render may spend; see [`Environment::set_fuel`]. Bounds its time (seconds) and its
/// memory (a gigabyte), which a hostile template could otherwise use up.
const FUEL: u64 = 16_000_000;

/// The texts of a vocabulary that a template has to do with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTexts {
    /// `bos_token`.
    pub bos: Option<String>,
    /// `eos_token`.
    pub eos: Option<String>,
    /// The texts of all control tokens.
    pub control: Vec<String>,
}

/// What a chat is rendered from. Only [`ChatInput::messages`] is needed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatInput {
    /// An array of objects with `role` and `content`, or what else the template reads.
    pub messages: serde_json::Value,
    /// Tools as an array of JSON schemas; `None` is Jinja's `none`.
    pub tools: Option<serde_json::Value>,
    /// Whether the prompt ends in the beginning of the answer.
    pub add_generation_prompt: bool,
    /// Further variables, such as `enable_thinking`. They shadow neither the ones above nor
    /// `bos_token` and `eos_token`.
    pub extra: Map<String, serde_json::Value>,
    /// The time that `strftime_now` formats, in UTC; `None` is now.
    pub now: Option<SystemTime>,
}

/// Why there is no prompt.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ChatError {
    /// The template is not valid.
    #[error("chat template{}: {message}", at_line(*line))]
    Compile {
        /// Line of the template, from 1.
        line: Option<usize>,
        /// What is wrong.
        message: String,
    },
    /// The template fails on this input.
    #[error("chat template{}: {message}", at_line(*line))]
    Render {
        /// Line of the template, from 1.
        line: Option<usize>,
        /// What went wrong.
        message: String,
    },
    /// The template itself refuses the input, by `raise_exception`.
    #[error("the chat template refuses the messages: {message}")]
    Refused {
        /// The template's words.
        message: String,
    },
    /// Messages are not an array.
    #[error("messages are not an array")]
    NotAnArray,
    /// The input holds names of control tokens, and all 32 code points U+FDD0 to U+FDEF, one of
    /// which would mark them.
    #[error("the messages use every noncharacter from U+FDD0 to U+FDEF")]
    NoMarkLeft,
}

fn at_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

/// A prompt, and which of its text a template vouches for.
///
/// Its barriers are the places inside names of control tokens that stem from the input: a match
/// of a control token's name that has a barrier strictly inside is no control token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedPrompt {
    text: String,
    /// Byte offsets into `text`, ascending.
    barriers: Vec<usize>,
}

impl RenderedPrompt {
    /// The prompt as the template wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Byte offsets into the text, ascending.
    pub fn barriers(&self) -> &[usize] {
        &self.barriers
    }
}

/// A compiled chat template.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: Arc<str>,
    bos: Option<String>,
    eos: Option<String>,
    markers: Markers,
}

/// The name of the one template of the environment.
const NAME: &str = "chat_template";

/// Variables that [`ChatInput::extra`] does not set.
const OWN_VARIABLES: [&str; 5] = ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token"];

impl ChatTemplate {
    /// Compiles `source`. `special` must be that of the vocabulary that the prompts are encoded
    /// with ([`crate::Tokenizer::special_texts`]): its control tokens are what messages are
    /// guarded against.
    pub fn new(source: &str, special: &SpecialTexts) -> Result<ChatTemplate, ChatError> {
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.map_err(|error| compile_error(&error))?;
        let mut environment = Environment::new();
        environment.set_syntax(syntax);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(python::method);
        environment.add_function("dict", python::dict);
        let cycler = |items: Rest<Value>| minijinja_contrib::globals::cycler(items.0);
        environment.add_function("cycler", cycler);
        environment.add_function("joiner", minijinja_contrib::globals::joiner);
        environment.add_filter("striptags", minijinja_contrib::filters::striptags);
        environment.add_filter("truncate", minijinja_contrib::filters::truncate);
        environment.add_function("raise_exception", raise_exception);
        environment.add_test("iterable", is_iterable);
        environment.add_test("sequence", is_sequence);
        environment
            .add_template_owned(NAME, generation_tag::neutralise(source))
            .map_err(|error| compile_error(&error))?;
        Ok(ChatTemplate {
            environment,
            source: source.into(),
            bos: special.bos.clone(),
            eos: special.eos.clone(),
            markers: Markers::new(&special.control),
        })
    }

    /// The template as given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a chat.
    ///
    /// Names of control tokens in strings of the input (keys and values, at any depth) come out
    /// as text, guarded by barriers; so do names that such a string and the text around it make
    /// together. While the template runs, they hold a noncharacter, so a template cannot find
    /// them by string operations. Two things are beyond the guard: a template that makes a name
    /// out of a message that did not contain it (by taking out what parts it, or by changing
    /// case), and one that writes both ends of a name around a plain word of the input, as
    /// `<|{{ role }}|>`.
    pub fn render(&self, input: &ChatInput) -> Result<RenderedPrompt, ChatError> {
        if !input.messages.is_array() {
            return Err(ChatError::NotAnArray);
        }
        let fixed = [Some(&*self.source), self.bos.as_deref(), self.eos.as_deref()];
        let mut guard = Guard::new(&self.markers, fixed.into_iter().flatten());
        guard.reserve(&input.messages);
        if let Some(tools) = &input.tools {
            guard.reserve(tools);
        }
        for (name, value) in &input.extra {
            guard.reserve_text(name);
            guard.reserve(value);
        }

        let mut context: Vec<(String, Value)> = vec![("documents".into(), Value::from(()))];
        for (name, value) in input.extra.iter().filter(|(name, _)| !OWN_VARIABLES.contains(&name.as_str())) {
            context.push((name.clone(), Value::from(Serde(guard.protect(value)?))));
        }
        let tools = match &input.tools {
            Some(tools) => Value::from(Serde(guard.protect(tools)?)),
            None => Value::from(()),
        };
        context.push(("messages".into(), Value::from(Serde(guard.protect(&input.messages)?))));
        context.push(("tools".into(), tools));
        context.push(("add_generation_prompt".into(), Value::from(input.add_generation_prompt)));
        for (name, text) in [("bos_token", &self.bos), ("eos_token", &self.eos)] {
            if let Some(text) = text {
                context.push((name.into(), Value::from(text.as_str())));
            }
        }

        let mark = guard.mark();
        let environment = self.environment_for(mark, input.now.unwrap_or_else(SystemTime::now));
        let text = environment
            .get_template(NAME)
            .and_then(|template| template.render(Value::from_pairs(context)))
            .map_err(|error| render_error(&error, mark))?;
        let (text, barriers) = guard::lift(&text, mark);
        Ok(RenderedPrompt { text, barriers })
    }

    /// The environment of one render: its `tojson` leaves the guard's mark alone, and its clock
    /// stands still.
    fn environment_for(&self, mark: Option<char>, now: SystemTime) -> Environment<'static> {
        let mut environment = self.environment.clone();
        environment.add_filter("tojson", move |value: &Value, positional: Option<bool>, options: Kwargs| {
            json::to_json(value, positional, &options, mark)
        });
        environment.add_function("strftime_now", move |format: &str| clock::strftime(now, format));
        environment
    }
}

/// The error of `raise_exception`, told apart from the engine's own.
#[derive(Debug, Error)]
#[error("{0}")]
struct Raised(String);

fn raise_exception(_: &State, message: String) -> Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// As in Python, where `None` has no iterator.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// As in Python, where whatever has a length and items is one.
fn is_sequence(value: &Value) -> bool {
    use ValueKind::{Bytes, Map, Seq, String, Undefined};
    matches!(value.kind(), Seq | String | Bytes | Map | Undefined)
}

fn compile_error(error: &minijinja::Error) -> ChatError {
    ChatError::Compile { line: error.line(), message: message(error, None) }
}

fn render_error(error: &minijinja::Error, mark: Option<char>) -> ChatError {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(Raised(words)) = cause.downcast_ref() {
            return ChatError::Refused { message: guard::lift(words, mark).0 };
        }
        source = cause.source();
    }
    ChatError::Render { line: error.line(), message: message(error, mark) }
}

fn message(error: &minijinja::Error, mark: Option<char>) -> String {
    let text = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    guard::lift(&text, mark).0
}
