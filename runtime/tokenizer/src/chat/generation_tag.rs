//! `{% generation %}` … `{% endgeneration %}`, by which some templates mark the text that a model
//! is trained to write. It renders what it encloses.

/// Replaces the tags by an `if` that always holds, which keeps their whitespace control.
pub(super) fn neutralise(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(open) = rest.find("{%") {
        let (before, tag) = rest.split_at(open);
        out.push_str(before);
        match parse(tag) {
            Some((left, name, right, length)) => {
                let name = if name == "generation" { "if true" } else { "endif" };
                out.push_str(&format!("{{%{left} {name} {right}%}}"));
                rest = tag.get(length..).unwrap_or("");
            }
            None => {
                out.push_str("{%");
                rest = tag.get(2..).unwrap_or("");
            }
        }
    }
    out.push_str(rest);
    out
}

/// (whitespace control, name, whitespace control, length) of a tag that `text` begins with.
fn parse(text: &str) -> Option<(&str, &str, &str, usize)> {
    let end = text.find("%}")?;
    let inner = text.get(2..end)?;
    let (left, inner) = sign(inner, str::strip_prefix);
    let (right, inner) = sign(inner, str::strip_suffix);
    let name = inner.trim();
    matches!(name, "generation" | "endgeneration").then_some((left, name, right, end + 2))
}

fn sign<'t>(text: &'t str, strip: impl Fn(&'t str, char) -> Option<&'t str>) -> (&'static str, &'t str) {
    if let Some(text) = strip(text, '-') {
        ("-", text)
    } else if let Some(text) = strip(text, '+') {
        ("+", text)
    } else {
        ("", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tags_change() {
        assert_eq!(
            neutralise("a{%- generation -%} b {{ '{%' }} {%endgeneration%}\n{% if generation %}"),
            "a{%- if true -%} b {{ '{%' }} {% endif %}\n{% if generation %}"
        );
        assert_eq!(neutralise("{% generation"), "{% generation");
        assert_eq!(neutralise("{%+ generation +%}x"), "{%+ if true +%}x");
    }
}
