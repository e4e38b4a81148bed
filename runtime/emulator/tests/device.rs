//! The emulator as a device: artifacts with PTX text, launches by name.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, sync::Arc};

use phobos_artifact::{
    Access, ArgKind, Argument, Artifact, Chip, DType, Element, Extent, GridExpr, Image, ImageKind, IndexBits,
    Metadata,
};
use phobos_device::{Device, DeviceError, DeviceExt, Launch, STAGING_BYTES, Tensor, Wanted};
use phobos_emulator::{EmulatorDevice, Options};

/// `Y[i] = s * X[i]` for i below N, 64 elements a program.
fn scale(bound: &str) -> String {
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n\
         .visible .entry scale(.param .u64 X, .param .u64 Y, .param .f32 s, .param .s32 N)\n.maxntid 64\n{{\n\
         .reg .pred %p;\n.reg .b32 %r<6>;\n.reg .f32 %f<4>;\n.reg .b64 %rd<6>;\n\
         ld.param.u64 %rd0, [X];\nld.param.u64 %rd1, [Y];\nld.param.f32 %f0, [s];\nld.param.s32 %r0, [N];\n\
         mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\nmad.lo.s32 %r3, %r1, 64, %r2;\n\
         setp.{bound}.s32 %p, %r3, %r0;\n@%p bra DONE;\n\
         mul.wide.s32 %rd2, %r3, 4;\nadd.s64 %rd3, %rd0, %rd2;\nadd.s64 %rd4, %rd1, %rd2;\n\
         ld.global.f32 %f1, [%rd3];\nmul.rn.f32 %f2, %f1, %f0;\nst.global.f32 [%rd4], %f2;\nDONE:\nret;\n}}\n"
    )
}

fn artifact(chip: Chip, text: &str) -> Artifact {
    let tensor = |name: &str, access| Argument {
        name: name.to_owned(),
        kind: ArgKind::Tensor {
            element: Element::Scalar(DType::F32),
            shape: vec![Extent::Name("N".to_owned())],
            access,
        },
    };
    Artifact {
        metadata: Metadata {
            kernel: "scale".to_owned(),
            chip,
            fingerprint: String::new(),
            arguments: vec![
                tensor("X", Access::Read),
                tensor("Y", Access::Write),
                Argument { name: "s".to_owned(), kind: ArgKind::Scalar { dtype: DType::F32 } },
                Argument { name: "N".to_owned(), kind: ArgKind::Dim },
            ],
            grid: [
                GridExpr::CeilDiv(Box::new(GridExpr::Name("N".to_owned())), Box::new(GridExpr::Const(64))),
                GridExpr::Const(1),
                GridExpr::Const(1),
            ],
            threads: 64,
            shared_bytes: 0,
            scratch_bytes: 0,
            index_bits: IndexBits::B32,
            params: BTreeMap::new(),
            bound_dims: BTreeMap::new(),
            contracts: Vec::new(),
            remarks: Vec::new(),
        },
        images: vec![Image { kind: ImageKind::Ptx, bytes: text.as_bytes().to_vec() }],
    }
}

fn device() -> EmulatorDevice {
    EmulatorDevice::new(Chip::Sm(86), Options::default()).unwrap()
}

fn tensor(buffer: phobos_device::Buffer, n: u64) -> Tensor {
    Tensor::new(&buffer, 0, Element::Scalar(DType::F32), vec![n]).unwrap()
}

#[test]
fn a_launch_by_name() {
    let device = device();
    assert_eq!(device.name(), "emulator:sm_86");
    assert_eq!(device.chips(), [Chip::Sm(86), Chip::Sm(80), Chip::Sm(75)]);
    let kernel = device.load(&artifact(Chip::Sm(80), &scale("ge"))).unwrap();
    let x: Vec<f32> = (0..100).map(|i| i as f32).collect();
    let (px, py) = (device.upload(&x).unwrap(), device.allocate(400).unwrap());
    let (tx, ty) = (tensor(px, 100), tensor(py.clone(), 100));
    Launch::new(&kernel).tensor("X", &tx).tensor("Y", &ty).scalar("s", 1.5f32).run(&device).unwrap();
    let mut y = vec![0f32; 100];
    device.read_slice(&py, 0, &mut y).unwrap();
    assert_eq!(y, x.iter().map(|v| v * 1.5).collect::<Vec<_>>());
    let (name, counters) = device.last_counters().unwrap();
    assert_eq!(name, "scale");
    assert_eq!(counters.total().global_bytes, 800);
}

