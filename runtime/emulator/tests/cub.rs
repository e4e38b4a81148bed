//! cub's block-wide operations: right values, no report, and a fault where a barrier is
//! taken out.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Data, Machine, seeded, strict};
use phobos_emulator::{FaultKind, Options, Severity};

const TEXT: &str = include_str!("foreign/cub.ptx");

fn run(
    text: &str,
    kernel: &str,
    x: &[u32],
    count: usize,
    options: &Options,
) -> (Vec<u32>, Vec<FaultKind>, String) {
    let mut m = Machine::new("cub.ptx", text);
    let (input, output) = (m.u32s(x), m.output(4 * count as u64));
    let outcome = m.launch(kernel, [1; 3], [128, 1, 1], &[input, output], options);
    let kinds = outcome.faults.list.iter().map(|fault| fault.kind).collect();
    (m.read_u32s(output, count), kinds, m.render(kernel, &outcome))
}

fn schedules(count: u64) -> impl Iterator<Item = Options> {
    std::iter::once(strict()).chain((0..count).map(seeded))
}

/// The kernel without its barrier number `index`, if it has one.
fn without(kernel: &str, index: usize) -> Option<String> {
    let lines: Vec<&str> = TEXT.lines().collect();
    let first = lines.iter().position(|line| line.contains(&format!(".entry {kernel}(")))?;
    let end = first + lines[first..].iter().position(|line| line.starts_with('}'))?;
    let barrier =
        (first..end).filter(|at| lines[*at].contains("bar") && lines[*at].contains("sync")).nth(index)?;
    let mut twin = lines.clone();
    twin[barrier] = "";
    Some(twin.join("\n"))
}

#[track_caller]
fn check(kernel: &str, x: &[u32], want: &[u32]) {
    for options in schedules(6) {
        let (values, kinds, text) = run(TEXT, kernel, x, want.len(), &options);
        assert!(kinds.is_empty(), "{text}");
        assert_eq!(values, want, "{kernel}");
    }
    let mut caught = 0;
    for index in 0.. {
        let Some(twin) = without(kernel, index) else { break };
        caught += usize::from(schedules(4).any(|options| {
            let (_, kinds, _) = run(&twin, kernel, x, want.len(), &options);
            kinds.iter().any(|kind| kind.severity() == Severity::Fault)
        }));
    }
    assert!(caught > 0, "{kernel}: no barrier is missed");
}

#[test]
fn block_wide_operations() {
    let mut data = Data::new(9);
    let x: Vec<u32> = (0..512).map(|_| (data.bits() % 2000) as u32).collect();
    let sums = |x: &[u32]| -> Vec<u32> {
        let running = x.iter().scan(0u32, |sum, v| {
            *sum += v;
            Some(*sum)
        });
        running.collect()
    };
    let inclusive = sums(&x[..128]);
    let exclusive: Vec<u32> = std::iter::once(0).chain(inclusive.iter().copied()).take(128).collect();
    let sorted = |x: &[u32]| {
        let mut x = x.to_vec();
        x.sort();
        x
    };
    let bins: Vec<u32> = (0..64).map(|bin| x.iter().filter(|v| **v & 63 == bin).count() as u32).collect();
    check("reduce", &x, &inclusive[127..]);
    check("scan_raking", &x, &exclusive);
    check("scan_warps", &x, &inclusive);
    check("sort_radix", &x, &sorted(&x));
    check("sort_merge", &x, &sorted(&x[..256]));
    check("histogram_sort", &x, &bins);
    check("histogram_atomic", &x, &bins);
    check("transpose", &x, &x);
}
