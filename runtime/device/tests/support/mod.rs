//! Kernels of the host ABI made from C, so that the host device can be tested without
//! the Phobos compiler.
#![allow(clippy::unwrap_used)] // helpers of tests, where clippy.toml allows it in the tests themselves

use std::{collections::BTreeMap, process::Command};

use phobos_artifact::{
    Access, ArgKind, Argument, Artifact, Chip, DType, Element, Extent, GridExpr, HostLevel, Image, ImageKind,
    IndexBits, Metadata,
};

pub const F32: Element = Element::Scalar(DType::F32);

/// Compiles `source` to a shared object; `None`, with the reason on stderr, where there is no
/// C compiler.
pub fn compile_c(source: &str) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("kernel.c"), folder.path().join("kernel.so"));
    std::fs::write(&input, source).unwrap();
    for compiler in ["cc", "gcc", "clang", "clang-22"] {
        let run = Command::new(compiler)
            .args(["-shared", "-fPIC", "-O2", "-nostdlib", "-ffp-contract=off", "-fno-math-errno", "-o"])
            .args([&output, &input])
            .output();
        match run {
            Err(_) => continue,
            Ok(run) => {
                assert!(run.status.success(), "{compiler}: {}", String::from_utf8_lossy(&run.stderr));
                return Some(std::fs::read(&output).unwrap());
            }
        }
    }
    eprintln!("skipped: no C compiler (cc, gcc, clang) was found");
    None
}

pub fn tensor(name: &str, shape: &[&str], access: Access) -> Argument {
    let shape = shape.iter().map(|extent| Extent::Name((*extent).to_owned())).collect();
    Argument { name: name.into(), kind: ArgKind::Tensor { element: F32, shape, access } }
}

pub fn dim(name: &str) -> Argument {
    Argument { name: name.into(), kind: ArgKind::Dim }
}

pub fn artifact(kernel: &str, arguments: Vec<Argument>, grid: [GridExpr; 3], image: Vec<u8>) -> Artifact {
    Artifact {
        metadata: Metadata {
            kernel: kernel.into(),
            chip: Chip::Host(HostLevel::V2),
            fingerprint: String::new(),
            arguments,
            grid,
            threads: 1,
            shared_bytes: 0,
            scratch_bytes: 0,
            index_bits: IndexBits::B64,
            params: BTreeMap::new(),
            bound_dims: BTreeMap::new(),
            contracts: Vec::new(),
            remarks: Vec::new(),
        },
        images: vec![Image { kind: ImageKind::SharedObject, bytes: image }],
    }
}