#[test]
fn a_fault_is_an_error_that_shows_the_line() {
    let device = device();
    // The guard lets one thread too many through.
    let kernel = device.load(&artifact(Chip::Sm(86), &scale("gt"))).unwrap();
    let (tx, ty) = (tensor(device.allocate(400).unwrap(), 100), tensor(device.allocate(400).unwrap(), 100));
    let error =
        Launch::new(&kernel).tensor("X", &tx).tensor("Y", &ty).scalar("s", 2f32).run(&device).unwrap_err();
    let DeviceError::Fault { kernel, reason } = &error else { panic!("{error}") };
    assert_eq!(kernel, "scale");
    assert!(reason.contains("out-of-bounds") && reason.contains("ld.global.f32 %f1, [%rd3]"), "{reason}");
    assert!(reason.contains("past the end of `the buffer of X`"), "{reason}");
}

#[test]
fn artifacts_that_do_not_fit() {
    let device = device();
    let wrong = |artifact: &Artifact| device.load(artifact).unwrap_err().to_string();
    assert!(wrong(&artifact(Chip::Sm(90), &scale("ge"))).contains("was compiled for sm_90"));
    assert!(wrong(&artifact(Chip::Sm(80), "nonsense")).contains("scale.ptx:1:1"));
    let mut other = artifact(Chip::Sm(80), &scale("ge"));
    other.metadata.index_bits = IndexBits::B64;
    assert!(wrong(&other).contains("argument `N` takes 8 bytes"));
    let mut host = artifact(Chip::Sm(80), &scale("ge"));
    host.images[0].kind = ImageKind::Cubin;
    assert!(wrong(&host).contains("no PTX"));
    assert_eq!(EmulatorDevice::named("emulator:sm_120", Options::default()).unwrap().chips().len(), 6);
    for name in ["emulator", "emulator:", "emulator:sm_1", "emulator:host", "host"] {
        assert!(EmulatorDevice::named(name, Options::default()).is_err());
    }
    let level = phobos_artifact::HostLevel::V2;
    assert!(EmulatorDevice::new(Chip::Host(level), Options::default()).is_err());
}

#[test]
fn memory() {
    let device = device();
    let before = device.memory().allocated;
    let buffer = device.allocate(64).unwrap();
    assert_eq!(device.memory().allocated, before + 64);
    let mut zeros = [1u8; 64];
    device.read(&buffer, 0, &mut zeros).unwrap();
    assert_eq!(zeros, [0; 64]);
    let bytes: phobos_device::SharedBytes = Arc::new((0..32u8).collect::<Vec<u8>>());
    let imported = device.import(Arc::clone(&bytes), 4..20).unwrap();
    assert_eq!((imported.len(), device.import(bytes, 30..40).is_err()), (16, true));
    assert!(device.write(&imported, 0, &[1]).is_err());
    device.copy(&imported, 2, &buffer, 60, 4).unwrap();
    let mut four = [0; 4];
    device.read(&buffer, 60, &mut four).unwrap();
    assert_eq!(four, [6, 7, 8, 9]);
    assert!(matches!(device.copy(&imported, 0, &buffer, 60, 5), Err(DeviceError::OutOfBounds { .. })));
    assert!(matches!(device.allocate(1 << 60), Err(DeviceError::OutOfMemory { .. })));
    let filled = device
        .allocate_filled(&[3, 0, 5].map(|bytes| Wanted { bytes, unit: 1 }), &mut |pieces| {
            for piece in pieces {
                assert!(piece.bytes.iter().all(|zero| *zero == 0));
                piece.bytes.fill(piece.index as u8 + 1);
            }
        })
        .unwrap();
    assert_eq!(filled.iter().map(|buffer| buffer.len()).collect::<Vec<_>>(), [3, 0, 5]);
    let mut five = [0; 5];
    device.read(&filled[2], 0, &mut five).unwrap();
    assert_eq!(five, [3; 5]);
    // More than is held beside the device's memory comes in several calls, in whole units.
    let large = Wanted { bytes: STAGING_BYTES + 5, unit: 3 };
    let mut calls = Vec::new();
    let buffers = device
        .allocate_filled(&[large], &mut |pieces| {
            for piece in pieces {
                calls.push((piece.offset, piece.bytes.len() as u64));
                piece.bytes.fill(calls.len() as u8);
            }
        })
        .unwrap();
    let first = STAGING_BYTES - STAGING_BYTES % 3;
    assert_eq!(calls, [(0, first), (first, STAGING_BYTES + 5 - first)]);
    let mut border = [0; 2];
    device.read(&buffers[0], first - 1, &mut border).unwrap();
    assert_eq!(border, [1, 2]);
    drop(buffers);
    let strange = EmulatorDevice::new(Chip::Sm(75), Options::default()).unwrap();
    assert!(matches!(strange.read(&buffer, 0, &mut four), Err(DeviceError::WrongDevice { .. })));
    drop((buffer, imported, filled));
    assert_eq!(device.memory().allocated, before);
}
