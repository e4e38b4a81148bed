//! Messages about a program: a code with a rule, a place, and what to do.

mod code;
mod json;
mod nearest;
mod render;

pub use code::Code;
pub use json::to_json;
pub use nearest::nearest;
pub use render::{RenderOptions, render};

use crate::span::Span;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// No code can be made.
    Error,
    /// Code can be made.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Which rule.
    pub code: Code,
    /// How bad.
    pub severity: Severity,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Where.
    pub span: Span,
    /// A few words under the caret.
    pub label: Option<String>,
    /// Other places that matter.
    pub related: Vec<Related>,
    /// What to do.
    pub help: Option<String>,
}

/// Another place that matters to a diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// Where.
    pub span: Span,
    /// Why it matters.
    pub message: String,
}

impl Diagnostic {
    /// An error.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            span,
            label: None,
            related: Vec::new(),
            help: None,
        }
    }

    /// A warning.
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// With words under the caret.
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = Some(label.into());
        self
    }

    /// With another place.
    pub fn related(mut self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.related.push(Related { span, message: message.into() });
        self
    }

    /// With what to do.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// With what to do, if known.
    pub fn help_opt(mut self, help: Option<String>) -> Diagnostic {
        self.help = help.or(self.help);
        self
    }
}

/// `1 axis`, `2 axes`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Diagnostics of one run, at most [`Sink::LIMIT`].
#[derive(Debug, Default)]
pub(crate) struct Sink {
    list: Vec<Diagnostic>,
}

impl Sink {
    /// More than these help nobody.
    const LIMIT: usize = 64;

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        let repeated = self.list.iter().any(|d| d.span == diagnostic.span && d.code == diagnostic.code);
        if self.list.len() < Sink::LIMIT && !repeated {
            self.list.push(diagnostic);
        }
    }

    /// In source order.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.list.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.code));
        self.list
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.list.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}
