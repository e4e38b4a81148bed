//! Attributes of a kernel.

use phobos_artifact::{Contract, DType};

use super::Checker;
use crate::{
    constraint::is_static,
    diagnostics::{Code, Diagnostic, nearest},
    span::Span,
    tree::{self, Attribute, AttributeArg, ExprKind as Source},
    typed::{Launch, Param, ParamConstraint, TensorCore, Type},
};

/// Every attribute.
const KNOWN: [&str; 10] = [
    "autotune",
    "cluster",
    "launch",
    "pipeline",
    "tensorcore",
    "aligned",
    "dynshared",
    "persistent",
    "grid",
    "group",
];

/// The most candidates of one parameter.
const MAX_VALUES: usize = 64;

impl Checker<'_> {
    /// `@autotune` and `@cluster`, whose names the signature and the body use.
    pub(super) fn tuning_attributes(&mut self, attributes: &[Attribute]) {
        for attribute in attributes.iter().filter(|attribute| attribute.name.name == "autotune") {
            let params = self.parameter_lists(attribute);
            for param in params {
                match self.params.iter().find(|known| known.name == param.name).map(|known| known.span) {
                    Some(first) => {
                        let message = format!("`{}` is listed twice", param.name);
                        self.error(
                            Diagnostic::error(Code::DuplicateName, param.span, message)
                                .related(first, "the first list"),
                        );
                    }
                    None => self.params.push(param),
                }
            }
        }
        for attribute in attributes.iter().filter(|attribute| attribute.name.name == "cluster") {
            for param in self.parameter_lists(attribute) {
                if self.params.iter().any(|known| known.name == param.name) {
                    self.attributes.cluster.push(param);
                    continue;
                }
                let meant = nearest(&param.name, self.params.iter().map(|known| known.name.as_str()))
                    .map(|meant| format!("did you mean `{meant}`?"));
                let message = format!("`{}` is not a name of `@autotune`", param.name);
                self.error(
                    Diagnostic::error(Code::ClusterWithoutAutotune, param.span, message).help(
                        meant.unwrap_or_else(|| format!("add `{} in [...]` to `@autotune`", param.name)),
                    ),
                );
            }
        }
        for attribute in attributes.iter().filter(|attribute| attribute.name.name == "autotune") {
            for condition in &attribute.constraints {
                if let Some(constraint) = self.constraint(condition) {
                    self.constraints.push(constraint);
                }
            }
        }
    }

    fn parameter_lists(&mut self, attribute: &Attribute) -> Vec<Param> {
        let form = format!("write `@{}(NAME in [low, high])`", attribute.name.name);
        if attribute.args.is_empty() {
            let message = format!("`@{}` lists no parameters", attribute.name.name);
            self.error(Diagnostic::error(Code::BadAttribute, attribute.span, message).help(form.clone()));
        }
        if attribute.name.name == "cluster" && !attribute.constraints.is_empty() {
            let message = "`where` belongs to `@autotune`";
            self.error(Diagnostic::error(Code::BadAttribute, attribute.span, message));
        }
        let mut params = Vec::new();
        for arg in &attribute.args {
            let AttributeArg::In { name, values, span } = arg else {
                let message = format!("`@{}` takes lists of values", attribute.name.name);
                self.error(
                    Diagnostic::error(Code::BadAttribute, argument_span(arg), message).help(form.clone()),
                );
                continue;
            };
            let values: Option<Vec<u64>> = values
                .iter()
                .map(|value| {
                    let number = self.constant_int(value, "a value")?;
                    match u64::try_from(number) {
                        Ok(number) if number > 0 && number <= 1 << 31 => Some(number),
                        _ => {
                            let message =
                                format!("a value is at least 1 and at most 2147483648, not {number}");
                            self.fail(Diagnostic::error(Code::BadAttribute, value.span, message))
                        }
                    }
                })
                .collect();
            // A name whose list is wrong is still a name.
            let values = expand(values.unwrap_or_else(|| vec![1]));
            if values.is_empty() || values.len() > MAX_VALUES {
                let message = format!("`{}` has {} values", name.name, values.len());
                self.error(
                    Diagnostic::error(Code::BadAttribute, *span, message)
                        .help(format!("a list stands for 1 to {MAX_VALUES} values")),
                );
            }
            params.push(Param { name: name.name.clone(), values, binds_dim: false, span: name.span });
        }
        params
    }

    fn constraint(&mut self, condition: &tree::Expr) -> Option<ParamConstraint> {
        let typed = self.condition(condition, "a condition of `where`")?;
        let mut other = None;
        typed.walk(&mut |expr| {
            if !is_static(expr) {
                other = other.or(Some(expr.span));
            }
        });
        if let Some(span) = other {
            return self.fail(
                Diagnostic::error(Code::BadAttribute, span, "this is not known when parameters are chosen")
                    .help("a condition is over `@autotune` names and integers"),
            );
        }
        debug_assert_eq!(typed.ty, Type::Scalar(DType::Bool));
        Some(ParamConstraint { condition: typed, span: condition.span })
    }

    /// The attributes that do not introduce names.
    pub(super) fn other_attributes(&mut self, ast: &tree::Kernel) {
        let mut seen: Vec<(&str, Span)> = Vec::new();
        for attribute in &ast.attributes {
            let name = attribute.name.name.as_str();
            if let Some((_, first)) = seen.iter().find(|(seen, _)| *seen == name)
                && !matches!(name, "autotune" | "cluster" | "aligned")
            {
                let message = format!("`@{name}` is given twice");
                let first = *first;
                self.error(
                    Diagnostic::error(Code::DuplicateName, attribute.span, message)
                        .related(first, "the first"),
                );
            }
            seen.push((name, attribute.span));
            match name {
                "autotune" | "cluster" | "grid" => {}
                "launch" => self.attributes.launch = self.launch(attribute),
                "pipeline" => self.attributes.pipeline = self.flag(attribute),
                "dynshared" => self.attributes.dynshared = self.flag(attribute),
                "persistent" => self.attributes.persistent = self.flag(attribute),
                "tensorcore" => self.attributes.tensorcore = self.tensorcore(attribute),
                "aligned" => self.aligned(attribute),
                "group" => self.attributes.group = self.group(attribute, ast),
                other => {
                    let help = match nearest(other, KNOWN) {
                        Some(meant) => format!("did you mean `@{meant}`?"),
                        None => format!("attributes are {}", KNOWN.join(", ")),
                    };
                    let message = format!("unknown attribute `@{other}`");
                    self.error(
                        Diagnostic::error(Code::UnknownAttribute, attribute.name.span, message).help(help),
                    );
                }
            }
        }
    }

    fn flag(&mut self, attribute: &Attribute) -> bool {
        if !attribute.args.is_empty() || !attribute.constraints.is_empty() {
            let message = format!("`@{}` takes no arguments", attribute.name.name);
            self.error(Diagnostic::error(Code::BadAttribute, attribute.span, message));
        }
        true
    }

    fn launch(&mut self, attribute: &Attribute) -> Option<Launch> {
        let form = "write `@launch(threads)`, `@launch(threads, min_blocks)` or `@launch(threads, min_blocks, max_registers)`";
        if attribute.args.is_empty() || attribute.args.len() > 3 {
            let message = format!("`@launch` takes 1 to 3 numbers, not {}", attribute.args.len());
            return self.fail(Diagnostic::error(Code::BadAttribute, attribute.span, message).help(form));
        }
        let limits: [(&str, u32, u32); 3] = [
            ("threads", 32, 1024),
            ("the blocks of a multiprocessor", 1, 32),
            ("registers of a thread", 16, 255),
        ];
        let mut numbers = [None; 3];
        for ((arg, (what, low, high)), slot) in attribute.args.iter().zip(limits).zip(&mut numbers) {
            let AttributeArg::Value(value) = arg else {
                return self.fail(
                    Diagnostic::error(Code::BadAttribute, argument_span(arg), "`@launch` takes numbers")
                        .help(form),
                );
            };
            let number = self.constant_int(value, what)?;
            match u32::try_from(number) {
                Ok(number) if (low..=high).contains(&number) && (high != 1024 || number % 32 == 0) => {
                    *slot = Some(number);
                }
                _ => {
                    let multiple = if high == 1024 { " and a multiple of 32" } else { "" };
                    let message = format!("{what}: {number} is not between {low} and {high}{multiple}");
                    return self.fail(Diagnostic::error(Code::BadAttribute, value.span, message));
                }
            }
        }
        let [threads, min_blocks, max_registers] = numbers;
        Some(Launch { threads: threads?, min_blocks, max_registers })
    }

    fn tensorcore(&mut self, attribute: &Attribute) -> Option<TensorCore> {
        let problem = Diagnostic::error(
            Code::BadAttribute,
            attribute.span,
            "`@tensorcore` takes nothing, `sync` or `wmma`",
        )
        .help("write `@tensorcore`, `@tensorcore(sync)` or `@tensorcore(wmma)`");
        match attribute.args.as_slice() {
            [] => Some(TensorCore::Auto),
            [AttributeArg::Value(tree::Expr { kind: Source::Name(name), .. })] => match name.as_str() {
                "sync" => Some(TensorCore::Sync),
                "wmma" => Some(TensorCore::Wmma),
                _ => self.fail(problem),
            },
            _ => self.fail(problem),
        }
    }

    fn aligned(&mut self, attribute: &Attribute) {
        if attribute.args.is_empty() {
            let message = "`@aligned` names no dim";
            self.error(
                Diagnostic::error(Code::BadAttribute, attribute.span, message)
                    .help("write `@aligned(K = 32)`"),
            );
        }
        for arg in &attribute.args {
            let AttributeArg::Named { name, value, .. } = arg else {
                let message = "`@aligned` takes `DIM = n`";
                self.error(
                    Diagnostic::error(Code::BadAttribute, argument_span(arg), message)
                        .help("write `@aligned(K = 32)`"),
                );
                continue;
            };
            let number = self.constant_int(value, "an alignment");
            let (Some(number), Some(())) = (number, self.known_dim(name)) else { continue };
            match u64::try_from(number) {
                Ok(of) if of > 0 => {
                    self.attributes.aligned.push((name.name.clone(), of));
                    let contract = Contract::Multiple { dim: name.name.clone(), of };
                    if !self.contracts.contains(&contract) {
                        self.contracts.push(contract);
                    }
                }
                _ => {
                    let message = format!("an alignment is positive, not {number}");
                    self.error(Diagnostic::error(Code::BadAttribute, value.span, message));
                }
            }
        }
    }
}

