//! Diagnostics as text with the source line and a caret.

use std::fmt::Write;

use super::{Diagnostic, Severity};
use crate::{source::SourceFile, span::Span};

/// How to render.
#[derive(Clone, Copy, Debug, Default)]
pub struct RenderOptions {
    /// Use ANSI colours.
    pub colour: bool,
}

/// What a tab is shown as, so that carets stand under their text on any terminal.
const TAB: &str = "    ";
/// Longer source lines are cut around the caret.
const MAX_WIDTH: usize = 160;

/// The text of one diagnostic, ending in a newline:
/// ```text
/// error[PH0020]: `+` of f16 and f32
///  --> k.ph:3:9
///   |
/// 3 |   c = a + b
///   |       ^^^^^ f16 and f32
///   = help: write `f32(a)`
/// ```
pub fn render(diagnostic: &Diagnostic, source: &SourceFile, options: RenderOptions) -> String {
    let paint = Paint { on: options.colour };
    let main = match diagnostic.severity {
        Severity::Error => "31",
        Severity::Warning => "33",
    };
    let location = source.location(diagnostic.span.start);
    let width = diagnostic
        .related
        .iter()
        .map(|related| source.location(related.span.start).line)
        .chain([location.line])
        .max()
        .unwrap_or(1)
        .to_string()
        .len();
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{}: {}",
        paint.bold(main, &format!("{}[{}]", diagnostic.severity.name(), diagnostic.code)),
        paint.bold("0", &diagnostic.message)
    );
    snippet(&mut out, source, diagnostic.span, diagnostic.label.as_deref(), main, width, &paint);
    for related in &diagnostic.related {
        snippet(&mut out, source, related.span, Some(&related.message), "34", width, &paint);
    }
    if let Some(help) = &diagnostic.help {
        let _ = writeln!(out, "{:width$} {} {help}", "", paint.bold("34", "= help:"));
    }
    out
}

fn snippet(
    out: &mut String,
    source: &SourceFile,
    span: Span,
    label: Option<&str>,
    colour: &str,
    width: usize,
    paint: &Paint,
) {
    let location = source.location(span.start);
    let (line, start) = source.line_at(span.start);
    let at = (span.start.saturating_sub(start) as usize).min(line.len());
    let length = ((span.end.saturating_sub(span.start)) as usize).min(line.len().saturating_sub(at));
    let column = shown_width(line.get(..at).unwrap_or_default());
    let carets = shown_width(line.get(at..at + length).unwrap_or_default()).max(1);
    let shown: String = line.chars().map(show).collect();
    let (shown, column, carets) = window(&shown, column, carets);
    let bar = paint.bold("34", "|");
    let _ = writeln!(
        out,
        "{:width$}{} {}:{}:{}",
        "",
        paint.bold("34", "-->"),
        location.file,
        location.line,
        location.column
    );
    let _ = writeln!(out, "{:width$} {bar}", "");
    let number = paint.bold("34", &format!("{:width$}", location.line));
    let _ = writeln!(out, "{number} {bar} {shown}");
    let mark = format!("{} {}", "^".repeat(carets), label.unwrap_or_default());
    let _ =
        writeln!(out, "{:width$} {bar} {}{}", "", " ".repeat(column), paint.bold(colour, mark.trim_end()));
}

/// A character as it is shown: tabs as spaces, control characters as a dot.
fn show(c: char) -> std::borrow::Cow<'static, str> {
    match c {
        '\t' => TAB.into(),
        '\u{feff}' => "".into(),
        c if c.is_control() || ('\u{202a}'..='\u{2069}').contains(&c) => "\u{b7}".into(),
        c => c.to_string().into(),
    }
}

fn shown_width(text: &str) -> usize {
    text.chars().map(|c| show(c).chars().count()).sum()
}

/// Cuts a long line to a window around the caret.
fn window(line: &str, column: usize, carets: usize) -> (String, usize, usize) {
    if line.chars().count() <= MAX_WIDTH {
        return (line.to_owned(), column, carets);
    }
    let from = column.saturating_sub(MAX_WIDTH / 2);
    let part: String = line.chars().skip(from).take(MAX_WIDTH).collect();
    (part, column - from, carets.min(MAX_WIDTH - (column - from)).max(1))
}

struct Paint {
    on: bool,
}

impl Paint {
    fn bold(&self, colour: &str, text: &str) -> String {
        if self.on { format!("\x1b[1;{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::Code;

    #[test]
    fn carets_stand_under_their_text_behind_tabs_and_crlf() {
        let source = SourceFile::new("k.ph", "x\r\n\tlet é = a + b\r\n");
        let at = source.text().find("a +").unwrap() as u32;
        let diagnostic = Diagnostic::error(Code::TypeMismatch, Span::new(at, at + 5), "`+` of f16 and f32")
            .label("f16 and f32")
            .related(Span::new(0, 1), "`a` is f16")
            .help("write `f32(a)`");
        let expected = "error[PH0020]: `+` of f16 and f32
 --> k.ph:2:10
  |
2 |     let é = a + b
  |             ^^^^^ f16 and f32
 --> k.ph:1:1
  |
1 | x
  | ^ `a` is f16
  = help: write `f32(a)`
";
        assert_eq!(render(&diagnostic, &source, RenderOptions::default()), expected);
        let coloured = render(&diagnostic, &source, RenderOptions { colour: true });
        assert!(coloured.contains("\x1b[1;31merror[PH0020]\x1b[0m"), "{coloured}");
    }

    #[test]
    fn long_lines_are_cut() {
        let text = format!("{}x{}", " ".repeat(5000), "y".repeat(5000));
        let source = SourceFile::new("k.ph", &text);
        let diagnostic = Diagnostic::error(Code::UnknownName, Span::new(5000, 10_000), "no");
        let shown = render(&diagnostic, &source, RenderOptions::default());
        assert!(shown.lines().all(|line| line.chars().count() < 200), "{shown}");
        assert!(shown.contains("xyyy"));
    }
}
