//! Long straight code in functions of its own.
//!
//! Much of MLIR and LLVM takes time and memory with the square of a function's blocks. A block
//! of many loops and branches is therefore cut: each piece becomes an internal function, which
//! gets what it reads as arguments and leaves what others read in scratch.

use std::collections::{BTreeMap, BTreeSet};

use melior::ir::{ValueLike, attribute::TypeAttribute, operation::OperationLike};
use phobos_dialect::{Op, PassError, Val, build::Builder, ir};

use super::{ENTRY, Lowering, emit::value_bytes};

/// The most loops and branches of a block that stays whole.
const WHOLE: usize = 192;
/// Loops and branches of a piece.
const PIECE: usize = 48;

impl<'c> Lowering<'c> {
    /// Cuts the long blocks of a function. The pieces follow it, before the kernel.
    pub(super) fn outline(&mut self, function: Op<'c>, kernel: Op<'c>) -> Result<(), PassError> {
        let mut pieces = 0;
        // Inner blocks first: an outer one then holds calls in their place.
        for block in ir::collect(function).into_iter().rev().flat_map(ir::blocks) {
            let operations = ir::operations(block);
            let has_body = |op: &Op<'c>| op.region_count() > 0;
            if operations.iter().filter(|op| has_body(op)).count() <= WHOLE {
                continue;
            }
            let (mut piece, mut bodies) = (Vec::new(), 0);
            for op in operations {
                if bodies == PIECE {
                    self.cut(kernel, &piece, op, pieces)?;
                    pieces += 1;
                    (piece, bodies) = (Vec::new(), 0);
                }
                bodies += usize::from(has_body(&op));
                // Constants are copied to where they are read.
                if ir::name(op) != "arith.constant" {
                    piece.push(op);
                }
            }
        }
        Ok(())
    }

    /// Moves the operations of a piece to a new function that is called before `next`.
    fn cut(
        &mut self,
        kernel: Op<'c>,
        piece: &[Op<'c>],
        next: Op<'c>,
        number: usize,
    ) -> Result<(), PassError> {
        let inside: Vec<_> = piece.iter().copied().flat_map(ir::collect).collect();
        let own: BTreeSet<_> = inside.iter().copied().map(ir::op_key).collect();
        let defined: BTreeSet<_> = inside
            .iter()
            .flat_map(|op| {
                ir::results(*op).into_iter().chain(ir::blocks(*op).into_iter().flat_map(ir::arguments))
            })
            .map(ir::value_key)
            .collect();
        let (mut inputs, mut constants) = (Vec::new(), Vec::new());
        let mut seen = defined.clone();
        for operand in inside.iter().copied().flat_map(ir::operands) {
            if seen.insert(ir::value_key(operand)) {
                match ir::definition(operand).filter(|op| ir::name(*op) == "arith.constant") {
                    Some(constant) => constants.push((operand, constant)),
                    None => inputs.push(operand),
                }
            }
        }
        let outputs: Vec<(Val<'c>, Vec<Op<'c>>)> = piece
            .iter()
            .copied()
            .flat_map(ir::results)
            .map(|value| {
                let users = ir::users(value).into_iter().filter(|user| !own.contains(&ir::op_key(*user)));
                (value, users.collect::<Vec<_>>())
            })
            .filter(|(_, users)| !users.is_empty())
            .collect();

        // The call, with a place in scratch for each result.
        self.b = Builder::before(next)?;
        let mut arguments = inputs.clone();
        for (value, _) in &outputs {
            arguments.push(self.allocate(value_bytes(value.r#type()))?);
        }
        let name = format!("{ENTRY}_{number}");
        let segments = self.b.segments(&[arguments.len(), 0]);
        let callee = self.b.parsed_attribute(&format!("@{name}"))?;
        let bundles = self.b.parsed_attribute("array<i32>")?;
        let attributes = [("callee", callee), segments, ("op_bundle_sizes", bundles)];
        self.b.op("llvm.call", &arguments, &[], &attributes, &[])?;
        for ((value, users), place) in outputs.iter().zip(&arguments[inputs.len()..]) {
            let read = self.raw_load(*place, value.r#type(), 1)?;
            for user in users {
                replace_operands(*user, &BTreeMap::from([(ir::value_key(*value), read)]));
            }
        }

        // The function.
        let types: Vec<_> = arguments.iter().map(ValueLike::r#type).collect();
        let outer = Builder::before(kernel)?;
        let void = melior::dialect::llvm::r#type::void(outer.context());
        let signature = melior::dialect::llvm::r#type::function(void, &types, false);
        let new = outer.op(
            "llvm.func",
            &[],
            &[],
            &[
                ("sym_name", outer.string_attribute(&name)),
                ("function_type", TypeAttribute::new(signature).into()),
                ("linkage", outer.parsed_attribute("#llvm.linkage<internal>")?),
                ("passthrough", outer.parsed_attribute("[\"no-builtins\", \"noinline\"]")?),
            ],
            &[&types],
        )?;
        let body = ir::body(new, 0).ok_or_else(|| PassError::at(new, "internal error: no entry block"))?;
        self.b = outer.in_block(body);
        let given = ir::arguments(body);
        let mut here: BTreeMap<_, _> =
            inputs.iter().zip(&given).map(|(value, given)| (ir::value_key(*value), *given)).collect();
        for (value, constant) in constants {
            let copy = self.b.copy(constant, &[], &[value.r#type()])?;
            here.insert(ir::value_key(value), self.b.result(copy, 0)?);
        }
        let end = self.b.op("llvm.return", &[], &[], &[], &[])?;
        for op in piece {
            ir::move_before(*op, end);
        }
        for op in inside {
            replace_operands(op, &here);
        }
        self.b = Builder::before(end)?;
        for ((value, _), place) in outputs.iter().zip(&given[inputs.len()..]) {
            self.raw_store(*value, *place, 1)?;
        }
        Ok(())
    }
}

fn replace_operands<'c>(op: Op<'c>, new: &BTreeMap<usize, Val<'c>>) {
    for (index, operand) in ir::operands(op).into_iter().enumerate() {
        if let Some(value) = new.get(&ir::value_key(operand)) {
            ir::set_operand(op, index, *value);
        }
    }
}
