//! Matrix instructions on the registers and memories of a CTA.

use super::{At, Executor, lanes_of, mma::Part};
use crate::{
    decode::inst::{MatrixMove, Mma, NONE, Scales, Slot, WmmaMove},
    machine::{Cta, Warp},
    memory::race::Access,
    number::{E4M3, widen, widen_scale},
    ptx::ast::Space,
    report::FaultKind,
};

/// The scales of the rows of A and the columns of B, line after line.
///
/// Row r of A has them in lane `4 (r % 8) + 2 thread + r / 8`, column n of B in lane
/// `4 n + thread`; the bytes from `byte` on follow k.
fn block_scales(warp: &Warp, scales: &Scales) -> [Vec<f64>; 2] {
    let line = |part: usize, line: usize| {
        let thread = (warp.get(scales.thread[part], 0) & 3) as usize;
        let lane = if part == 0 { 4 * (line % 8) + 2 * (thread & 1) + line / 8 } else { 4 * line + thread };
        let word = warp.get(scales.data[part], lane);
        let first = warp.get(scales.byte[part], 0) & 3;
        (0..u64::from(scales.count)).map(move |chunk| {
            let code = word >> (8 * ((first + chunk) & 3)) & 0xff;
            if scales.fractional { widen(code & 0x7f, E4M3) } else { widen_scale(code) }
        })
    };
    [(0..16).flat_map(|row| line(0, row)).collect(), (0..8).flat_map(|column| line(1, column)).collect()]
}

