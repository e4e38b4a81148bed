//! Every check of a launch, against a device that has no code and no memory.
#![allow(clippy::unwrap_used)] // helpers of tests, where clippy.toml allows it in the tests themselves

use std::collections::BTreeMap;

use phobos_artifact::{
    Access, ArgKind, Argument, Chip, Contract, DType, Element, Extent, GridExpr, HostLevel, IndexBits,
    Metadata,
};
use phobos_device::{
    Buffer, CheckedLaunch, DeviceError, DeviceToken, Kernel, Launch, LaunchFault, Permission, Tensor,
};

const F32: Element = Element::Scalar(DType::F32);
const F16: Element = Element::Scalar(DType::F16);

fn tensor(name: &str, element: Element, shape: &[&str], access: Access) -> Argument {
    let shape = shape
        .iter()
        .map(|extent| match extent.parse() {
            Ok(value) => Extent::Const(value),
            Err(_) => Extent::Name((*extent).to_owned()),
        })
        .collect();
    Argument { name: name.into(), kind: ArgKind::Tensor { element, shape, access } }
}

fn dim(name: &str) -> Argument {
    Argument { name: name.into(), kind: ArgKind::Dim }
}

fn ceil(name: &str, by: u64) -> GridExpr {
    GridExpr::CeilDiv(Box::new(GridExpr::Name(name.into())), Box::new(GridExpr::Const(by)))
}

/// `k(X: f32[N, K], W: f32[K], R: f32[N, 2] in place, Y: f32[N] written, eps: f32, N, K)`
fn metadata() -> Metadata {
    Metadata {
        kernel: "k".into(),
        chip: Chip::Host(HostLevel::V2),
        fingerprint: String::new(),
        arguments: vec![
            tensor("X", F32, &["N", "K"], Access::Read),
            tensor("W", F32, &["K"], Access::Read),
            tensor("R", F32, &["N", "2"], Access::ReadWrite),
            tensor("Y", F32, &["N"], Access::Write),
            Argument { name: "eps".into(), kind: ArgKind::Scalar { dtype: DType::F32 } },
            dim("N"),
            dim("K"),
        ],
        grid: [ceil("N", 4), GridExpr::Const(2), GridExpr::Const(1)],
        threads: 1,
        shared_bytes: 0,
        scratch_bytes: 0,
        index_bits: IndexBits::B64,
        params: BTreeMap::new(),
        bound_dims: BTreeMap::new(),
        contracts: Vec::new(),
        remarks: Vec::new(),
    }
}

struct Fixture {
    token: DeviceToken,
    next: std::cell::Cell<u64>,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture { token: DeviceToken::new(), next: std::cell::Cell::new(0x1000) }
    }

    fn kernel(&self, metadata: &Metadata) -> Kernel {
        self.try_kernel(metadata).unwrap()
    }

    fn try_kernel(&self, metadata: &Metadata) -> Result<Kernel, DeviceError> {
        Kernel::new(&self.token, metadata, || Ok(Box::new(())))
    }

    fn buffer(&self, len: u64, permission: Permission) -> Buffer {
        let address = self.next.get();
        self.next.set((address + len).next_multiple_of(64));
        Buffer::new(&self.token, address, len, permission, Box::new(()))
    }

    fn tensor(&self, element: Element, shape: &[u64]) -> Tensor {
        let bytes = element.device_bytes(shape).unwrap();
        Tensor::of(&self.buffer(bytes, Permission::ReadWrite), element, shape).unwrap()
    }
}

/// The four tensors of `metadata` for N = 5, K = 3.
struct Arguments {
    x: Tensor,
    w: Tensor,
    r: Tensor,
    y: Tensor,
}

impl Arguments {
    fn new(fixture: &Fixture) -> Arguments {
        Arguments {
            x: fixture.tensor(F32, &[5, 3]),
            w: fixture.tensor(F32, &[3]),
            r: fixture.tensor(F32, &[5, 2]),
            y: fixture.tensor(F32, &[5]),
        }
    }

    fn launch<'a>(&'a self, kernel: &'a Kernel) -> Launch<'a> {
        Launch::new(kernel)
            .tensor("X", &self.x)
            .tensor("W", &self.w)
            .tensor("R", &self.r)
            .tensor("Y", &self.y)
            .scalar("eps", 0.5f32)
    }

    fn fault(&self, kernel: &Kernel) -> LaunchFault {
        fault(self.launch(kernel))
    }
}

