//! Calls through registers and tables, recursion, `vprintf` and cooperative groups, in
//! PTX of NVIDIA's compiler.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Machine, kinds, seeded, strict};
use phobos_emulator::{FaultKind, Options};

fn machine() -> Machine {
    Machine::new("functions.ptx", include_str!("foreign/functions.ptx"))
}

fn schedules() -> impl Iterator<Item = Options> {
    std::iter::once(strict()).chain((0..20).map(seeded))
}

#[test]
fn functions_from_a_table() {
    for options in schedules() {
        let mut m = machine();
        let input: Vec<u32> = (0..32).map(|i| i * 7 % 13).collect();
        let (x, y) = (m.u32s(&input), m.output(128));
        let outcome = m.launch("tables", [1; 3], [32, 1, 1], &[y, x], &options);
        m.clean("tables", &outcome);
        let want: Vec<u32> = input.iter().map(|v| if v % 2 == 0 { v + 3 } else { v * 3 }).collect();
        assert_eq!(m.read_u32s(y, 32), want);
    }
}

#[test]
fn recursion_with_variables_of_its_own() {
    fn walk(depth: u32, sum: &mut u32) {
        let mut here = depth;
        if depth == 0 {
            *sum += 1;
            return;
        }
        walk(depth - 1, &mut here);
        walk(depth - 1, &mut here);
        *sum += here;
    }
    for options in schedules() {
        let mut m = machine();
        let y = m.output(256);
        let outcome = m.launch("recursion", [1; 3], [32, 1, 1], &[y], &options);
        m.clean("recursion", &outcome);
        let values = m.read_u32s(y, 64);
        let fibonacci = [0, 1, 1, 2, 3, 5, 8, 13, 21];
        for t in 0..32 {
            let mut sum = 0;
            walk(t as u32 % 4, &mut sum);
            assert_eq!((values[t], values[t + 32]), (fibonacci[t % 9], sum), "{t}");
        }
    }
}

#[test]
fn a_full_stack_is_a_fault() {
    let mut m = machine();
    let y = m.u32s(&[0]);
    let outcome = m.launch("overflow", [1; 3], [1; 3], &[y], &strict());
    assert_eq!(kinds(&outcome), [FaultKind::OutOfBounds]);
    let text = m.render("overflow", &outcome);
    assert!(text.contains("the stack of the thread is full") && text.contains("functions.cu"), "{text}");
}

#[test]
fn an_address_that_is_no_function() {
    let call = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{\n.reg .b64 %rd<2>;\nmov.u64 %rd1, 64;\n\
                p: .callprototype () _ ();\ncall %rd1, p;\nret;\n}\n";
    let mut m = Machine::new("nowhere.ptx", call);
    let outcome = m.launch("k", [1; 3], [1; 3], &[], &strict());
    assert_eq!(kinds(&outcome), [FaultKind::OutOfBounds]);
    assert!(m.render("k", &outcome).contains("a call of an address that is no function's"));
}

#[test]
fn what_kernels_print() {
    for options in schedules() {
        let mut m = machine();
        let x = m.u32s(&[5, -3i32 as u32]);
        let outcome = m.launch("print", [1; 3], [32, 1, 1], &[x], &options);
        m.clean("print", &outcome);
        let mut lines: Vec<&str> = outcome.printed.lines().collect();
        lines.sort();
        let want = [
            "t 0 half  2.50|str   |a 42949672960 0x5 4294967295% 5.000000e-03 1.25",
            "t 1 half -1.50|str   |b -25769803776 0xfffffffd 4294967295% -3.000000e-03 -0.75",
        ];
        assert_eq!(lines, want);
    }
}

#[test]
fn the_grid_barrier_of_cooperative_groups() {
    for options in schedules() {
        let mut m = machine();
        let (y, counter) = (m.output(48), m.u32s(&[0]));
        let outcome = m.launch("grid_sum", [6, 1, 1], [64, 1, 1], &[y, counter], &options);
        m.clean("grid_sum", &outcome);
        assert_eq!(m.read_u32s(y, 12), [6, 12, 6, 12, 6, 12, 6, 12, 6, 12, 6, 12]);
    }
}
