//! Statements: SSA values for variables, and stores.

use melior::ir::operation::OperationLike;
use phobos_dialect::{Blk, Op, Type, Val, build::IntegerPredicate, ir, types::Tile};
use phobos_lang::typed::{self, AxisIndex, StmtKind, VarId};

use crate::{LowerError, Lowering, Result};

impl<'c> Lowering<'c, '_> {
    /// Lowers a block's statements in order.
    pub(crate) fn block(&mut self, block: &typed::Block) -> Result<()> {
        block.statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &typed::Stmt) -> Result<()> {
        let outer = self.builder;
        self.builder = self.at(statement.span);
        let result = self.statement_here(statement);
        self.builder = outer;
        result
    }

    fn statement_here(&mut self, statement: &typed::Stmt) -> Result<()> {
        let unsupported = |what: &str| {
            Err(LowerError::Unsupported { what: what.to_owned(), span: statement.span, help: None })
        };
        match &statement.kind {
            StmtKind::Let { var, value } | StmtKind::Assign { var, value } => {
                let value = self.expr(value)?;
                self.set_var(*var, value);
            }
            StmtKind::VarInit { var, value } => {
                let value = match value {
                    Some(value) => self.expr(value)?,
                    None => self.undefined(*var)?,
                };
                self.set_var(*var, value);
            }
            StmtKind::TileInsert { var, slice, value } => self.tile_insert(*var, slice, value)?,
            StmtKind::StoreSlice { tensor, slice, value } => self.store_slice(*tensor, slice, value)?,
            StmtKind::StorePoint { tensor, indices, value } => {
                let (tensor, _) = self.tensor(*tensor)?;
                let mut operands = vec![self.expr(value)?, tensor];
                for index in indices {
                    operands.push(self.expr(index)?);
                }
                self.builder.op("phobos.store_scalar", &operands, &[], &[], &[])?;
            }
            StmtKind::For { var, start, end, step, carried, body } => {
                self.for_loop(*var, [start, end, step], carried, body)?;
            }
            StmtKind::While { condition, carried, body } => self.while_loop(condition, carried, body)?,
            StmtKind::If { condition, carried, then, otherwise } => {
                self.if_else(condition, carried, [then, otherwise])?;
            }
            StmtKind::Expr(expr) => {
                self.expr(expr)?;
            }
            StmtKind::GridBarrier { .. } => return unsupported("grid_barrier"),
            StmtKind::Assert { .. } => return unsupported("assert"),
        }
        Ok(())
    }

    fn undefined(&self, var: VarId) -> Result<Val<'c>> {
        let Some(variable) = self.kernel.vars.get(var.0) else {
            return Err(LowerError::Internal(format!("variable {} does not exist", var.0)));
        };
        let ty = self.ty(&variable.ty)?;
        Ok(match &variable.ty {
            typed::Type::Tile(_) => self.builder.value("phobos.undef", &[], ty, &[])?,
            // The checker proves that a scalar is assigned before it is read.
            _ => self.builder.constant(ty, 0.0)?,
        })
    }

    fn tile_insert(&mut self, var: VarId, slice: &[AxisIndex], value: &typed::Expr) -> Result<()> {
        let dest = self.var(var)?;
        let value = self.expr(value)?;
        let dest_tile = Tile::from_type(melior::ir::ValueLike::r#type(&dest))
            .ok_or_else(|| LowerError::Internal("a slice of a scalar variable".into()))?;
        let (offsets, full) = self.slice(slice, dest_tile.element)?;
        let value = self.with_shape(value, &full)?;
        let mut operands = vec![value, dest];
        operands.extend(&offsets);
        let segments = self.builder.segments(&[1, 1, offsets.len(), 0]);
        let result =
            self.builder.value("phobos.insert", &operands, dest_tile.to_type(self.context), &[segments])?;
        self.set_var(var, result);
        Ok(())
    }

    fn store_slice(
        &mut self,
        tensor: typed::TensorId,
        slice: &[AxisIndex],
        value: &typed::Expr,
    ) -> Result<()> {
        let (tensor, declared) = self.tensor(tensor)?;
        let element = crate::element(&self.builder, declared.element);
        let value = self.expr(value)?;
        let (offsets, full) = self.slice(slice, element)?;
        let value = self.with_shape(value, &full)?;
        let mut operands = vec![value, tensor];
        operands.extend(&offsets);
        let segments = self.builder.segments(&[1, 1, offsets.len(), 0]);
        self.builder.op("phobos.store", &operands, &[], &[segments], &[])?;
        Ok(())
    }

    /// Lowers `body` in `block` and yields the carried variables after `first`.
    fn carried_body(
        &mut self,
        block: Blk<'c>,
        carried: &[VarId],
        values: &[Val<'c>],
        body: &typed::Block,
        first: &[Val<'c>],
    ) -> Result<()> {
        let outer = (self.builder, self.vars.clone());
        self.builder = self.builder.in_block(block);
        for (var, value) in carried.iter().zip(values) {
            self.set_var(*var, *value);
        }
        self.block(body)?;
        let mut yielded = first.to_vec();
        for var in carried {
            yielded.push(self.var(*var)?);
        }
        self.builder.op("scf.yield", &yielded, &[], &[], &[])?;
        (self.builder, self.vars) = outer;
        Ok(())
    }

    fn carried_values(&self, carried: &[VarId]) -> Result<(Vec<Val<'c>>, Vec<Type<'c>>)> {
        let values = carried.iter().map(|var| self.var(*var)).collect::<Result<Vec<_>>>()?;
        let types = values.iter().map(melior::ir::ValueLike::r#type).collect();
        Ok((values, types))
    }

    fn define_carried(&mut self, op: Op<'c>, carried: &[VarId]) {
        for (var, value) in carried.iter().zip(ir::results(op)) {
            self.set_var(*var, value);
        }
    }

    fn for_loop(
        &mut self,
        var: VarId,
        [start, end, step]: [&typed::Expr; 3],
        carried: &[VarId],
        body: &typed::Block,
    ) -> Result<()> {
        let start = self.expr(start)?;
        let mut end = self.expr(end)?;
        let known_positive = match step.kind {
            typed::ExprKind::Int(step) => step > 0,
            typed::ExprKind::Param(_) => true,
            _ => false,
        };
        let mut step = self.expr(step)?;
        if !known_positive {
            // scf.for needs a positive step; with any other the loop must not run.
            let zero = self.builder.index_constant(0)?;
            let one = self.builder.index_constant(1)?;
            let positive = self.builder.compare_integers(IntegerPredicate::SignedGreater, step, zero)?;
            end = self.builder.select(positive, end, start)?;
            step = self.builder.select(positive, step, one)?;
        }
        let (initial, types) = self.carried_values(carried)?;
        let mut operands = vec![start, end, step];
        operands.extend(&initial);
        let mut arguments = vec![self.builder.index()];
        arguments.extend(&types);
        let op = self.builder.op("scf.for", &operands, &types, &[], &[&arguments])?;
        let block = region_block(op, 0)?;
        let arguments = ir::arguments(block);
        let Some((induction, values)) = arguments.split_first() else {
            return Err(LowerError::Internal("a loop without an induction variable".into()));
        };
        self.set_var(var, *induction);
        self.carried_body(block, carried, values, body, &[])?;
        self.define_carried(op, carried);
        Ok(())
    }

    fn while_loop(&mut self, condition: &typed::Expr, carried: &[VarId], body: &typed::Block) -> Result<()> {
        let (initial, types) = self.carried_values(carried)?;
        let op = self.builder.op("scf.while", &initial, &types, &[], &[&types, &types])?;
        let before = region_block(op, 0)?;
        let values = ir::arguments(before);
        let outer = (self.builder, self.vars.clone());
        self.builder = self.builder.in_block(before);
        for (var, value) in carried.iter().zip(&values) {
            self.set_var(*var, *value);
        }
        let mut operands = vec![self.expr(condition)?];
        operands.extend(&values);
        self.builder.op("scf.condition", &operands, &[], &[], &[])?;
        (self.builder, self.vars) = outer;
        let after = region_block(op, 1)?;
        let values = ir::arguments(after);
        self.carried_body(after, carried, &values, body, &[])?;
        self.define_carried(op, carried);
        Ok(())
    }

    fn if_else(
        &mut self,
        condition: &typed::Expr,
        carried: &[VarId],
        bodies: [&typed::Block; 2],
    ) -> Result<()> {
        let condition = self.expr(condition)?;
        let (values, types) = self.carried_values(carried)?;
        let op = self.builder.op("scf.if", &[condition], &types, &[], &[&[], &[]])?;
        for (index, body) in bodies.into_iter().enumerate() {
            self.carried_body(region_block(op, index)?, carried, &values, body, &[])?;
        }
        self.define_carried(op, carried);
        Ok(())
    }
}

fn region_block<'c>(op: Op<'c>, index: usize) -> Result<Blk<'c>> {
    ir::body(op, index)
        .ok_or_else(|| LowerError::Internal(format!("{} has {} regions", ir::name(op), op.region_count())))
}