fn fault(launch: Launch<'_>) -> LaunchFault {
    match launch.check() {
        Ok(_) => panic!("the launch passed"),
        Err(error) => {
            assert_eq!(error.kernel, "k");
            *error.fault
        }
    }
}

fn check<'a>(launch: Launch<'a>) -> CheckedLaunch<'a> {
    match launch.check() {
        Ok(checked) => checked,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn slots_and_grid_in_abi_order() {
    let fixture = Fixture::new();
    let kernel = fixture.kernel(&metadata());
    let mut arguments = Arguments::new(&fixture);
    arguments.w.buffer = fixture.buffer(64, Permission::ReadOnly);
    arguments.w.offset = 8;
    let launch = check(arguments.launch(&kernel));
    let address = |tensor: &Tensor| tensor.buffer.address() + tensor.offset;
    let Arguments { x, w, r, y } = &arguments;
    assert_eq!(
        launch.slots(),
        [address(x), address(w), address(r), address(y), u64::from(0.5f32.to_bits()), 5, 3]
    );
    assert_eq!(launch.grid(), [2, 2, 1]);
    assert_eq!(launch.programs(), 4);
    assert_eq!(launch.tensors().map(address).collect::<Vec<_>>(), launch.slots()[..4]);
}

#[test]
fn arguments_are_present_exactly_once_and_of_their_kind() {
    let fixture = Fixture::new();
    let kernel = fixture.kernel(&metadata());
    let arguments = Arguments::new(&fixture);
    let launch = || arguments.launch(&kernel);
    assert_eq!(
        fault(launch().scalar("Eps", 1.0f32)),
        LaunchFault::UnknownArgument {
            argument: "Eps".into(),
            expected: "`X`, `W`, `R`, `Y`, `eps`, `N`, `K`".into()
        }
    );
    assert_eq!(
        fault(launch().scalar("eps", 1.0f32)),
        LaunchFault::DuplicateArgument { argument: "eps".into() }
    );
    assert_eq!(
        fault(Launch::new(&kernel).tensor("W", &arguments.w)),
        LaunchFault::MissingArgument { argument: "X".into(), wanted: "tensor" }
    );
    assert_eq!(
        fault(Launch::new(&kernel).scalar("X", 1.0f32)),
        LaunchFault::WrongKind { argument: "X".into(), wanted: "tensor", found: "scalar" }
    );
    let all_but_eps = || {
        Launch::new(&kernel)
            .tensor("X", &arguments.x)
            .tensor("W", &arguments.w)
            .tensor("R", &arguments.r)
            .tensor("Y", &arguments.y)
    };
    assert_eq!(
        fault(all_but_eps()),
        LaunchFault::MissingArgument { argument: "eps".into(), wanted: "scalar" }
    );
    assert_eq!(
        fault(all_but_eps().tensor("eps", &arguments.x)),
        LaunchFault::WrongKind { argument: "eps".into(), wanted: "scalar", found: "tensor" }
    );
    assert_eq!(
        fault(all_but_eps().scalar("eps", 1.0f64)),
        LaunchFault::ScalarType { argument: "eps".into(), wanted: DType::F32, found: DType::F64 }
    );
    assert_eq!(
        fault(launch().scalar("N", 5i64)),
        LaunchFault::WrongKind { argument: "N".into(), wanted: "dim", found: "scalar" }
    );
    assert_eq!(check(launch().dim("N", 5)).grid(), [2, 2, 1]);
    assert_eq!(
        fault(launch().dim("N", 6)),
        LaunchFault::DimMismatch {
            dim: "N".into(),
            first: "X".into(),
            wanted: 5,
            argument: "N".into(),
            axis: 0,
            found: 6
        }
    );
}

#[test]
fn elements_ranks_and_extents() {
    let fixture = Fixture::new();
    let kernel = fixture.kernel(&metadata());
    let with = |change: &dyn Fn(&mut Arguments)| {
        let mut arguments = Arguments::new(&fixture);
        change(&mut arguments);
        arguments.fault(&kernel)
    };
    assert_eq!(
        with(&|a| a.x = fixture.tensor(F16, &[5, 3])),
        LaunchFault::ElementType { argument: "X".into(), wanted: F32, found: F16 }
    );
    assert_eq!(
        with(&|a| a.x = fixture.tensor(F32, &[15])),
        LaunchFault::Rank { argument: "X".into(), wanted: 2, found: 1 }
    );
    assert_eq!(
        with(&|a| a.r = fixture.tensor(F32, &[5, 3])),
        LaunchFault::Extent { argument: "R".into(), axis: 1, wanted: 2, found: 3 }
    );
    assert_eq!(
        with(&|a| a.r = fixture.tensor(F32, &[4, 2])),
        LaunchFault::DimMismatch {
            dim: "N".into(),
            first: "X".into(),
            wanted: 5,
            argument: "R".into(),
            axis: 0,
            found: 4
        }
    );
    assert_eq!(
        with(&|a| {
            a.x.shape = vec![5, 1 << 62];
            a.w.shape = vec![1 << 62];
        }),
        LaunchFault::Shape { argument: "X".into(), element: F32, shape: vec![5, 1 << 62] }
    );
}

#[test]
fn bounds_alignment_and_permission() {
    let fixture = Fixture::new();
    let kernel = fixture.kernel(&metadata());
    let with = |change: &dyn Fn(&mut Arguments)| {
        let mut arguments = Arguments::new(&fixture);
        change(&mut arguments);
        arguments.fault(&kernel)
    };
    let out = |offset| LaunchFault::OutOfBounds { argument: "W".into(), offset, bytes: 12, len: 12 };
    assert_eq!(with(&|a| a.w.offset = 4), out(4));
    assert_eq!(with(&|a| a.w.offset = u64::MAX - 3), out(u64::MAX - 3));
    assert_eq!(
        with(&|a| {
            a.w.buffer = fixture.buffer(64, Permission::ReadWrite);
            a.w.offset = 6;
        }),
        LaunchFault::Misaligned { argument: "W".into(), offset: 6, element: F32, wanted: 4 }
    );
    for (name, change) in [("R", 0), ("Y", 1)] {
        let fault = with(&|a| {
            let tensor = if change == 0 { &mut a.r } else { &mut a.y };
            tensor.buffer = fixture.buffer(64, Permission::ReadOnly);
        });
        assert_eq!(fault, LaunchFault::ReadOnly { argument: name.into() });
    }
    let stranger = Fixture::new();
    assert_eq!(
        with(&|a| a.w = stranger.tensor(F32, &[3])),
        LaunchFault::WrongDevice { argument: "W".into() }
    );
}

#[test]
fn written_tensors_overlap_nothing() {
    let fixture = Fixture::new();
    let kernel = fixture.kernel(&metadata());
    let buffer = fixture.buffer(256, Permission::ReadWrite);
    let view = |offset, shape: &[u64]| Tensor::new(&buffer, offset, F32, shape).unwrap();
    let mut arguments = Arguments::new(&fixture);
    // Y is 20 bytes, X 60: adjacent is fine, one element shared is not.
    arguments.x = view(20, &[5, 3]);
    arguments.y = view(0, &[5]);
    check(arguments.launch(&kernel));
    let overlap =
        |argument: &str, other: &str| LaunchFault::Overlap { argument: argument.into(), other: other.into() };
    for offset in [4, 20, 76] {
        arguments.y = view(offset, &[5]);
        assert_eq!(arguments.fault(&kernel), overlap("Y", "X"), "{offset}");
    }
    arguments.y = view(80, &[5]);
    check(arguments.launch(&kernel));
    // Two written tensors.
    arguments.r = view(96, &[5, 2]);
    assert_eq!(arguments.fault(&kernel), overlap("R", "Y"));
    // Two tensors that are only read may share everything.
    arguments.r = fixture.tensor(F32, &[5, 2]);
    arguments.w = view(20, &[3]);
    check(arguments.launch(&kernel));
    // An empty tensor overlaps nothing.
    let mut empty = Arguments::new(&fixture);
    empty.x = Tensor::new(&buffer, 20, F32, [0, 3]).unwrap();
    empty.y = Tensor::new(&buffer, 20, F32, [0]).unwrap();
    empty.r = fixture.tensor(F32, &[0, 2]);
    let launch = check(empty.launch(&kernel));
    assert_eq!((launch.grid(), launch.programs()), ([0, 2, 1], 0));
}

#[test]
fn bound_dims_contracts_and_index_width() {
    let fixture = Fixture::new();
    let arguments = Arguments::new(&fixture);
    let with = |change: &dyn Fn(&mut Metadata)| {
        let mut metadata = metadata();
        change(&mut metadata);
        let kernel = fixture.kernel(&metadata);
        arguments.launch(&kernel).check().map(|_| ()).map_err(|error| *error.fault)
    };
    assert_eq!(with(&|m| m.bound_dims = BTreeMap::from([("K".into(), 3)])), Ok(()));
    assert_eq!(
        with(&|m| m.bound_dims = BTreeMap::from([("K".into(), 4)])),
        Err(LaunchFault::BoundDim { dim: "K".into(), wanted: 4, found: 3 })
    );
    let multiple = |dim: &str, of| Contract::Multiple { dim: dim.into(), of };
    assert_eq!(with(&|m| m.contracts = vec![multiple("K", 3), multiple("N", 5)]), Ok(()));
    assert_eq!(
        with(&|m| m.contracts = vec![multiple("K", 3), multiple("N", 4)]),
        Err(LaunchFault::NotAMultiple { dim: "N".into(), of: 4, found: 5 })
    );
    let at_least = |limit| Contract::AtLeast { dim: "N".into(), limit };
    let at_most = |limit| Contract::AtMost { dim: "N".into(), limit };
    assert_eq!(with(&|m| m.contracts = vec![at_least(5), at_most(5)]), Ok(()));
    assert_eq!(
        with(&|m| m.contracts = vec![at_least(6)]),
        Err(LaunchFault::DimTooSmall { dim: "N".into(), limit: 6, found: 5 })
    );
    assert_eq!(
        with(&|m| m.contracts = vec![at_most(4)]),
        Err(LaunchFault::DimTooLarge { dim: "N".into(), limit: 4, found: 5 })
    );
    let elements = |limit| Contract::TensorElements { tensor: "X".into(), limit };
    assert_eq!(with(&|m| m.contracts = vec![elements(15)]), Ok(()));
    assert_eq!(
        with(&|m| m.contracts = vec![elements(14)]),
        Err(LaunchFault::TensorTooLarge { argument: "X".into(), limit: 14, found: 15 })
    );
    // 32-bit indices refuse a dim that needs more, whatever else holds.
    let mut wide = metadata();
    wide.index_bits = IndexBits::B32;
    let kernel = fixture.kernel(&wide);
    let mut wide = Arguments::new(&fixture);
    wide.x = Tensor { shape: vec![1 << 31, 0], ..fixture.tensor(F32, &[0]) };
    wide.w = fixture.tensor(F32, &[0]);
    wide.r = Tensor {
        shape: vec![1 << 31, 2],
        buffer: fixture.buffer(16 << 31, Permission::ReadWrite),
        ..fixture.tensor(F32, &[0])
    };
    wide.y = Tensor { shape: vec![1 << 31], ..wide.r.clone() };
    assert_eq!(
        wide.fault(&kernel),
        LaunchFault::DimTooLarge { dim: "N".into(), limit: (1 << 31) - 1, found: 1 << 31 }
    );
}

#[test]
fn a_dim_without_a_tensor_must_be_given() {
    let fixture = Fixture::new();
    let mut metadata = metadata();
    metadata.arguments.push(dim("S"));
    let kernel = fixture.kernel(&metadata);
    let arguments = Arguments::new(&fixture);
    assert_eq!(arguments.fault(&kernel), LaunchFault::UnknownDim { dim: "S".into() });
    assert_eq!(check(arguments.launch(&kernel).dim("S", 9)).slots().last(), Some(&9));
    metadata.bound_dims.insert("S".into(), 8);
    let kernel = fixture.kernel(&metadata);
    assert_eq!(check(arguments.launch(&kernel)).slots().last(), Some(&8));
}

#[test]
fn grids_are_evaluated_and_limited() {
    use phobos_artifact::grid::GridError;
    let fixture = Fixture::new();
    let arguments = Arguments::new(&fixture);
    let with = |change: &dyn Fn(&mut Metadata)| {
        let mut metadata = metadata();
        change(&mut metadata);
        let kernel = fixture.kernel(&metadata);
        arguments.launch(&kernel).check().map(|launch| launch.grid()).map_err(|error| *error.fault)
    };
    let name = |name: &str| Box::new(GridExpr::Name(name.into()));
    assert_eq!(
        with(&|m| {
            m.bound_dims.insert("B".into(), 7);
            m.params.insert("TILE".into(), 2);
            m.grid = [
                GridExpr::Mul(name("N"), name("B")),
                GridExpr::CeilDiv(name("N"), name("TILE")),
                GridExpr::Add(name("K"), Box::new(GridExpr::Const(1))),
            ];
        }),
        Ok([35, 3, 4])
    );
    assert_eq!(
        with(&|m| m.grid[1] = GridExpr::CeilDiv(name("N"), Box::new(GridExpr::Const(0)))),
        Err(LaunchFault::Grid(GridError::DivisionByZero("ceil(N / 0)".into())))
    );
    assert_eq!(
        with(&|m| m.grid[0] = GridExpr::Mul(name("N"), Box::new(GridExpr::Const(u64::MAX)))),
        Err(LaunchFault::Grid(GridError::Overflow(format!("(N * {})", u64::MAX))))
    );
    assert_eq!(
        with(&|m| m.grid[0] = GridExpr::Const((1 << 50) + 1)),
        Err(LaunchFault::GridTooLarge { axis: "x", found: (1 << 50) + 1, limit: 1 << 50 })
    );
    assert_eq!(
        with(&|m| m.grid[0] = GridExpr::Const(1 << 50)),
        Err(LaunchFault::GridTooLarge { axis: "all axes together", found: 1 << 51, limit: 1 << 50 })
    );
    assert_eq!(
        with(&|m| {
            m.chip = Chip::Sm(86);
            m.grid[1] = GridExpr::Const(65536);
        }),
        Err(LaunchFault::GridTooLarge { axis: "y", found: 65536, limit: 65535 })
    );
}

#[test]
fn bad_metadata_is_refused_at_load() {
    let fixture = Fixture::new();
    let refused = |change: &dyn Fn(&mut Metadata)| {
        let mut metadata = metadata();
        change(&mut metadata);
        match fixture.try_kernel(&metadata) {
            Err(error @ DeviceError::BadArtifact { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let wanted = |reason: &str| format!("kernel `k`: bad artifact: {reason}");
    assert_eq!(refused(&|m| m.arguments.push(dim("X"))), wanted("two arguments are called `X`"));
    assert_eq!(
        refused(&|m| m.arguments.push(tensor("Z", F32, &["N"], Access::Read))),
        wanted("`Z` is out of order: tensors, then scalars, then dims")
    );
    assert_eq!(
        refused(&|m| m.arguments[0] = tensor("X", F32, &["N"; 9], Access::Read)),
        wanted("`X` has 9 axes, at most 8")
    );
    assert_eq!(
        refused(&|m| m.arguments = (0..49).map(|index| dim(&format!("D{index}"))).collect()),
        wanted("49 arguments, at most 48")
    );
    assert_eq!(
        refused(&|m| m.arguments = (0..33).map(|index| dim(&format!("D{index}"))).collect()),
        wanted("more than 32 named dims")
    );
    assert_eq!(refused(&|m| m.grid[0] = ceil("Q", 2)), wanted("the grid names the unknown dim `Q`"));
    assert_eq!(
        refused(&|m| m.contracts = vec![Contract::Multiple { dim: "K".into(), of: 0 }]),
        wanted("`K` cannot be a multiple of 0")
    );
    assert_eq!(
        refused(&|m| m.contracts = vec![Contract::AtMost { dim: "Q".into(), limit: 1 }]),
        wanted("a contract names the unknown dim `Q`")
    );
    assert_eq!(
        refused(&|m| m.contracts = vec![Contract::TensorElements { tensor: "eps".into(), limit: 1 }]),
        wanted("a contract names the unknown tensor `eps`")
    );
}

#[test]
fn tensors_check_their_bounds() {
    let fixture = Fixture::new();
    let buffer = fixture.buffer(20, Permission::ReadWrite);
    let q4_1: Element = "q4_1".parse().unwrap();
    // One row takes a group of 16 on a device.
    let group = fixture.buffer(320, Permission::ReadWrite);
    assert_eq!(Tensor::of(&group, q4_1, [1, 32]).unwrap().bytes().unwrap(), 320);
    assert!(matches!(
        Tensor::of(&buffer, q4_1, [1, 32]),
        Err(DeviceError::OutOfBounds { bytes: 320, len: 20, .. })
    ));
    assert!(matches!(Tensor::of(&buffer, q4_1, [1, 31]), Err(DeviceError::Shape { block: 32, .. })));
    assert!(matches!(
        Tensor::of(&buffer, F32, [6]),
        Err(DeviceError::OutOfBounds { bytes: 24, len: 20, .. })
    ));
    assert!(matches!(Tensor::new(&buffer, u64::MAX, F32, [1]), Err(DeviceError::OutOfBounds { .. })));
    assert!(matches!(Tensor::of(&buffer, F32, [u64::MAX, 2]), Err(DeviceError::Shape { .. })));
    assert!(Tensor::of(&buffer, F32, [5]).unwrap().reshape([6]).is_err());
}