fn argument_span(arg: &AttributeArg) -> Span {
    match arg {
        AttributeArg::In { span, .. } | AttributeArg::Named { span, .. } => *span,
        AttributeArg::Value(value) => value.span,
    }
}

/// The candidates that a list stands for: one value or three and more are those;
/// `[low, high]` is low, 2 low, 4 low ... up to high, and high; `[high, low]` both.
fn expand(values: Vec<u64>) -> Vec<u64> {
    let mut list = match values.as_slice() {
        [low, high] if low < high => {
            let mut list: Vec<u64> = std::iter::successors(Some(*low), |value| value.checked_mul(2))
                .take_while(|value| value <= high)
                .collect();
            list.push(*high);
            list
        }
        _ => values,
    };
    let mut seen = std::collections::BTreeSet::new();
    list.retain(|value| seen.insert(*value));
    list
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn lists_expand() {
        assert_eq!(expand(vec![32, 256]), [32, 64, 128, 256]);
        assert_eq!(expand(vec![4, 33]), [4, 8, 16, 32, 33]);
        assert_eq!(expand(vec![48]), [48]);
        assert_eq!(expand(vec![256, 32]), [256, 32]);
        assert_eq!(expand(vec![16, 4, 16, 48]), [16, 4, 48]);
        assert_eq!(expand(vec![8, 8]), [8]);
    }
}
