//! Expansion of `import "path.ph"`: one text that holds all files.
//!
//! The crate does no I/O: the caller gives a loader. A path is relative to the file
//! that imports it, and the loader gets it relative to the root file, with `/` and
//! without `.` and inner `..`. Each file stands in the text once, at its first
//! import, between marker lines (see [`SourceFile`]); so cycles end, and places in
//! the text are shown as places in the files. Whether two paths are one file, the root
//! among them, the loader knows ([`Loader::identity`]). The text does not depend on
//! where the files lie, which makes it fit to be part of a cache key.

use std::collections::BTreeSet;

use crate::{
    diagnostics::{Code, Diagnostic, Sink},
    lexer::{Token, TokenKind, lex},
    source::{MAX_TEXT, SourceFile, marker},
    span::Span,
};

/// Imports nest at most this deep.
const MAX_DEPTH: usize = 32;

/// Where imported files come from. A closure from paths to texts is one.
pub trait Loader {
    /// The text of a file by its path relative to the root file; the error is shown to
    /// people.
    fn load(&mut self, path: &str) -> Result<String, String>;

    /// What is equal for paths of one file, and differs for others. Without links, and
    /// without paths that leave the root's folder, that is the path.
    fn identity(&mut self, path: &str) -> String {
        path.to_owned()
    }
}

impl<F: FnMut(&str) -> Result<String, String>> Loader for F {
    fn load(&mut self, path: &str) -> Result<String, String> {
        self(path)
    }
}

/// The text of the root file with all imports expanded; `name` is its path, with `/`. An
/// import that fails is reported and left in the text.
pub fn expand(name: &str, text: &str, loader: &mut dyn Loader) -> (SourceFile, Vec<Diagnostic>) {
    let root = loader.identity(name.rsplit('/').next().unwrap_or(name));
    let mut expander =
        Expander { out: String::new(), sink: Sink::default(), seen: BTreeSet::from([root]), loader };
    expander.file(None, text, 0);
    (SourceFile::new(name, &expander.out), expander.sink.finish())
}

struct Expander<'a> {
    out: String,
    sink: Sink,
    /// The identities of the files that stand in the text.
    seen: BTreeSet<String>,
    loader: &'a mut dyn Loader,
}

impl Expander<'_> {
    /// Appends a file; `file` is `None` for the root.
    fn file(&mut self, file: Option<&str>, text: &str, depth: usize) {
        let source = SourceFile::new(file.unwrap_or_default(), text);
        let tokens = lex(&source, &mut Sink::default());
        let mut copied = 0;
        for (start, end, path) in imports(&source, &tokens) {
            self.out.push_str(text.get(copied..start).unwrap_or_default());
            copied = start;
            let line = text.get(..start).unwrap_or_default().matches('\n').count() + 1;
            match self.resolve(file, &path, depth) {
                Ok(None) => {}
                Ok(Some((path, imported))) => {
                    if !self.out.is_empty() && !self.out.ends_with('\n') {
                        self.out.push('\n');
                    }
                    self.out.push_str(&marker(Some(&path), 1));
                    self.file(Some(&path), &imported, depth + 1);
                    self.out.push('\n');
                    self.out.push_str(&marker(file, line));
                    let line_start =
                        text.get(..start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
                    let column = text.get(line_start..start).unwrap_or_default().chars().count();
                    self.out.extend(std::iter::repeat_n(' ', column));
                }
                Err(reason) => {
                    let at = self.out.len() as u32;
                    let span = Span::new(at, at + (end - start) as u32);
                    self.sink.push(Diagnostic::error(
                        Code::ImportFailed,
                        span,
                        format!("cannot import \"{path}\": {reason}"),
                    ));
                    continue;
                }
            }
            // What follows on the line keeps its column.
            let width = text.get(start..end).unwrap_or_default().chars().count();
            self.out.extend(std::iter::repeat_n(' ', width));
            copied = end;
        }
        self.out.push_str(text.get(copied..).unwrap_or_default());
    }

    /// The path and text of an import; `None` when it stands in the text already.
    fn resolve(
        &mut self,
        from: Option<&str>,
        path: &str,
        depth: usize,
    ) -> Result<Option<(String, String)>, String> {
        let path = join(from, path).ok_or("the path is empty or has control characters")?;
        let identity = self.loader.identity(&path);
        if self.seen.contains(&identity) {
            return Ok(None);
        }
        if depth + 1 >= MAX_DEPTH {
            return Err(format!("imports nest at most {MAX_DEPTH} levels"));
        }
        let text = self.loader.load(&path)?;
        if text.len() > MAX_TEXT || self.out.len() + text.len() > MAX_TEXT {
            return Err(format!("the text would have more than {MAX_TEXT} bytes"));
        }
        self.seen.insert(identity);
        Ok(Some((path, text)))
    }
}

/// The imports of a text: byte range and path. They stand outside all brackets.
fn imports(source: &SourceFile, tokens: &[Token]) -> Vec<(usize, usize, String)> {
    let mut found = Vec::new();
    let mut depth = 0i64;
    let mut begins = true;
    for pair in tokens.windows(2) {
        let [token, next] = pair else { continue };
        match token.kind {
            TokenKind::Symbol("(" | "[" | "{") => depth += 1,
            TokenKind::Symbol(")" | "]" | "}") => depth -= 1,
            TokenKind::Name if begins && depth == 0 && source.slice(token.span) == "import" => {
                let text = source.slice(next.span);
                if let (TokenKind::Text, Some(path)) =
                    (next.kind, text.strip_prefix('"').and_then(|text| text.strip_suffix('"')))
                {
                    found.push((token.span.start as usize, next.span.end as usize, path.to_owned()));
                }
            }
            _ => {}
        }
        begins = matches!(token.kind, TokenKind::Newline);
    }
    found
}

