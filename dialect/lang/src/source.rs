//! A source text and the files and lines that its byte offsets stand for.
//!
//! A text with imports expanded (see [`crate::import`]) has marker lines
//! `#file "path" line`: the next line is that line of that file. A marker without a
//! path returns to the root file, so the text does not hold the root's name.

use crate::span::Span;

/// The largest text that is read, in bytes.
pub const MAX_TEXT: usize = 4 << 20;

/// A source text under a name.
#[derive(Clone, Debug)]
pub struct SourceFile {
    name: String,
    text: String,
    /// The offset of each line's first byte.
    lines: Vec<usize>,
    sections: Vec<Section>,
}

/// A run of lines that came from one file.
#[derive(Clone, Debug)]
struct Section {
    /// The first line of the text (from 0) in this section.
    line: usize,
    /// The file; `None` for the root.
    file: Option<String>,
    /// The number in the file (from 1) of the section's first line.
    number: usize,
}

/// A position for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file's name.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1; a tab is one character.
    pub column: usize,
}

impl SourceFile {
    /// A text; `name` is how messages call it. A text over [`MAX_TEXT`] is cut
    /// there, which [`crate::parse`] reports.
    pub fn new(name: &str, text: &str) -> SourceFile {
        let mut end = text.len().min(MAX_TEXT + 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = text.get(..end).unwrap_or_default().to_owned();
        let mut lines = vec![0];
        lines.extend(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1));
        let mut sections = vec![Section { line: 0, file: None, number: 1 }];
        for (index, line) in text.split('\n').enumerate() {
            if let Some((file, number)) = parse_marker(line) {
                sections.push(Section { line: index + 1, file: file.map(str::to_owned), number });
            }
        }
        SourceFile { name: name.to_owned(), text, lines, sections }
    }

    /// The name of the root file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of a span; empty when it is not one of this text.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// The line of the text (from 0) that holds a byte.
    fn line_index(&self, offset: u32) -> usize {
        self.lines.partition_point(|start| *start <= offset as usize).saturating_sub(1)
    }

    /// Where a byte stands.
    pub fn location(&self, offset: u32) -> Location {
        let index = self.line_index(offset);
        let start = self.lines.get(index).copied().unwrap_or(0);
        let before = self.text.get(start..(offset as usize).min(self.text.len())).unwrap_or_default();
        let section = self.sections.partition_point(|section| section.line <= index).saturating_sub(1);
        let (file, line) = match self.sections.get(section) {
            Some(section) => (section.file.as_deref(), section.number.saturating_add(index - section.line)),
            None => (None, index + 1),
        };
        Location {
            file: file.unwrap_or(&self.name).to_owned(),
            line,
            column: before.chars().filter(|c| *c != '\u{feff}').count() + 1,
        }
    }

    /// The byte at a place: the inverse of [`SourceFile::location`].
    pub fn offset(&self, location: &Location) -> Option<u32> {
        let file = |section: &Section| section.file.as_deref().unwrap_or(&self.name) == location.file;
        let starts = self.sections.iter().map(|section| section.line);
        let ends = starts.skip(1).map(|line| line - 1).chain([self.lines.len()]);
        let index = self.sections.iter().zip(ends).find_map(|(section, end)| {
            let index = location.line.checked_sub(section.number)?.checked_add(section.line)?;
            (file(section) && index < end).then_some(index)
        })?;
        let start = *self.lines.get(index)?;
        let column = self.text.get(start..)?.char_indices().filter(|(_, c)| *c != '\u{feff}');
        let (at, _) = column.chain([(self.text.len() - start, ' ')]).nth(location.column.checked_sub(1)?)?;
        u32::try_from(start + at).ok()
    }

    /// The line that holds a byte, without its line break, and the offset of its start.
    pub fn line_at(&self, offset: u32) -> (&str, u32) {
        let index = self.line_index(offset);
        let start = self.lines.get(index).copied().unwrap_or(0);
        let end = self.lines.get(index + 1).map_or(self.text.len(), |next| next - 1);
        let line = self.text.get(start..end).unwrap_or_default();
        (line.strip_suffix('\r').unwrap_or(line), start as u32)
    }
}

/// The marker that says that the next line is line `number` of `file` (the root if `None`).
pub(crate) fn marker(file: Option<&str>, number: usize) -> String {
    match file {
        Some(file) => format!("#file \"{file}\" {number}\n"),
        None => format!("#file {number}\n"),
    }
}

/// Reads a marker line.
fn parse_marker(line: &str) -> Option<(Option<&str>, usize)> {
    let rest = line.strip_suffix('\r').unwrap_or(line).strip_prefix("#file ")?;
    match rest.strip_prefix('"') {
        Some(quoted) => {
            let (file, number) = quoted.rsplit_once("\" ")?;
            Some((Some(file), number.parse().ok()?))
        }
        None => Some((None, rest.parse().ok()?)),
    }
}

/// Whether a line is a marker.
pub(crate) fn is_marker(line: &str) -> bool {
    parse_marker(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_over_crlf_and_tabs() {
        let source = SourceFile::new("a.ph", "ab\r\n\té = 1\r\n");
        let at = source.text().find('=').unwrap() as u32;
        assert_eq!(source.location(at), Location { file: "a.ph".into(), line: 2, column: 4 });
        assert_eq!(source.line_at(at), ("\té = 1", 4));
        assert_eq!(source.location(u32::MAX).line, 3);
    }

    #[test]
    fn markers_switch_files() {
        let text = "#file \"lib/x.ph\" 7\nx\n#file 2\ny\n";
        let source = SourceFile::new("a.ph", text);
        let at = |c| source.location(text.find(c).unwrap() as u32);
        assert_eq!(at("x\n"), Location { file: "lib/x.ph".into(), line: 7, column: 1 });
        assert_eq!(at("y"), Location { file: "a.ph".into(), line: 2, column: 1 });
    }

    #[test]
    fn an_offset_is_the_inverse_of_a_location() {
        let text = "a §b\n#file \"lib.ph\" 1\nin lib\n\n#file 2\nlast";
        let source = SourceFile::new("k.ph", text);
        for (offset, _) in text.char_indices().chain([(text.len(), ' ')]) {
            let line = text[..offset].matches('\n').count();
            // Marker lines belong to no file.
            if ![1, 4].contains(&line) {
                let location = source.location(offset as u32);
                assert_eq!(source.offset(&location), Some(offset as u32), "{location:?}");
            }
        }
        for (file, line, column) in
            [("k.ph", 0, 1), ("k.ph", 1, 0), ("k.ph", 1, 99_999), ("k.ph", 9, 1), ("x.ph", 1, 1)]
        {
            assert_eq!(
                source.offset(&Location { file: file.into(), line, column }),
                None,
                "{file}:{line}:{column}"
            );
        }
    }
}