impl Executor<'_> {
    pub(super) fn multiply(&mut self, cta: &mut Cta, w: usize, members: u32, mma: &Mma) {
        let warp = &mut cta.warps[w];
        let fragments = [(Part::A, &mma.a), (Part::B, &mma.b), (Part::C, &mma.c)];
        let any = self.strict
            && fragments
                .iter()
                .flat_map(|(_, slots)| slots.iter())
                .any(|slot| warp.undefined_lanes(*slot) & members != 0);
        // Which elements of D depend on an undefined one, found before D is written.
        let undefined = any.then(|| {
            let mut known = mma.shape.no_undefined();
            for (part, slots) in fragments {
                for (register, slot) in slots.iter().enumerate() {
                    for lane in lanes_of(warp.undefined_lanes(*slot) & members) {
                        let bytes = warp.undefined_bytes(*slot, lane);
                        mma.shape.spread_undefined(&mma.tables, &mut known, part, register, lane, bytes);
                    }
                }
            }
            known
        });
        let regs = &warp.regs;
        let read = |part: Part, register: u32, lane: u32| {
            let slots = match part {
                Part::A => &mma.a,
                Part::B => &mma.b,
                Part::C => &mma.c,
            };
            slots
                .get(register as usize)
                .and_then(|slot| regs.get(*slot as usize))
                .map_or(0, |r| r[lane as usize])
        };
        let scales = mma.scales.map(|scales| block_scales(warp, &scales));
        let mut results = vec![[0u64; 32]; mma.d.len()];
        mma.shape.multiply(&mma.tables, &mut self.scratch, scales.as_ref(), read, |register, lane, value| {
            if let Some(result) = results.get_mut(register as usize) {
                result[lane as usize] = value;
            }
        });
        for (register, (slot, result)) in mma.d.iter().zip(&results).enumerate() {
            if *slot == NONE {
                continue;
            }
            warp.write(*slot, result, members);
            warp.undefined[*slot as usize] &= !members;
            if let Some(known) = &undefined {
                for lane in lanes_of(members) {
                    warp.mark(*slot, lane, mma.shape.undefined_result(&mma.tables, known, register, lane));
                }
            }
        }
    }

    /// Lane 8 m + r gives the address of row r of matrix m; lane l receives the
    /// elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 (transposed: of column).
    pub(super) fn load_matrix(&mut self, cta: &mut Cta, w: usize, members: u32, pc: u32, moved: &MatrixMove) {
        let matrices = moved.registers.len();
        let lanes = (8 * matrices).min(32);
        let addressed = if lanes == 32 { u32::MAX } else { (1u32 << lanes) - 1 } & members;
        let base = moved.address.base;
        self.check_defined(cta, w, base, addressed, pc, FaultKind::UninitializedAddress, "the row address");
        let mut rows = [([0u16; 8], [0u8; 8]); 32];
        let mut shared = Vec::with_capacity(32);
        for lane in lanes_of(addressed) {
            let at = At { warp: w, lane, pc };
            let address = cta.warps[w].get(base, lane).wrapping_add_signed(moved.address.offset);
            let Some((space, place)) = self.resolve(cta, at, moved.space, address, 16, 16, false) else {
                continue;
            };
            if space != Space::Shared {
                self.fault(cta, at, FaultKind::OutOfBounds, Some(address), || {
                    "`ldmatrix` reads shared memory only".to_owned()
                });
                continue;
            }
            shared.push(place);
            for word in 0..4 {
                let (value, undefined) = self.read(cta, at, space, place + 4 * word, 4, Access::READ);
                let i = word as usize * 2;
                rows[lane].0[i] = value as u16;
                rows[lane].0[i + 1] = (value >> 16) as u16;
                rows[lane].1[i] = undefined & 3;
                rows[lane].1[i + 1] = undefined >> 2;
            }
        }
        self.count_shared(pc, &shared, 16);
        for (matrix, slot) in moved.registers.iter().enumerate().filter(|(_, slot)| **slot != NONE) {
            for lane in lanes_of(members) {
                let (mut value, mut undefined) = (0, 0);
                for half in 0..2 {
                    let (row, column) = (lane / 4, 2 * (lane % 4) + half);
                    let (row, column) = if moved.transposed { (column, row) } else { (row, column) };
                    let (elements, unknown) = &rows[8 * matrix + row];
                    value |= u64::from(elements[column]) << (16 * half);
                    undefined |= unknown[column] << (2 * half);
                }
                cta.warps[w].set_with(*slot, lane, value, undefined);
            }
        }
    }

    pub(super) fn store_matrix(
        &mut self,
        cta: &mut Cta,
        w: usize,
        members: u32,
        pc: u32,
        moved: &MatrixMove,
    ) {
        let matrices = moved.registers.len();
        let base = moved.address.base;
        let lanes = (8 * matrices).min(32);
        let addressed = if lanes == 32 { u32::MAX } else { (1u32 << lanes) - 1 } & members;
        self.check_defined(cta, w, base, addressed, pc, FaultKind::UninitializedAddress, "the row address");
        let mut shared = Vec::with_capacity(32);
        for giver in lanes_of(addressed) {
            let at = At { warp: w, lane: giver, pc };
            let address = cta.warps[w].get(base, giver).wrapping_add_signed(moved.address.offset);
            let Some((space, place)) = self.resolve(cta, at, moved.space, address, 16, 16, true) else {
                continue;
            };
            if space != Space::Shared {
                self.fault(cta, at, FaultKind::OutOfBounds, Some(address), || {
                    "`stmatrix` writes shared memory only".to_owned()
                });
                continue;
            }
            shared.push(place);
            let Some(slot) = moved.registers.get(giver / 8) else { continue };
            let given = giver % 8;
            for column in 0..8usize {
                let (row, at_column) = if moved.transposed { (column, given) } else { (given, column) };
                let lane = 4 * row + at_column / 2;
                let half = at_column % 2;
                let value = cta.warps[w].get(*slot, lane) >> (16 * half) & 0xffff;
                let undefined = cta.warps[w].undefined_bytes(*slot, lane) >> (2 * half) & 3;
                let element = place + 2 * column as u64;
                self.write(cta, at, space, element, 2, value, undefined, Access::WRITE);
            }
        }
        self.count_shared(pc, &shared, 16);
    }

    pub(super) fn transpose(&mut self, cta: &mut Cta, w: usize, members: u32, dst: Slot, a: Slot) {
        let warp = &mut cta.warps[w];
        let source: [(u64, u8); 32] =
            std::array::from_fn(|lane| (warp.get(a, lane), warp.undefined_bytes(a, lane)));
        for lane in lanes_of(members) {
            let (mut value, mut undefined) = (0, 0);
            for half in 0..2 {
                let (row, column) = (2 * (lane % 4) + half, lane / 4);
                let (word, unknown) = source[4 * row + column / 2];
                value |= (word >> (16 * (column % 2)) & 0xffff) << (16 * half);
                undefined |= (unknown >> (2 * (column % 2)) & 3) << (2 * half);
            }
            warp.set_with(dst, lane, value, undefined);
        }
    }

    pub(super) fn wmma_move(&mut self, cta: &mut Cta, w: usize, members: u32, pc: u32, moved: &WmmaMove) {
        let shape = &moved.shape;
        let element = shape.element(moved.part, moved.store);
        let bytes = (element.bits() / 8) as u8;
        let per = element.per_register();
        let (rows, columns) = (shape.rows(moved.part), shape.columns(moved.part));
        for slot in [moved.address.base, moved.stride] {
            self.check_defined(
                cta,
                w,
                slot,
                members,
                pc,
                FaultKind::UninitializedAddress,
                "the matrix address",
            );
        }
        let count = rows * columns;
        let (mut global, mut shared) = (0u64, 0u64);
        for lane in lanes_of(members) {
            let at = At { warp: w, lane, pc };
            let warp = &cta.warps[w];
            let base = warp.get(moved.address.base, lane).wrapping_add_signed(moved.address.offset);
            let packed = if moved.column_major { rows } else { columns };
            let stride = if moved.stride == NONE { packed.into() } else { warp.get(moved.stride, lane) };
            let mut words = vec![(0u64, 0u8); moved.registers.len()];
            for i in 0..shape.elements(moved.part) {
                // Fragments may hold an element twice; the first copy is stored.
                if moved.store && lane as u32 + 32 * i >= count {
                    break;
                }
                let (row, column) = shape.place(moved.part, lane as u32, i);
                let (major, minor) = if moved.column_major { (column, row) } else { (row, column) };
                let index = u64::from(major).wrapping_mul(stride).wrapping_add(minor.into());
                let address = base.wrapping_add(index.wrapping_mul(bytes.into()));
                let resolved =
                    self.resolve(cta, at, moved.space, address, bytes.into(), bytes.into(), moved.store);
                let Some((space, place)) = resolved else { continue };
                match space {
                    Space::Shared => shared += u64::from(bytes),
                    _ => global += u64::from(bytes),
                }
                let (register, shift) = ((i / per) as usize, element.bits() * (i % per));
                let byte_shift = shift / 8;
                if moved.store {
                    let Some(slot) = moved.registers.get(register) else { continue };
                    let value = cta.warps[w].get(*slot, lane) >> shift;
                    let undefined =
                        cta.warps[w].undefined_bytes(*slot, lane) >> byte_shift & ((1u16 << bytes) - 1) as u8;
                    if undefined != 0 && space == Space::Global {
                        self.undefined_stored(cta, at, place);
                    }
                    self.write(cta, at, space, place, bytes, value, undefined, Access::WRITE);
                } else {
                    let (value, undefined) = self.read(cta, at, space, place, bytes, Access::READ);
                    if let Some(word) = words.get_mut(register) {
                        word.0 |= value << shift;
                        word.1 |= undefined << byte_shift;
                    }
                }
            }
            if !moved.store {
                for (slot, (value, undefined)) in moved.registers.iter().zip(words) {
                    cta.warps[w].set_with(*slot, lane, value, undefined);
                }
            }
        }
        // Element by element: traffic is counted in bytes, not in requests.
        let counts = &mut self.counters.by_pc[pc as usize];
        counts.global_bytes += global;
        counts.shared_bytes += shared;
    }
}