/// A path relative to the directory of `from`, with `.` and inner `..` resolved.
fn join(from: Option<&str>, path: &str) -> Option<String> {
    if path.is_empty() || path.chars().any(char::is_control) {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    let absolute = path.starts_with('/');
    if let (Some((folder, _)), false) = (from.and_then(|from| from.rsplit_once('/')), absolute) {
        parts.extend(folder.split('/'));
    }
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if joined.is_empty() {
        return None;
    }
    Some(if absolute { format!("/{joined}") } else { joined })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Location, parse, tree::Item};

    fn files(path: &str) -> Result<String, String> {
        match path {
            "lib/a.ph" => Ok("import \"b.ph\"\nconst A = 1\n".to_owned()),
            "lib/b.ph" => Ok("// b\nimport \"../main2.ph\"\nconst B = oops".to_owned()),
            "main2.ph" => Ok("import \"lib/a.ph\"\nconst C = 3".to_owned()),
            _ => Err("no such file".to_owned()),
        }
    }

    #[test]
    fn files_stand_once_and_places_map_back() {
        let text = "import \"lib/a.ph\"; const D = 4 // d\nimport \"./lib/b.ph\"\nconst E = 5\n";
        let (source, diagnostics) = expand("k.ph", text, &mut files);
        assert_eq!(diagnostics, []);
        let (module, errors) = parse(&source);
        assert_eq!(errors, []);
        let consts: Vec<(&str, Location)> = module
            .items
            .iter()
            .map(|item| match item {
                Item::Const(item) => (item.name.name.as_str(), source.location(item.name.span.start)),
                other => panic!("{other:?}"),
            })
            .collect();
        let at = |file: &str, line, column| Location { file: file.into(), line, column };
        assert_eq!(
            consts,
            [
                ("C", at("main2.ph", 2, 7)),
                ("B", at("lib/b.ph", 3, 7)),
                ("A", at("lib/a.ph", 2, 7)),
                ("D", at("k.ph", 1, 26)),
                ("E", at("k.ph", 3, 7)),
            ]
        );
    }

    #[test]
    fn a_failed_import_is_reported_in_its_place() {
        let mut one = |path: &str| {
            if path == "x/y.ph" {
                Ok("\n  import \"gone.ph\"\n".to_owned())
            } else {
                Err(format!("{path} is gone"))
            }
        };
        let (source, diagnostics) = expand("k.ph", "import \"x/y.ph\"\n", &mut one);
        let [only] = diagnostics.as_slice() else { panic!("{diagnostics:?}") };
        assert_eq!(only.code, Code::ImportFailed);
        assert_eq!(only.message, "cannot import \"gone.ph\": x/gone.ph is gone");
        assert_eq!(source.location(only.span.start), Location { file: "x/y.ph".into(), line: 2, column: 3 });
        assert_eq!(source.slice(only.span), "import \"gone.ph\"");
    }

    /// Files of the folder `imp`, which is reached under several names.
    struct Folder;

    impl Loader for Folder {
        fn load(&mut self, path: &str) -> Result<String, String> {
            match self.identity(path).as_str() {
                "imp/c1.ph" => Ok("import \"../imp/c2.ph\"\nconst C1 = 1\n".to_owned()),
                "imp/c2.ph" => Ok("import \"c1.ph\"\nimport \"root.ph\"\nconst C2 = 2\n".to_owned()),
                other => Err(format!("{other} is read once too often")),
            }
        }

        fn identity(&mut self, path: &str) -> String {
            let path = path.strip_prefix("../imp/").or(path.strip_prefix("link/")).unwrap_or(path);
            format!("imp/{path}")
        }
    }

    #[test]
    fn a_file_under_two_paths_and_the_root_stand_once() {
        let text = "import \"c1.ph\"\nimport \"link/c2.ph\"\nimport \"../imp/root.ph\"\nimport \"root.ph\"\nconst R = 3\n";
        for name in ["root.ph", "some/where/imp/root.ph"] {
            let (source, diagnostics) = expand(name, text, &mut Folder);
            assert_eq!(diagnostics, [], "{name}");
            for (item, count) in [("const C1", 1), ("const C2", 1), ("const R", 1), ("import", 0)] {
                assert_eq!(source.text().matches(item).count(), count, "{item}");
            }
        }
        // A closure knows its root by its path.
        let mut none = |path: &str| Err(format!("{path} was asked for"));
        assert_eq!(expand("a/k.ph", "import \"./k.ph\"\n", &mut none).1, []);
        assert_eq!(expand("a/k.ph", "import \"b/k.ph\"\n", &mut none).1.len(), 1);
    }

    #[test]
    fn endless_imports_end() {
        let mut count = 0;
        let mut endless = |_: &str| {
            count += 1;
            Ok(format!("import \"{count}.ph\"\n"))
        };
        let (_, diagnostics) = expand("k.ph", "import \"0.ph\"", &mut endless);
        assert_eq!(diagnostics.len(), 1);
        assert!(count < 40);
    }

    #[test]
    fn a_text_without_imports_is_unchanged() {
        let text = "kernel k(X: tensor<f32>[N]) {\r\n}\r\n";
        assert_eq!(expand("k.ph", text, &mut files).0.text(), text);
    }
}
