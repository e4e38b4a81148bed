//! The host device, with kernels made from C.
#![allow(clippy::unwrap_used)] // helpers of tests, where clippy.toml allows it in the tests themselves

mod support;

use std::sync::Arc;

use phobos_artifact::{Access, ArgKind, Argument, Artifact, Chip, DType, GridExpr, ImageKind};
use phobos_device::{
    Device, DeviceError, DeviceExt, HostDevice, Kernel, Launch, LaunchFault, Recording, SharedBytes, Tensor,
};
use support::{F32, artifact, compile_c, dim, tensor};

const HEADER: &str = "typedef unsigned long u64; typedef long i64; typedef unsigned char u8;\n";
const ONE: GridExpr = GridExpr::Const(1);

fn ceil(name: &str, by: u64) -> GridExpr {
    GridExpr::CeilDiv(Box::new(GridExpr::Name(name.into())), Box::new(GridExpr::Const(by)))
}

/// `Y[i] = a X[i] + Y[i]`, 16 elements a program.
fn saxpy() -> Option<Artifact> {
    let code = compile_c(&format!(
        "{HEADER}
        void phobos_entry(const u64 *args, const i64 *pid, u8 *scratch) {{
            const float *x = (const float *)args[0];
            float *y = (float *)args[1];
            float a = *(const float *)&args[2];
            i64 n = (i64)args[3];
            for (i64 i = pid[0] * 16; i < pid[0] * 16 + 16 && i < n; i++) y[i] = a * x[i] + y[i];
        }}"
    ))?;
    let arguments = vec![
        tensor("X", &["N"], Access::Read),
        tensor("Y", &["N"], Access::ReadWrite),
        Argument { name: "a".into(), kind: ArgKind::Scalar { dtype: DType::F32 } },
        dim("N"),
    ];
    Some(artifact("saxpy", arguments, [ceil("N", 16), ONE, ONE], code))
}

/// Row sums by way of scratch: `Y[n] = sum over k of X[n, k] * (k + 1)`, in an order that is not
/// associative, so that a shared or misaligned scratch shows.
fn scratch_sum(scratch_bytes: u64) -> Option<Artifact> {
    let code = compile_c(&format!(
        "{HEADER}
        void phobos_entry(const u64 *args, const i64 *pid, u8 *scratch) {{
            const float *x = (const float *)args[0];
            float *y = (float *)args[1];
            i64 k = (i64)args[3];
            volatile float *t = (volatile float *)scratch;
            if ((u64)scratch % 64) {{ y[pid[0]] = -1e30f; return; }}
            for (i64 i = 0; i < k; i++) t[i] = x[pid[0] * k + i] * (float)(i + 1);
            float sum = 0;
            for (i64 i = 0; i < k; i++) sum += t[i];
            y[pid[0]] = sum;
        }}"
    ))?;
    let arguments =
        vec![tensor("X", &["N", "K"], Access::Read), tensor("Y", &["N"], Access::Write), dim("N"), dim("K")];
    let grid = [GridExpr::Name("N".into()), ONE, ONE];
    let mut artifact = artifact("scratch_sum", arguments, grid, code);
    artifact.metadata.scratch_bytes = scratch_bytes;
    Some(artifact)
}

/// `Y[p, r, c] = 10000 pid.z + 100 pid.y + pid.x` over a 3-D grid.
fn ids() -> Option<Artifact> {
    let code = compile_c(&format!(
        "{HEADER}
        void phobos_entry(const u64 *args, const i64 *pid, u8 *scratch) {{
            float *y = (float *)args[0];
            i64 r = (i64)args[2], c = (i64)args[3];
            y[(pid[2] * r + pid[1]) * c + pid[0]] += (float)(10000 * pid[2] + 100 * pid[1] + pid[0]);
        }}"
    ))?;
    let arguments = vec![tensor("Y", &["P", "R", "C"], Access::ReadWrite), dim("P"), dim("R"), dim("C")];
    let grid = ["C", "R", "P"].map(|name| GridExpr::Name(name.into()));
    Some(artifact("ids", arguments, grid, code))
}

fn host(threads: usize) -> HostDevice {
    HostDevice::new(Some(threads)).unwrap()
}

fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

fn upload(device: &HostDevice, values: &[f32], shape: &[u64]) -> Tensor {
    Tensor::of(&device.upload(values).unwrap(), F32, shape).unwrap()
}

fn download(device: &HostDevice, tensor: &Tensor) -> Vec<f32> {
    let mut values = vec![0.0; tensor.bytes().unwrap() as usize / 4];
    device.read_slice(&tensor.buffer, tensor.offset, &mut values).unwrap();
    values
}

fn run_saxpy(device: &HostDevice, kernel: &Kernel, x: &Tensor, y: &Tensor, a: f32) {
    Launch::new(kernel).tensor("X", x).tensor("Y", y).scalar("a", a).run(device).unwrap();
}

#[test]
fn saxpy_is_exact_at_every_size_and_touches_nothing_else() {
    let Some(artifact) = saxpy() else { return };
    for threads in [1, 2, 3, 8] {
        let device = host(threads);
        let kernel = device.load(&artifact).unwrap();
        for n in [1usize, 15, 16, 17, 33, 1000] {
            let (x, y) = (values(n, 1), values(n, 2));
            let mut padded = vec![f32::NAN; n + 32];
            padded[16..16 + n].copy_from_slice(&y);
            let buffer = device.upload(&padded).unwrap();
            let target = Tensor::new(&buffer, 64, F32, [n as u64]).unwrap();
            run_saxpy(&device, &kernel, &upload(&device, &x, &[n as u64]), &target, 1.5);
            let mut found = vec![0.0f32; n + 32];
            device.read_slice(&buffer, 0, &mut found).unwrap();
            let wanted: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 1.5 * x + y).collect();
            assert_eq!(found[16..16 + n], wanted, "{threads} {n}");
            assert!(found[..16].iter().chain(&found[16 + n..]).all(|value| value.is_nan()));
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let Some(artifact) = scratch_sum(4 * 700) else { return };
    let (n, k) = (203u64, 700u64);
    let x = values((n * k) as usize, 3);
    let mut first: Option<Vec<u32>> = None;
    for threads in [1, 2, 3, 8] {
        let device = host(threads);
        assert_eq!(device.threads(), threads);
        let kernel = device.load(&artifact).unwrap();
        let x = upload(&device, &x, &[n, k]);
        let y = upload(&device, &vec![f32::NAN; n as usize], &[n]);
        for _ in 0..20 {
            Launch::new(&kernel).tensor("X", &x).tensor("Y", &y).run(&device).unwrap();
            let bits: Vec<u32> = download(&device, &y).into_iter().map(f32::to_bits).collect();
            assert_eq!(first.get_or_insert_with(|| bits.clone()), &bits, "{threads}");
        }
    }
    let found: Vec<f32> = first.unwrap().into_iter().map(f32::from_bits).collect();
    for (row, found) in x.chunks(k as usize).zip(found) {
        let wanted: f64 = row.iter().zip(1..).map(|(x, k)| f64::from(*x) * f64::from(k)).sum();
        assert!((f64::from(found) - wanted).abs() < 0.1, "{found} {wanted}");
    }
}

#[test]
fn scratch_grows_with_the_kernel() {
    let device = host(3);
    for k in [4u64, 5000, 100, 60_000] {
        let Some(artifact) = scratch_sum(4 * k) else { return };
        let kernel = device.load(&artifact).unwrap();
        let x = upload(&device, &vec![1.0; 7 * k as usize], &[7, k]);
        let y = upload(&device, &[0.0; 7], &[7]);
        Launch::new(&kernel).tensor("X", &x).tensor("Y", &y).run(&device).unwrap();
        let wanted = (1..=k).fold(0.0f32, |sum, k| sum + k as f32);
        assert_eq!(download(&device, &y), [wanted; 7], "{k}");
    }
    let Some(artifact) = scratch_sum(u64::MAX - 4) else { return };
    let kernel = device.load(&artifact).unwrap();
    let (x, y) = (upload(&device, &[1.0], &[1, 1]), upload(&device, &[0.0], &[1]));
    let launch = Launch::new(&kernel).tensor("X", &x).tensor("Y", &y);
    assert!(matches!(launch.run(&device), Err(DeviceError::OutOfMemory { .. })));
}

#[test]
fn every_program_of_a_grid_runs_once() {
    let Some(artifact) = ids() else { return };
    for threads in [1, 2, 3, 8] {
        let device = host(threads);
        let kernel = device.load(&artifact).unwrap();
        for (p, r, c) in [(1u64, 1u64, 1u64), (1, 3, 5), (3, 1, 17), (2, 7, 1), (3, 5, 33)] {
            let count = (p * r * c) as usize;
            let y = upload(&device, &vec![0.0; count], &[p, r, c]);
            Launch::new(&kernel).tensor("Y", &y).run(&device).unwrap();
            let wanted: Vec<f32> = (0..p)
                .flat_map(|z| (0..r).flat_map(move |y| (0..c).map(move |x| (10000 * z + 100 * y + x) as f32)))
                .collect();
            assert_eq!(download(&device, &y), wanted, "{threads} {p} {r} {c}");
        }
    }
}

#[test]
fn an_empty_grid_does_nothing() {
    let Some(artifact) = ids() else { return };
    let device = host(2);
    let kernel = device.load(&artifact).unwrap();
    for shape in [[0, 3, 3], [3, 0, 3], [3, 3, 0], [0, 0, 0]] {
        let y = Tensor::of(&device.allocate(0).unwrap(), F32, shape).unwrap();
        Launch::new(&kernel).tensor("Y", &y).run(&device).unwrap();
    }
}

#[test]
fn many_launches_in_a_row() {
    let Some(artifact) = saxpy() else { return };
    let device = host(2);
    let kernel = device.load(&artifact).unwrap();
    let n = 640;
    let (x, y) = (upload(&device, &vec![1.0; n], &[n as u64]), upload(&device, &vec![0.0; n], &[n as u64]));
    for _ in 0..5000 {
        run_saxpy(&device, &kernel, &x, &y, 1.0);
    }
    device.synchronize().unwrap();
    assert_eq!(download(&device, &y), vec![5000.0; n]);
}

#[test]
fn two_threads_may_launch_at_once() {
    let Some(artifact) = saxpy() else { return };
    let device = Arc::new(host(3));
    let kernel = device.load(&artifact).unwrap();
    let n = 333u64;
    let shared = upload(&device, &vec![0.0; n as usize], &[n]);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (device, kernel, shared) = (&device, &kernel, &shared);
            scope.spawn(move || {
                let ones = upload(device, &vec![1.0; n as usize], &[n]);
                let own = upload(device, &vec![seed as f32; n as usize], &[n]);
                for _ in 0..1000 {
                    run_saxpy(device, kernel, &ones, &own, 2.0);
                    // Launches take turns, so both threads' additions to one tensor arrive.
                    run_saxpy(device, kernel, &ones, shared, 1.0);
                }
                assert_eq!(download(device, &own), vec![2000.0 + seed as f32; n as usize]);
            });
        }
    });
    assert_eq!(download(&device, &shared), vec![2000.0; n as usize]);
}

