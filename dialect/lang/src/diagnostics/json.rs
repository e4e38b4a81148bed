//! Diagnostics as JSON, one object per line.

use serde_json::json;

use super::Diagnostic;
use crate::{source::SourceFile, span::Span};

/// One line of JSON without the newline: `code`, `severity`, `message`, `label`,
/// `help`, `spans`. The first span is the place, others matter to it; each has
/// `file`, `line`, `column`, `end_line`, `end_column` (from 1, columns in
/// characters) and, but for the first, `message`.
pub fn to_json(diagnostic: &Diagnostic, source: &SourceFile) -> String {
    let place = |span: Span, message: Option<&str>| {
        let (start, end) = (source.location(span.start), source.location(span.end));
        json!({
            "file": start.file,
            "line": start.line,
            "column": start.column,
            "end_line": end.line,
            "end_column": end.column,
            "message": message,
        })
    };
    let mut spans = vec![place(diagnostic.span, None)];
    spans.extend(diagnostic.related.iter().map(|related| place(related.span, Some(&related.message))));
    json!({
        "code": diagnostic.code.to_string(),
        "severity": diagnostic.severity.name(),
        "message": diagnostic.message,
        "label": diagnostic.label,
        "help": diagnostic.help,
        "spans": spans,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::Code;

    #[test]
    fn one_line_with_places() {
        let source = SourceFile::new("k.ph", "ab\ncd\n");
        let diagnostic = Diagnostic::error(Code::UnknownName, Span::new(3, 5), "no \"cd\"\nhere")
            .related(Span::new(0, 2), "ab");
        let line = to_json(&diagnostic, &source);
        assert!(!line.contains('\n'));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["code"], "PH0010");
        assert_eq!(value["message"], "no \"cd\"\nhere");
        assert_eq!((&value["spans"][0]["line"], &value["spans"][0]["end_column"]), (&json!(2), &json!(3)));
        assert_eq!(value["spans"][1]["message"], "ab");
    }
}
