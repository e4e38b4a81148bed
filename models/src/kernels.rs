//! Which kernels a model needs, and the compile request of each.
//!
//! A [`Role`] is one kernel with everything bound that the model decides: element
//! types, dims, rows per launch. Requests follow from roles alone; the chip is only
//! filled in, so a list recorded on one chip serves every other.

use std::{collections::BTreeMap, fmt};

use phobos_artifact::{Chip, CompileOptions, CompileRequest, DType, DimRange, Element, format};
use phobos_device::Kernel;

use crate::{Activations, ModelError, Settings, ops::F32};

const ATTENTION: &str = include_str!("../kernels/attention.ph");
const EMBED: &str = include_str!("../kernels/embed.ph");
const GEGLU: &str = include_str!("../kernels/geglu.ph");
const LINEAR: &str = include_str!("../kernels/linear.ph");
const NORM_ROPE: &str = include_str!("../kernels/norm_rope.ph");
const QKV: &str = include_str!("../kernels/qkv.ph");
const RMSNORM: &str = include_str!("../kernels/rmsnorm.ph");
const ROPE: &str = include_str!("../kernels/rope.ph");
const SOFTCAP: &str = include_str!("../kernels/softcap.ph");
const SWIGLU: &str = include_str!("../kernels/swiglu.ph");

/// How many rows (tokens) a launch has: kernels are compiled for each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One: decoding.
    One,
    /// 2 to 31: the rest of a prompt.
    Few,
    /// 32 and more: a prompt.
    Many,
}

impl Rows {
    /// Every class.
    pub const ALL: [Rows; 3] = [Rows::One, Rows::Few, Rows::Many];

    /// The class of a launch of `rows` rows.
    pub fn of(rows: u64) -> Rows {
        match rows {
            0 | 1 => Rows::One,
            2..=31 => Rows::Few,
            _ => Rows::Many,
        }
    }

    /// The classes that batches of at most `largest` rows use.
    pub fn up_to(largest: u64) -> &'static [Rows] {
        match Rows::of(largest) {
            Rows::One => &Rows::ALL[..1],
            Rows::Few => &Rows::ALL[..2],
            Rows::Many => &Rows::ALL,
        }
    }

    /// A class whose inputs are in `element`, when they are rounded.
    fn writing(element: Element) -> Rows {
        match element == Precision::Rounded.element(Rows::One) {
            true => Rows::One,
            false => Rows::Many,
        }
    }

    /// The rows of the class.
    fn range(self) -> Option<DimRange> {
        match self {
            Rows::One => DimRange::new(1, Some(1)),
            Rows::Few => DimRange::new(2, Some(31)),
            Rows::Many => DimRange::new(32, None),
        }
    }
}

/// How the input of products is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// In f32: the products are exact.
    Exact,
    /// Rounded to blocks of integers.
    Rounded,
}

impl Precision {
    /// For an input of `width` elements that all of `weights` are multiplied with: rounded if
    /// the settings ask for it and every one is of a block format. Others have no integers
    /// to multiply.
    pub fn of(settings: &Settings, width: u64, weights: &[Element]) -> Precision {
        let blocks = |element: &Element| matches!(element, Element::Block(_));
        match settings.activations {
            Activations::Q8 if width.is_multiple_of(32) && weights.iter().all(blocks) => Precision::Rounded,
            _ => Precision::Exact,
        }
    }

    /// The element of the input of a launch of `rows`: 16 bits cost nothing where the
    /// weights are streamed, and 8 bits are twice as fast where they are used often.
    pub fn element(self, rows: Rows) -> Element {
        let [q8_1, q16_1] = format::ACTIVATIONS.map(Element::Block);
        match (self, rows) {
            (Precision::Exact, _) => F32,
            (Precision::Rounded, Rows::One) => q16_1,
            (Precision::Rounded, _) => q8_1,
        }
    }