#[test]
fn kernels_read_imported_bytes_in_place_and_never_write_them() {
    let Some(artifact) = saxpy() else { return };
    let device = host(2);
    let kernel = device.load(&artifact).unwrap();
    let bytes: SharedBytes =
        Arc::new([0.0f32, 1.0, 2.0, 3.0].iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>());
    let address = (*bytes).as_ref().as_ptr() as u64;
    let buffer = device.import(Arc::clone(&bytes), 4..16).unwrap();
    assert_eq!((buffer.address(), buffer.len()), (address + 4, 12));
    let x = Tensor::of(&buffer, F32, [3]).unwrap();
    let y = upload(&device, &[1.0; 3], &[3]);
    run_saxpy(&device, &kernel, &x, &y, 10.0);
    assert_eq!(download(&device, &y), [11.0, 21.0, 31.0]);

    let refused = Launch::new(&kernel).tensor("X", &y).tensor("Y", &x).scalar("a", 1.0f32).run(&device);
    match refused {
        Err(DeviceError::Launch(error)) => {
            assert_eq!(*error.fault, LaunchFault::ReadOnly { argument: "Y".into() });
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(device.write(&buffer, 0, &[1]), Err(DeviceError::ReadOnly { .. })));
    assert!(matches!(device.copy(&y.buffer, 0, &buffer, 0, 4), Err(DeviceError::ReadOnly { .. })));
    assert!(matches!(device.import(Arc::clone(&bytes), 0..17), Err(DeviceError::OutOfBounds { .. })));
    // The buffer keeps the bytes alive.
    drop(bytes);
    assert_eq!(download(&device, &x), [1.0, 2.0, 3.0]);
}

#[test]
fn overlap_is_refused_and_nothing_runs() {
    let Some(artifact) = saxpy() else { return };
    let device = host(2);
    let kernel = device.load(&artifact).unwrap();
    let buffer = device.upload(&[1.0f32; 32]).unwrap();
    let view = |offset| Tensor::new(&buffer, offset, F32, [16]).unwrap();
    let (x, y) = (view(0), view(60));
    let refused = Launch::new(&kernel).tensor("X", &x).tensor("Y", &y).scalar("a", 1.0f32).run(&device);
    assert_eq!(refused.unwrap_err().to_string(), "kernel `saxpy`: argument `Y` is written and overlaps `X`");
    assert_eq!(download(&device, &x), [1.0; 16]);
    run_saxpy(&device, &kernel, &x, &view(64), 1.0);
    assert_eq!(download(&device, &view(64)), [2.0; 16]);
}

#[test]
fn artifacts_that_are_not_for_this_device_are_refused() {
    let Some(good) = saxpy() else { return };
    let device = host(1);
    let refused = |change: &dyn Fn(&mut Artifact)| {
        let mut artifact = good.clone();
        change(&mut artifact);
        device.load(&artifact).unwrap_err().to_string()
    };
    assert!(
        refused(&|a| a.metadata.chip = Chip::Sm(86))
            .starts_with("kernel `saxpy` was compiled for sm_86; device `host` runs host-x86-64-")
    );
    let bad = |reason: &str| format!("kernel `saxpy`: bad artifact: {reason}");
    assert_eq!(refused(&|a| a.images.clear()), bad("it has no shared object"));
    assert_eq!(refused(&|a| a.images[0].kind = ImageKind::Ptx), bad("it has no shared object"));
    assert_eq!(refused(&|a| a.images[0].bytes.clear()), bad("the shared object is not an ELF file"));
    assert!(refused(&|a| a.images[0].bytes.truncate(400)).starts_with(&bad("the shared object is cut off")));
    let other = compile_c("void other(void) {}").unwrap();
    assert_eq!(
        refused(&|a| a.images[0].bytes.clone_from(&other)),
        bad("the shared object exports no `phobos_entry`")
    );
    let unresolved = compile_c("void missing(void); void phobos_entry(void) { missing(); }").unwrap();
    assert!(refused(&|a| a.images[0].bytes.clone_from(&unresolved)).contains("undefined symbol: missing"));
}

#[test]
fn kernels_loaded_one_after_another_are_not_mixed_up() {
    let Some(one) = compile_c(&format!(
        "{HEADER} void phobos_entry(const u64 *args, const i64 *pid, u8 *scratch) {{ *(float *)args[0] = 1; }}"
    )) else {
        return;
    };
    let two = compile_c(&format!(
        "{HEADER} void phobos_entry(const u64 *args, const i64 *pid, u8 *scratch) {{ *(float *)args[0] = 2; }}"
    ))
    .unwrap();
    let device = host(1);
    let make = |image: &[u8]| {
        let arguments = vec![tensor("Y", &["N"], Access::Write), dim("N")];
        device.load(&artifact("set", arguments, [ONE; 3], image.to_vec())).unwrap()
    };
    let result = |kernel: &Kernel| {
        let y = upload(&device, &[0.0], &[1]);
        Launch::new(kernel).tensor("Y", &y).run(&device).unwrap();
        download(&device, &y)[0]
    };
    let (first, second) = (make(&one), make(&two));
    assert_eq!((result(&first), result(&second)), (1.0, 2.0));
    drop(first);
    let third = make(&two);
    drop(second);
    let fourth = make(&one);
    assert_eq!((result(&third), result(&fourth)), (2.0, 1.0));
}

#[test]
fn buffers_and_kernels_of_another_device_are_refused() {
    let Some(artifact) = saxpy() else { return };
    let (device, other) = (host(1), host(1));
    let kernel = device.load(&artifact).unwrap();
    let x = upload(&device, &[1.0], &[1]);
    let y = upload(&device, &[1.0], &[1]);
    let launch = Launch::new(&kernel).tensor("X", &x).tensor("Y", &y).scalar("a", 1.0f32);
    assert!(matches!(launch.run(&other), Err(DeviceError::WrongDevice { what: "kernel", .. })));
    assert!(matches!(other.write(&x.buffer, 0, &[1]), Err(DeviceError::WrongDevice { what: "buffer", .. })));
    assert!(matches!(
        other.read(&x.buffer, 0, &mut [1]),
        Err(DeviceError::WrongDevice { what: "buffer", .. })
    ));
    assert_eq!(download(&device, &y), [1.0]);
}

#[test]
fn a_recording_repeats_launches_over_what_its_tensors_hold() {
    let Some(artifact) = saxpy() else { return };
    let device = host(1);
    let kernel = device.load(&artifact).unwrap();
    let x = upload(&device, &[1.0, 2.0], &[2]);
    let y = upload(&device, &[10.0, 20.0], &[2]);
    let launch =
        |to: &dyn Device| Launch::new(&kernel).tensor("X", &x).tensor("Y", &y).scalar("a", 1.0f32).run(to);
    let recording =
        Recording::of(&device, |recorder| launch(recorder).and_then(|()| launch(recorder))).unwrap();
    assert_eq!((recording.launches().len(), download(&device, &y)), (2, vec![10.0, 20.0]), "nothing has run");
    device.replay(&recording).unwrap();
    assert_eq!(download(&device, &y), [12.0, 24.0]);
    device.write_slice(&x.buffer, 0, &[5.0f32]).unwrap();
    device.replay(&recording).unwrap();
    assert_eq!(download(&device, &y), [22.0, 28.0]);
    // What a replay would not repeat is refused, and so is a launch that a check refuses.
    let refused = Recording::of(&device, |recorder| recorder.write(&x.buffer, 0, &[0]));
    assert!(matches!(refused, Err(DeviceError::NotRecordable { action: "write", .. })));
    let short = upload(&device, &[1.0], &[1]);
    let wrong = Recording::of(&device, |recorder| {
        Launch::new(&kernel).tensor("X", &short).tensor("Y", &y).scalar("a", 1.0f32).run(recorder)
    });
    assert!(matches!(wrong, Err(DeviceError::Launch(_))));
}

#[test]
fn copies_and_memory_info() {
    let device = host(1);
    let before = device.memory();
    assert!(before.total > 0 && before.free > 0 && before.allocated == 0);
    let buffer = device.upload(&[1u8, 2, 3, 4]).unwrap();
    let target = device.allocate(4 << 20).unwrap();
    assert_eq!(device.memory().allocated, 4 + (4 << 20));
    device.copy(&buffer, 1, &target, (4 << 20) - 3, 3).unwrap();
    let mut end = [9u8; 4];
    device.read(&target, (4 << 20) - 4, &mut end).unwrap();
    assert_eq!(end, [0, 2, 3, 4]);
    assert!(matches!(
        device.copy(&buffer, 2, &target, 0, 3),
        Err(DeviceError::OutOfBounds { action: "copy from", offset: 2, bytes: 3, len: 4 })
    ));
    assert!(matches!(
        device.copy(&buffer, 0, &target, u64::MAX, 3),
        Err(DeviceError::OutOfBounds { action: "copy to", .. })
    ));
    drop((buffer, target));
    assert_eq!(device.memory().allocated, 0);
    assert!(matches!(device.allocate(u64::MAX), Err(DeviceError::OutOfMemory { .. })));
}

#[test]
fn thread_counts_are_checked() {
    assert!(HostDevice::new(None).unwrap().threads() >= 1);
    for threads in [0, 1025] {
        assert!(matches!(HostDevice::new(Some(threads)), Err(DeviceError::Unavailable { .. })));
    }
}
