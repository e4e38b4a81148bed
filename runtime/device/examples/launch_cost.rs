//! What a launch costs: prints ns per check, and per launch of a kernel that does
//! nothing, over 1 and over 64 programs, with 1 and 2 threads.
//!
//! `cargo run --release -p phobos-device --example launch_cost` (needs a C compiler)

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;

use phobos_artifact::{Access, GridExpr};
use phobos_device::{Device, DeviceError, HostDevice, Launch, Tensor};
use support::{F32, artifact, compile_c, dim, tensor};

const LAUNCHES: u32 = 200_000;

fn main() -> Result<(), DeviceError> {
    let Some(code) = compile_c("void phobos_entry(void) {}") else { return Ok(()) };
    let arguments = vec![
        tensor("X", &["M", "K"], Access::Read),
        tensor("W", &["N", "K"], Access::Read),
        tensor("Y", &["M", "N"], Access::Write),
        dim("M"),
        dim("N"),
        dim("K"),
    ];
    let one = GridExpr::Const(1);
    let empty = artifact("empty", arguments, [GridExpr::Name("N".into()), one.clone(), one], code);
    for threads in [1, 2] {
        let device = HostDevice::new(Some(threads))?;
        let kernel = device.load(&empty)?;
        for programs in [1u64, 64] {
            let view = |shape: [u64; 2]| Tensor::of(&device.allocate(1 << 12)?, F32, shape);
            let (x, w, y) = (view([1, 8])?, view([programs, 8])?, view([1, programs])?);
            let launch = || Launch::new(&kernel).tensor("X", &x).tensor("W", &w).tensor("Y", &y);
            let time = |body: &dyn Fn() -> Result<(), DeviceError>| -> Result<f64, DeviceError> {
                // The best of some rounds: others use this machine too.
                let mut best = f64::INFINITY;
                for _ in 0..10 {
                    let start = Instant::now();
                    (0..LAUNCHES / 10).try_for_each(|_| body())?;
                    best = best.min(start.elapsed().as_nanos() as f64 / f64::from(LAUNCHES / 10));
                }
                Ok(best)
            };
            let check = time(&|| {
                std::hint::black_box(launch().check()?.grid());
                Ok(())
            })?;
            let whole = time(&|| launch().run(&device))?;
            println!("{threads} threads, {programs:2} programs: check {check:5.0} ns, launch {whole:5.0} ns");
        }
    }
    Ok(())
}