    /// The elements of launches of at most `largest` rows, each once.
    pub fn elements(self, largest: u64) -> Vec<Element> {
        let mut elements: Vec<Element> =
            Rows::up_to(largest).iter().map(|rows| self.element(*rows)).collect();
        elements.dedup();
        elements
    }
}

/// What a kernel does in a model. Shapes are row-major, outermost axis first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `Ids [N], table [V, E] -> X [N, E]`, scaled.
    Embed {
        /// Format of the table.
        table: Element,
        /// E.
        width: u64,
    },
    /// `X [N, E], W [E] -> Y [N, E]`.
    RmsNorm {
        /// E.
        width: u64,
        /// Element of Y.
        to: Element,
    },
    /// `X [N, E], W [E]`, added to `Y [N, E]`.
    RmsNormAdd {
        /// E.
        width: u64,
    },
    /// `X [M, K], W [N, K] -> Y [M, N]`.
    Linear {
        /// Element of X.
        from: Element,
        /// Format of W.
        weight: Element,
        /// M.
        rows: Rows,
    },
    /// `X [M, K], W [N, K]`, added to `Y [M, N]`.
    LinearAdd {
        /// Element of X.
        from: Element,
        /// Format of W.
        weight: Element,
        /// M.
        rows: Rows,
    },
    /// `X [M, K], Wq [N, K], Wk and Wv [P, K] -> Q [M, N], Key and Value [M, P]`.
    Qkv {
        /// Element of X.
        from: Element,
        /// Formats of Wq, Wk and Wv.
        weights: [Element; 3],
        /// M.
        rows: Rows,
    },
    /// Rotates `Q [N, H, R, 2]` in place and `Key [N, G, R, 2]` into a cache `[G, S, R, 2]`;
    /// `Value [N, G, D]` into another.
    Rope {
        /// R: pairs of a head.
        pairs: u64,
        /// D.
        head: u64,
        /// Element of the cache.
        cache: DType,
    },
    /// Norms and rotates `Q [N, H, 2, R]` in place and `Key [N, G, 2, R]` into a cache
    /// `[G, S, 2, R]`; `Value [N, G, D]` into another.
    NormRope {
        /// R: pairs of a head.
        pairs: u64,
        /// D.
        head: u64,
        /// Element of the cache.
        cache: DType,
    },
    /// Causal: `Q [N, H, D], K [G, S, D], V [G, S, D] -> O [N, H D]`.
    Attention {
        /// D.
        head: u64,
        /// Element of the caches.
        cache: DType,
        /// Element of O.
        to: Element,
    },
    /// Causal, one row: `Q [1, G, R, D], K [G, S, D], V [G, S, D] -> O [1, G, R, D]`.
    AttentionOne {
        /// D.
        head: u64,
        /// R: query heads of a key/value head.
        group: u64,
        /// Element of the caches.
        cache: DType,
        /// Element of O.
        to: Element,
    },
    /// [`Role::AttentionOne`] over one of C parts of the positions: `-> O [C, G, R, D], M and
    /// L [C, G, R, 1]`.
    AttentionPart {
        /// D.
        head: u64,
        /// R: query heads of a key/value head.
        group: u64,
        /// Element of the caches.
        cache: DType,
    },
    /// Joins the parts: `O [C, G, R, D], M and L [C, G, R, 1] -> Y [1, G, R, D]`.
    AttentionJoin {
        /// D.
        head: u64,
        /// R: query heads of a key/value head.
        group: u64,
        /// Element of Y.
        to: Element,
    },
    /// `X [M, K], Gate [N, K], Up [N, K] -> Y [M, N]` with silu.
    SwiGlu {
        /// Element of X.
        from: Element,
        /// Element of Y.
        to: Element,
        /// Format of Gate.
        gate: Element,
        /// Format of Up.
        up: Element,
        /// M.
        rows: Rows,
    },
    /// The same with gelu.
    GeGlu {
        /// Element of X.
        from: Element,
        /// Element of Y.
        to: Element,
        /// Format of Gate.
        gate: Element,
        /// Format of Up.
        up: Element,
        /// M.
        rows: Rows,
    },
    /// `X [N, V]` in place.
    Softcap,
}

