//! Cutting a program down while it stays wrong in the same way.

use crate::program::{ExtentName, Part, Program, Statement, Term};

/// The most programs that are tried.
const MOST_TRIES: usize = 600;

/// The smallest program found for which `still` holds, as it does for `program`.
pub fn shrink(program: &Program, still: &mut dyn FnMut(&Program) -> bool) -> Program {
    let mut best = program.clone();
    let mut tries = 0;
    loop {
        let mut better = false;
        let mut at = 0;
        // Candidates are made anew after each success, from where the last one stood: what
        // failed before mostly fails again.
        while let Some(candidate) = candidate(&best, at) {
            at += 1;
            if candidate == best || size(&candidate) >= size(&best) {
                continue;
            }
            tries += 1;
            if tries > MOST_TRIES {
                return best;
            }
            if still(&candidate) {
                best = candidate;
                better = true;
                at -= 1;
            }
        }
        if !better {
            return best;
        }
    }
}

/// What a smaller program has less of: text, then what it runs over.
fn size(program: &Program) -> (usize, u64) {
    let values = program.extents.iter().map(|extent| extent.value).sum::<u64>();
    let scalars = program.scalars.iter().map(|scalar| scalar.value.abs() as u64 + 1).sum::<u64>();
    (program.text().len(), values + scalars)
}

/// The change with a number: statements first, then what they hold.
fn candidate(program: &Program, at: usize) -> Option<Program> {
    let statements = count_statements(&program.body);
    let mut at = at;
    for change in [remove as fn(&mut Vec<Statement>, usize), unwrap] {
        if at < statements {
            let mut next = program.clone();
            let mut left = at;
            edit(&mut next.body, &mut left, change);
            return Some(tidy(next));
        }
        at -= statements;
    }
    let mut terms = Vec::new();
    collect(&program.body, &mut terms);
    for (number, term) in terms.iter().enumerate() {
        let choices = replacements(term);
        if at < choices.len() {
            let mut next = program.clone();
            let mut left = number;
            replace(&mut next.body, &mut left, &choices[at]);
            return Some(tidy(next));
        }
        at -= choices.len();
    }
    let simplest =
        [simplest_extent as fn(&mut Program, usize), halved_extent, decremented_extent, unnamed_extent];
    for change in simplest {
        if at < program.extents.len() {
            let mut next = program.clone();
            change(&mut next, at);
            return Some(next);
        }
        at -= program.extents.len();
    }
    if at < program.scalars.len() {
        let mut next = program.clone();
        next.scalars[at].value = 0.0;
        return Some(next);
    }
    at -= program.scalars.len();
    if at == 0 {
        let mut next = program.clone();
        next.functions.clear();
        return Some(next);
    }
    at -= 1;
    if at < program.grid.len() {
        let mut next = program.clone();
        next.grid[at] = Term::text("1");
        return Some(tidy(next));
    }
    None
}

fn simplest_extent(program: &mut Program, at: usize) {
    program.extents[at].value = 1;
}

fn halved_extent(program: &mut Program, at: usize) {
    program.extents[at].value = program.extents[at].value.div_ceil(2);
}

fn decremented_extent(program: &mut Program, at: usize) {
    program.extents[at].value = (program.extents[at].value - 1).max(1);
}

fn unnamed_extent(program: &mut Program, at: usize) {
    program.extents[at].name = ExtentName::Number;
}

fn count_statements(block: &[Statement]) -> usize {
    block
        .iter()
        .map(|statement| match statement {
            Statement::Line(_) => 1,
            Statement::Block { body, otherwise, .. } => {
                1 + count_statements(body) + otherwise.as_deref().map_or(0, count_statements)
            }
        })
        .sum()
}

/// Applies a change to the statement with a number.
fn edit(block: &mut Vec<Statement>, left: &mut usize, change: fn(&mut Vec<Statement>, usize)) -> bool {
    for at in 0..block.len() {
        if *left == 0 {
            change(block, at);
            return true;
        }
        *left -= 1;
        if let Statement::Block { body, otherwise, .. } = &mut block[at] {
            if edit(body, left, change) {
                return true;
            }
            if otherwise.as_mut().is_some_and(|otherwise| edit(otherwise, left, change)) {
                return true;
            }
        }
    }
    false
}

fn remove(block: &mut Vec<Statement>, at: usize) {
    block.remove(at);
}

/// The body in place of a loop or branch.
fn unwrap(block: &mut Vec<Statement>, at: usize) {
    if let Statement::Block { body, .. } = &block[at] {
        let body = body.clone();
        block.splice(at..=at, body);
    }
}

/// Every term of the statements, outer ones first.
fn collect<'a>(block: &'a [Statement], terms: &mut Vec<&'a Term>) {
    fn within<'a>(term: &'a Term, terms: &mut Vec<&'a Term>) {
        for child in term.children() {
            terms.push(child);
            within(child, terms);
        }
    }
    for statement in block {
        match statement {
            Statement::Line(term) => within(term, terms),
            Statement::Block { head, body, otherwise } => {
                within(head, terms);
                collect(body, terms);
                collect(otherwise.as_deref().unwrap_or_default(), terms);
            }
        }
    }
}

/// What may stand for a term: its parts, and literals. Ill-typed ones are refused by the checker.
fn replacements(term: &Term) -> Vec<Term> {
    let mut choices: Vec<Term> = term.children().cloned().collect();
    for child in term.children() {
        choices.extend(child.children().cloned());
    }
    if term.parts.len() > 1 || matches!(term.parts.first(), Some(Part::Text(text)) if text.len() > 1) {
        choices.extend(["0", "1", "1.0", "true"].map(Term::text));
    }
    choices
}

fn replace(block: &mut [Statement], left: &mut usize, with: &Term) -> bool {
    fn within(term: &mut Term, left: &mut usize, with: &Term) -> bool {
        for part in &mut term.parts {
            let Part::Term(child) = part else { continue };
            if *left == 0 {
                *child = with.clone();
                return true;
            }
            *left -= 1;
            if within(child, left, with) {
                return true;
            }
        }
        false
    }
    block.iter_mut().any(|statement| match statement {
        Statement::Line(term) => within(term, left, with),
        Statement::Block { head, body, otherwise } => {
            within(head, left, with)
                || replace(body, left, with)
                || otherwise.as_mut().is_some_and(|otherwise| replace(otherwise, left, with))
        }
    })
}

/// The program without parameters that its text no longer names.
fn tidy(mut program: Program) -> Program {
    let text = {
        let bare = Program { tensors: Vec::new(), scalars: Vec::new(), ..program.clone() };
        bare.text()
    };
    let names: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    program.tensors.retain(|tensor| names.contains(&tensor.name.as_str()));
    program.scalars.retain(|scalar| names.contains(&scalar.name.as_str()));
    // A dim that no tensor has any more cannot be launched with; as a number it can.
    let kept: Vec<usize> = program.tensors.iter().flat_map(|tensor| tensor.dims.clone()).collect();
    for (id, extent) in program.extents.iter_mut().enumerate() {
        if matches!(extent.name, ExtentName::Dim(..)) && !kept.contains(&id) {
            extent.name = ExtentName::Number;
        }
    }
    program
}
