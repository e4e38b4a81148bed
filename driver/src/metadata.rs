//! What a launch must know, from the checked kernel and what was bound.

use std::collections::BTreeMap;

use phobos_artifact::{
    ArgKind, Argument, CompileRequest, Contract, DimRange, Extent, GridExpr, IndexBits, Metadata,
};
use phobos_lang::typed::{Dim, Kernel};

/// The metadata of a host artifact. `dims` are the names passed at launch, in order.
pub fn for_host(
    request: &CompileRequest,
    kernel: &Kernel,
    params: &BTreeMap<String, u64>,
    dims: &[String],
    scratch_bytes: u64,
    remarks: Vec<String>,
) -> Metadata {
    let mut values = request.dims.clone();
    values.extend(params.iter().map(|(name, value)| (name.clone(), *value)));
    let bound_dims = kernel
        .tensors
        .iter()
        .flat_map(|tensor| &tensor.dims)
        .filter_map(|dim| match dim {
            Dim::Const(_) => None,
            Dim::Param(name) | Dim::TensorDim(name) => values.get(name).map(|value| (name.clone(), *value)),
        })
        .collect();
    Metadata {
        kernel: kernel.name.clone(),
        chip: request.chip,
        fingerprint: phobos_worker::fingerprint::current().long(),
        arguments: arguments(kernel, dims),
        grid: kernel.grid.clone().map(|axis: GridExpr| axis.bind(params)),
        threads: 1,
        shared_bytes: 0,
        scratch_bytes,
        index_bits: IndexBits::B64,
        params: params.clone(),
        bound_dims,
        contracts: contracts(kernel, &values, &request.ranges),
        remarks,
    }
}

fn arguments(kernel: &Kernel, dims: &[String]) -> Vec<Argument> {
    let tensors = kernel.tensors.iter().map(|tensor| Argument {
        name: tensor.name.clone(),
        kind: ArgKind::Tensor {
            element: tensor.element,
            shape: tensor
                .dims
                .iter()
                .map(|dim| match dim {
                    Dim::Const(extent) => Extent::Const(*extent),
                    Dim::Param(name) | Dim::TensorDim(name) => Extent::Name(name.clone()),
                })
                .collect(),
            access: tensor.access,
        },
    });
    let scalars = kernel
        .scalars
        .iter()
        .map(|scalar| Argument { name: scalar.name.clone(), kind: ArgKind::Scalar { dtype: scalar.dtype } });
    let dims = dims.iter().map(|name| Argument { name: name.clone(), kind: ArgKind::Dim });
    tensors.chain(scalars).chain(dims).collect()
}

/// The kernel's contracts, less those that the bound values already meet, and the ranges
/// that it was compiled for.
fn contracts(
    kernel: &Kernel,
    values: &BTreeMap<String, u64>,
    ranges: &BTreeMap<String, DimRange>,
) -> Vec<Contract> {
    let ranged = ranges.iter().flat_map(|(dim, range)| {
        let least = Some(range.least()).filter(|least| *least > 1);
        let least = least.map(|limit| Contract::AtLeast { dim: dim.clone(), limit });
        let most = range.most().map(|limit| Contract::AtMost { dim: dim.clone(), limit });
        least.into_iter().chain(most)
    });
    kernel
        .contracts
        .iter()
        .filter(|contract| match contract {
            Contract::Multiple { dim, of } => values.get(dim).is_none_or(|value| value % of != 0),
            Contract::AtLeast { .. } | Contract::AtMost { .. } | Contract::TensorElements { .. } => true,
        })
        .cloned()
        .chain(ranged)
        .collect()
}