/// Every element that kernels take for a weight matrix: the scalars, then the block
/// formats.
pub fn weight_elements() -> impl Iterator<Item = Element> {
    let scalars = [DType::F32, DType::F16, DType::Bf16].map(Element::Scalar);
    scalars.into_iter().chain(format::ALL.into_iter().map(Element::Block))
}

impl Role {
    /// This kernel in a file of the same shape whose weights are all in `element`; `None` when a
    /// row of its table is no whole number of blocks.
    pub fn with_weights(self, element: Element, settings: &Settings) -> Option<Role> {
        let input = |width: u64, rows: Rows| Precision::of(settings, width, &[element]).element(rows);
        // Rows of weights of a block format are whole blocks, and so are their inputs.
        let whole = |rows: Rows| input(32, rows);
        Some(match self {
            Role::Embed { width, .. } => {
                let blocks = width.is_multiple_of(element.block_elements() as u64);
                return blocks.then_some(Role::Embed { table: element, width });
            }
            Role::RmsNorm { width, to } => Role::RmsNorm { width, to: input(width, Rows::writing(to)) },
            Role::Linear { rows, .. } => Role::Linear { from: whole(rows), weight: element, rows },
            Role::LinearAdd { rows, .. } => Role::LinearAdd { from: whole(rows), weight: element, rows },
            Role::Qkv { rows, .. } => Role::Qkv { from: whole(rows), weights: [element; 3], rows },
            Role::Attention { head, cache, .. } => {
                Role::Attention { head, cache, to: input(head, Rows::Many) }
            }
            Role::AttentionOne { head, group, cache, .. } => {
                Role::AttentionOne { head, group, cache, to: input(head, Rows::One) }
            }
            Role::AttentionJoin { head, group, .. } => {
                Role::AttentionJoin { head, group, to: input(head, Rows::One) }
            }
            Role::SwiGlu { rows, .. } => {
                Role::SwiGlu { from: whole(rows), to: whole(rows), gate: element, up: element, rows }
            }
            Role::GeGlu { rows, .. } => {
                Role::GeGlu { from: whole(rows), to: whole(rows), gate: element, up: element, rows }
            }
            Role::RmsNormAdd { .. }
            | Role::Rope { .. }
            | Role::NormRope { .. }
            | Role::AttentionPart { .. }
            | Role::Softcap => self,
        })
    }

