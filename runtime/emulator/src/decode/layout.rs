//! Addresses and initial values of module-scope variables.

use std::collections::HashMap;

use super::{ModuleVariable, error, functions::Functions, types::Ty};
use crate::{
    memory::{MAX_SHARED_BYTES, PARAM_WINDOW, SHARED_WINDOW},
    ptx::{
        PtxError,
        ast::{Init, Module, Space, Variable},
    },
};

/// The most bytes of variables in one space.
const LIMIT: u64 = 1 << 30;
/// Constant memory, of which a module has 64 KiB.
const CONST_LIMIT: u64 = 64 << 10;

/// Where a variable lies in its space; for `.extern .shared` the dynamic part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub space: Space,
    pub address: u64,
    pub bytes: u64,
    /// Lies after the static shared memory of the kernel.
    pub dynamic: bool,
}

/// Places of module-scope variables.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub variables: HashMap<String, Placed>,
    pub globals: Vec<u8>,
    pub global_variables: Vec<ModuleVariable>,
    pub constants: Vec<u8>,
    /// Bytes of module-scope shared variables.
    pub shared: u64,
    /// Variables that cannot be used, and why: only what names one is refused.
    pub broken: HashMap<String, String>,
    /// The module's functions.
    pub functions: Functions,
}

/// The size and alignment of a variable.
pub(super) fn extent(file: &str, variable: &Variable<'_>) -> Result<(u64, u64), PtxError> {
    let Some(ty) = Ty::parse(variable.ty) else {
        return error(
            file,
            variable.pos,
            format!("`{}` has the unsupported type `.{}`", variable.name, variable.ty),
        );
    };
    let element = u64::from(ty.bytes()) * u64::from(variable.vector);
    let mut bytes = element;
    let values = variable.init.as_ref().map_or(0, |values| values.len() as u64);
    for dim in &variable.dims {
        // `[]` takes its size from the initialiser.
        let Some(product) = bytes.checked_mul(dim.unwrap_or(values)).filter(|bytes| *bytes <= LIMIT) else {
            return error(file, variable.pos, format!("`{}` has more than {LIMIT} bytes", variable.name));
        };
        bytes = product;
    }
    Ok((bytes, variable.align.unwrap_or(element)))
}

/// Appends `bytes` at `align` to a space of `used` bytes; gives the address.
pub(super) fn place(used: &mut u64, bytes: u64, align: u64) -> Option<u64> {
    let address = used.checked_next_multiple_of(align.max(1))?;
    *used = address.checked_add(bytes).filter(|end| *end <= LIMIT)?;
    Some(address)
}

impl Layout {
    pub fn of(file: &str, module: &Module<'_>, global_base: u64) -> Result<Layout, PtxError> {
        let mut layout = Layout { functions: Functions::of(module), ..Layout::default() };
        let (mut globals, mut constants) = (0, 0);
        for variable in &module.variables {
            let defined = |other: &Variable<'_>| !other.external && other.name == variable.name;
            if variable.external && variable.space != Space::Shared {
                if !module.variables.iter().any(defined) {
                    let why = format!("`{}` has no definition in this module", variable.name);
                    layout.broken.insert(variable.name.to_owned(), why);
                }
                continue;
            }
            let (bytes, align) = match extent(file, variable) {
                Ok(extent) => extent,
                Err(error) => {
                    layout.broken.insert(variable.name.to_owned(), error.message);
                    continue;
                }
            };
            let too_large =
                || error(file, variable.pos, format!("`{}` does not fit its space", variable.name));
            let placed = match variable.space {
                Space::Shared if variable.external => {
                    Placed { space: Space::Shared, address: 0, bytes, dynamic: true }
                }
                Space::Shared => match place(&mut layout.shared, bytes, align) {
                    Some(address) if layout.shared <= MAX_SHARED_BYTES => {
                        Placed { space: Space::Shared, address, bytes, dynamic: false }
                    }
                    _ => return too_large(),
                },
                Space::Const => match place(&mut constants, bytes, align) {
                    Some(address) if constants <= CONST_LIMIT => {
                        Placed { space: Space::Const, address, bytes, dynamic: false }
                    }
                    _ => return too_large(),
                },
                _ => match place(&mut globals, bytes, align) {
                    Some(offset) => {
                        layout.global_variables.push(ModuleVariable {
                            name: variable.name.to_owned(),
                            offset,
                            bytes,
                        });
                        Placed { space: Space::Global, address: global_base + offset, bytes, dynamic: false }
                    }
                    None => return too_large(),
                },
            };
            layout.variables.insert(variable.name.to_owned(), placed);
        }
        layout.globals = vec![0; globals as usize];
        layout.constants = vec![0; constants as usize];
        for variable in module.variables.iter().filter(|variable| !variable.external) {
            if let Err(error) = layout.initialise(file, variable, global_base) {
                layout.variables.remove(variable.name);
                layout.broken.insert(variable.name.to_owned(), error.message);
            }
        }
        Ok(layout)
    }

    fn initialise(&mut self, file: &str, variable: &Variable<'_>, global_base: u64) -> Result<(), PtxError> {
        let (Some(values), Some(placed)) = (&variable.init, self.variables.get(variable.name).copied())
        else {
            return Ok(());
        };
        let element = usize::from(Ty::parse(variable.ty).map_or(1, Ty::bytes)).min(8);
        if values.len() as u64 * element as u64 > placed.bytes {
            return error(
                file,
                variable.pos,
                format!("`{}` has more initial values than elements", variable.name),
            );
        }
        for (index, value) in values.iter().enumerate() {
            let bits = match value {
                Init::Int(value) => *value,
                Init::F32(bits) => u64::from(*bits),
                Init::F64(bits) if element == 4 => u64::from((f64::from_bits(*bits) as f32).to_bits()),
                Init::F64(bits) => *bits,
                Init::Symbol { name, offset, .. } if self.functions.addresses.contains_key(*name) => self
                    .functions
                    .addresses
                    .get(*name)
                    .map_or(0, |address| address.wrapping_add_signed(*offset)),
                Init::Symbol { name, offset, generic } => {
                    let Some(target) = self.variables.get(*name) else {
                        return error(file, variable.pos, format!("the initialiser names unknown `{name}`"));
                    };
                    let window = match target.space {
                        Space::Shared if *generic => SHARED_WINDOW,
                        Space::Const if *generic => PARAM_WINDOW + super::select::CONST_OFFSET,
                        _ => 0,
                    };
                    (target.address + window).wrapping_add_signed(*offset)
                }
            };
            let (block, start) = match placed.space {
                Space::Const => (&mut self.constants, placed.address),
                Space::Global => (&mut self.globals, placed.address - global_base),
                _ => return error(file, variable.pos, "shared variables cannot have initial values"),
            };
            let at = start as usize + index * element;
            if let Some(target) = block.get_mut(at..at + element) {
                target.copy_from_slice(&bits.to_le_bytes()[..element]);
            }
        }
        Ok(())
    }
}
