//! What the user lets pass and what not: `--allow` and `--deny`.

use std::str::FromStr;

use phobos_emulator::{Fault, FaultKind, Kernel, Severity};

use crate::arguments::InputError;

/// What a report counts as, after the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Allowed,
    Note,
    Fault,
}

impl Level {
    /// The word that heads it.
    pub fn word(self) -> &'static str {
        match self {
            Level::Allowed => "allowed",
            Level::Note => "note",
            Level::Fault => "fault",
        }
    }
}

/// `KIND`, `FILE`, `FILE:LINE`, or `KIND@FILE[:LINE]`.
#[derive(Clone, Debug)]
pub struct Rule {
    kind: Option<FaultKind>,
    file: Option<String>,
    line: Option<u32>,
}

impl FromStr for Rule {
    type Err = InputError;
    fn from_str(text: &str) -> Result<Rule, InputError> {
        let (kind, place) = match text.split_once('@') {
            Some((kind, place)) => (Some(kind), Some(place)),
            None if FaultKind::named(text).is_some() => (Some(text), None),
            None => (None, Some(text)),
        };
        let kind = match kind {
            Some(name) => Some(FaultKind::named(name).ok_or_else(|| {
                let all: Vec<String> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
                InputError::new(format!("`{name}` is not a kind of report: {}", all.join(" ")))
            })?),
            None => None,
        };
        let (file, line) = match place.and_then(|place| place.rsplit_once(':')) {
            Some((file, line)) if line.parse::<u32>().is_ok() => (Some(file.to_owned()), line.parse().ok()),
            _ => (place.map(str::to_owned), None),
        };
        if file.as_ref().is_some_and(|file| !file.contains('.')) {
            return Err(InputError::new(format!("`{text}` is neither a kind of report nor a file")));
        }
        Ok(Rule { kind, file, line })
    }
}

impl Rule {
    /// Whether it names a report: its kind, and a place on either side of it.
    fn covers(&self, kernel: &Kernel, fault: &Fault) -> bool {
        let sides = std::iter::once(fault.pc).chain(fault.others.iter().map(|side| side.pc));
        self.kind.is_none_or(|kind| kind == fault.kind)
            && (self.file.is_none() || sides.into_iter().any(|pc| self.stands_at(kernel, pc)))
    }

    fn stands_at(&self, kernel: &Kernel, pc: u32) -> bool {
        let Some(place) = kernel.places.get(pc as usize) else { return false };
        let is = |file: &str, line: u32| {
            let named = self.file.as_ref().is_some_and(|wanted| {
                file == wanted || file.ends_with(wanted) && file[..file.len() - wanted.len()].ends_with('/')
            });
            named && self.line.is_none_or(|wanted| wanted == line)
        };
        let chain = kernel.chains.get(place.chain as usize).into_iter().flatten();
        is(&kernel.file, place.pos.line)
            || place
                .loc
                .iter()
                .chain(chain)
                .any(|(file, line)| kernel.files.get(*file as usize).is_some_and(|file| is(file, *line)))
    }
}

/// A kind whose notes count as faults, or `notes` for all.
#[derive(Clone, Copy, Debug)]
pub struct Denied(Option<FaultKind>);

impl FromStr for Denied {
    type Err = InputError;
    fn from_str(text: &str) -> Result<Denied, InputError> {
        if text == "notes" {
            return Ok(Denied(None));
        }
        match FaultKind::named(text) {
            Some(kind) => Ok(Denied(Some(kind))),
            None => Err(InputError::new(format!("`{text}` is neither `notes` nor a kind of report"))),
        }
    }
}

/// The rules of a run.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub allow: Vec<Rule>,
    pub deny: Vec<Denied>,
}

impl Policy {
    /// What a report counts as.
    pub fn level(&self, kernel: &Kernel, fault: &Fault) -> Level {
        if self.allow.iter().any(|rule| rule.covers(kernel, fault)) {
            return Level::Allowed;
        }
        self.level_of(fault.kind)
    }

    /// The same of what stands at no instruction.
    pub fn level_of(&self, kind: FaultKind) -> Level {
        if self.allow.iter().any(|rule| rule.file.is_none() && rule.kind == Some(kind)) {
            return Level::Allowed;
        }
        let denied = self.deny.iter().any(|denied| denied.0.is_none_or(|denied| denied == kind));
        if kind.severity() == Severity::Fault || denied { Level::Fault } else { Level::Note }
    }
}