    /// The request that compiles this kernel for `chip`.
    pub fn request(&self, chip: Chip) -> CompileRequest {
        let spec = match *self {
            Role::Embed { table, width } => Spec::new(EMBED, "embed").element("F", table).dim("E", width),
            Role::RmsNorm { width, to } => Spec::new(RMSNORM, "rmsnorm").element("B", to).dim("E", width),
            Role::RmsNormAdd { width } => Spec::new(RMSNORM, "rmsnorm_add").dim("E", width),
            Role::Linear { from, weight, rows } => {
                Spec::linear(LINEAR, "linear", rows).element("A", from).element("F", weight)
            }
            Role::LinearAdd { from, weight, rows } => {
                Spec::linear(LINEAR, "linear_add", rows).element("A", from).element("F", weight)
            }
            Role::Qkv { from, weights: [q, k, v], rows } => Spec::linear(QKV, "qkv", rows)
                .element("A", from)
                .element("F", q)
                .element("G", k)
                .element("H", v),
            Role::Rope { pairs, head, cache } => {
                Spec::new(ROPE, "rope").element("T", Element::Scalar(cache)).dim("R", pairs).dim("D", head)
            }
            Role::NormRope { pairs, head, cache } => Spec::new(NORM_ROPE, "norm_rope")
                .element("T", Element::Scalar(cache))
                .dim("R", pairs)
                .dim("D", head),
            Role::Attention { head, cache, to } => Spec::new(ATTENTION, "attention")
                .element("T", Element::Scalar(cache))
                .element("B", to)
                .dim("D", head),
            Role::AttentionOne { head, group, cache, to } => Spec::new(ATTENTION, "attention_one")
                .element("T", Element::Scalar(cache))
                .element("B", to)
                .dim("D", head)
                .dim("R", group),
            Role::AttentionPart { head, group, cache } => Spec::new(ATTENTION, "attention_part")
                .element("T", Element::Scalar(cache))
                .dim("D", head)
                .dim("R", group),
            Role::AttentionJoin { head, group, to } => {
                Spec::new(ATTENTION, "attention_join").element("B", to).dim("D", head).dim("R", group)
            }
            Role::SwiGlu { from, to, gate, up, rows } => {
                Spec::linear(SWIGLU, "swiglu", rows).gated(from, [gate, up], to)
            }
            Role::GeGlu { from, to, gate, up, rows } => {
                Spec::linear(GEGLU, "geglu", rows).gated(from, [gate, up], to)
            }
            Role::Softcap => Spec::new(SOFTCAP, "softcap"),
        };
        spec.request(chip)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A request without its chip.
struct Spec {
    source: &'static str,
    kernel: &'static str,
    elements: BTreeMap<String, Element>,
    dims: BTreeMap<String, u64>,
    ranges: BTreeMap<String, DimRange>,
}

impl Spec {
    fn new(source: &'static str, kernel: &'static str) -> Spec {
        let (elements, dims, ranges) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Spec { source, kernel, elements, dims, ranges }
    }

    /// A kernel of products: X has M rows.
    fn linear(source: &'static str, kernel: &'static str, rows: Rows) -> Spec {
        let mut spec = Spec::new(source, kernel);
        spec.ranges.extend(rows.range().map(|range| ("M".to_owned(), range)));
        spec
    }

    fn gated(self, from: Element, [gate, up]: [Element; 2], to: Element) -> Spec {
        self.element("A", from).element("F", gate).element("G", up).element("B", to)
    }

    fn element(mut self, name: &str, element: Element) -> Spec {
        self.elements.insert(name.to_owned(), element);
        self
    }

    fn dim(mut self, name: &str, value: u64) -> Spec {
        self.dims.insert(name.to_owned(), value);
        self
    }

    fn request(self, chip: Chip) -> CompileRequest {
        CompileRequest {
            source: self.source.to_owned(),
            kernel: self.kernel.to_owned(),
            elements: self.elements,
            dims: self.dims,
            ranges: self.ranges,
            params: BTreeMap::new(),
            options: CompileOptions::default(),
            chip,
        }
    }
}

/// The roles of a model, each once, in order of first use.
#[derive(Clone, Debug, Default)]
pub struct RoleSet {
    roles: Vec<Role>,
}

impl RoleSet {
    /// Adds `role` unless it is there.
    pub fn add(&mut self, role: Role) {
        if !self.roles.contains(&role) {
            self.roles.push(role);
        }
    }

    /// The roles in order of first use.
    pub fn roles(&self) -> &[Role] {
        &self.roles
    }
}

/// The loaded kernels of a model by role.
#[derive(Default)]
pub struct KernelSet {
    kernels: Vec<(Role, Kernel)>,
}

impl KernelSet {
    /// Adds the kernel of `role`.
    pub fn insert(&mut self, role: Role, kernel: Kernel) {
        self.kernels.push((role, kernel));
    }

    /// The kernel of `role`.
    pub fn get(&self, role: Role) -> Result<Kernel, ModelError> {
        self.kernels
            .iter()
            .find(|(key, _)| *key == role)
            .map(|(_, kernel)| kernel.clone())
            .ok_or(ModelError::MissingKernel { role: role.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn q4_1() -> Element {
        "q4_1".parse().unwrap()
    }

    #[test]
    fn a_request_names_what_the_model_decides() {
        let from = Precision::Rounded.element(Rows::One);
        let request = Role::Linear { from, weight: q4_1(), rows: Rows::One }.request(Chip::Sm(86));
        assert_eq!(request.kernel, "linear");
        assert_eq!(request.chip, Chip::Sm(86));
        assert_eq!(request.elements, BTreeMap::from([("A".to_owned(), from), ("F".to_owned(), q4_1())]));
        let rows = |rows| Role::Linear { from, weight: q4_1(), rows }.request(Chip::Sm(86)).ranges;
        let ranges = Rows::ALL.map(|class| rows(class).get("M").map(ToString::to_string));
        assert_eq!(ranges, ["1..1", "2..31", "32.."].map(|range| Some(range.to_owned())));
        assert!(request.dims.is_empty());
    }

    #[test]
    fn only_the_chip_differs_between_chips() {
        for role in every_role() {
            let mut a = role.request(Chip::Sm(75));
            let b = role.request(Chip::Sm(120));
            assert_ne!(a, b);
            a.chip = b.chip;
            assert_eq!(a, b);
        }
    }

    /// The kernel, each generic, each bound dim and each parameter of every role occur
    /// in its source: a renamed one in a .ph file is found here, not by a user.
    #[test]
    fn requests_fit_their_sources() {
        for role in every_role() {
            let request = role.request(Chip::Sm(75));
            let source = &request.source;
            let open = format!("kernel {}", request.kernel);
            let start = source
                .match_indices(&open)
                .find(|(at, _)| matches!(source[at + open.len()..].chars().next(), Some('(' | '[')))
                .map(|(at, _)| at)
                .unwrap();
            let signature = &source[start..start + source[start..].find('{').unwrap()];
            for name in request.elements.keys() {
                assert!(
                    ["[", ", "].iter().any(|before| signature.contains(&format!("{before}{name}: ")))
                        && signature.contains(&format!("<{name}>")),
                    "{role}: {name} in {signature}"
                );
            }
            for name in request.dims.keys().chain(request.ranges.keys()) {
                let used = ["[", " "]
                    .iter()
                    .any(|l| [",", "]"].iter().any(|r| signature.contains(&format!("{l}{name}{r}"))));
                assert!(used, "{role}: dim {name} in {signature}");
            }
            // Tiles are the compiler's choice: what is asked for is the same for every chip.
            assert!(request.params.is_empty(), "{role}");
        }
    }

    fn every_role() -> Vec<Role> {
        let (weight, cache) = (q4_1(), DType::F16);
        let mut roles = vec![
            Role::Embed { table: weight, width: 64 },
            Role::RmsNormAdd { width: 64 },
            Role::NormRope { pairs: 16, head: 32, cache },
            Role::Rope { pairs: 16, head: 32, cache },
            Role::AttentionPart { head: 32, group: 3, cache },
            Role::Softcap,
        ];
        for precision in [Precision::Exact, Precision::Rounded] {
            for rows in Rows::ALL {
                let (from, to) = (precision.element(rows), precision.element(rows));
                roles.push(Role::RmsNorm { width: 64, to });
                roles.push(Role::Linear { from, weight, rows });
                roles.push(Role::LinearAdd { from, weight, rows });
                roles.push(Role::Qkv { from, weights: [weight; 3], rows });
                roles.push(Role::SwiGlu { from, to, gate: weight, up: weight, rows });
                roles.push(Role::GeGlu { from, to, gate: weight, up: weight, rows });
                roles.push(Role::Attention { head: 32, cache, to });
                roles.push(Role::AttentionOne { head: 32, group: 3, cache, to });
                roles.push(Role::AttentionJoin { head: 32, group: 3, to });
            }
        }
        roles
    }

    #[test]
    fn every_element_of_a_weight_is_one_that_files_have() {
        let runnable: Vec<Element> =
            phobos_gguf::TensorType::ALL.iter().filter_map(|tensor_type| tensor_type.element()).collect();
        let weights: Vec<Element> = weight_elements().collect();
        assert_eq!(weights.len(), runnable.len());
        assert!(runnable.iter().all(|element| weights.contains(element)), "{weights:?}");
    }

    #[test]
    fn other_weights_change_elements_alone() {
        let q8_0: Element = "q8_0".parse().unwrap();
        let f16 = Element::Scalar(DType::F16);
        let settings = Settings { activations: Activations::Q8, ..Settings::default() };
        for role in every_role() {
            let (from, to) = (role.request(Chip::Sm(75)), role.with_weights(q8_0, &settings).unwrap());
            let to = to.request(Chip::Sm(75));
            for (name, element) in
                to.elements.iter().filter(|(name, _)| ["F", "G", "H"].contains(&name.as_str()))
            {
                assert_eq!(*element, q8_0, "{role}: {name}");
            }
            assert!(to.elements.keys().eq(from.elements.keys()), "{role}");
            assert_eq!(CompileRequest { elements: from.elements, ..to }, role.request(Chip::Sm(75)));
        }
        // Scalars are multiplied with f32, blocks with blocks.
        let exact = Role::Linear { from: F32, weight: f16, rows: Rows::Many };
        let from = Precision::Rounded.element(Rows::Many);
        let rounded = Role::Linear { from, weight: q8_0, rows: Rows::Many };
        assert_eq!(rounded.with_weights(f16, &settings), Some(exact));
        assert_eq!(exact.with_weights(q8_0, &settings), Some(rounded));
        let exact_blocks = Role::Linear { from: F32, weight: q8_0, rows: Rows::Many };
        assert_eq!(exact.with_weights(q8_0, &Settings::default()), Some(exact_blocks));
        // 48 columns are one block of 32 and a half.
        let odd = Role::Embed { table: f16, width: 48 };
        assert_eq!(odd.with_weights(q8_0, &settings), None);
        assert!(odd.with_weights(F32, &settings).is_some());
    }

    #[test]
    fn inputs_are_rounded_where_all_weights_are_blocks() {
        let settings = Settings { activations: Activations::Q8, ..Settings::default() };
        let (q4_1, f16) = (q4_1(), Element::Scalar(DType::F16));
        assert_eq!(Precision::of(&settings, 64, &[q4_1, q4_1]), Precision::Rounded);
        assert_eq!(Precision::of(&settings, 64, &[q4_1, f16]), Precision::Exact);
        assert_eq!(Precision::of(&settings, 48, &[q4_1]), Precision::Exact);
        assert_eq!(Precision::of(&Settings::default(), 64, &[q4_1]), Precision::Exact);
        let names = |precision: Precision| Rows::ALL.map(|rows| precision.element(rows).name());
        assert_eq!(names(Precision::Rounded), ["q16_1", "q8_1", "q8_1"]);
        assert_eq!(names(Precision::Exact), ["f32"; 3]);
        assert_eq!(Precision::Rounded.elements(64).len(), 2);
        assert_eq!(Precision::Exact.elements(64), [F32]);
    }

    #[test]
    fn row_classes() {
        assert_eq!(
            [1, 2, 31, 32, 512].map(Rows::of),
            [Rows::One, Rows::Few, Rows::Few, Rows::Many, Rows::Many]
        );
        assert_eq!(Rows::up_to(1), [Rows::One]);
        assert_eq!(Rows::up_to(64), Rows::ALL);
    }

    #[test]
    fn a_role_is_requested_once() {
        let mut set = RoleSet::default();
        set.add(Role::Softcap);
        set.add(Role::RmsNorm { width: 8, to: F32 });
        set.add(Role::Softcap);
        assert_eq!(set.roles(), [Role::Softcap, Role::RmsNorm { width: 8, to: F32 }]);
    }
}
