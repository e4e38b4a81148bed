//! The weights that all decoders here have, and what follows from them: which inputs are
//! rounded, and which kernels multiply by them.

use phobos_artifact::Element;

use crate::{
    ModelError, Settings,
    attention::Attention,
    config::Dims,
    kernels::{Precision, Role, RoleSet, Rows},
    weights::{Catalogue, Weight},
};

/// The embedding and the output layer. Shapes are [rows, columns] of `y = W x`.
pub(crate) struct Ends {
    pub token_embd: Weight,     // [V, E]
    pub output: Option<Weight>, // [V, E]; none: the embedding
    pub output_norm: Weight,    // [E]
}

impl Ends {
    pub fn find(from: &mut Catalogue<'_>, c: &Dims) -> Result<Ends, ModelError> {
        let token_embd = from.matrix("token_embd.weight", c.vocabulary, c.width)?;
        let output = match from.has("output.weight") {
            true => Some(from.matrix("output.weight", c.vocabulary, c.width)?),
            false => None,
        };
        Ok(Ends { token_embd, output, output_norm: from.vector("output_norm.weight", c.width)? })
    }

    /// Of the input of the output layer.
    pub fn precision(&self, c: &Dims, settings: &Settings) -> Precision {
        Precision::of(settings, c.width, &[self.output().element])
    }

    fn output(&self) -> &Weight {
        self.output.as_ref().unwrap_or(&self.token_embd)
    }

    /// The kernels before the layers and after them.
    pub fn add_roles(&self, roles: &mut RoleSet, c: &Dims, settings: &Settings) {
        roles.add(Role::Embed { table: self.token_embd.element, width: c.width });
        let from = self.precision(c, settings).element(Rows::One);
        roles.add(Role::RmsNorm { width: c.width, to: from });
        roles.add(Role::Linear { from, weight: self.output().element, rows: Rows::One });
    }
}

/// The matrices of a layer.
pub(crate) struct Matrices {
    pub attn_q: Weight,      // [H D, E]
    pub attn_k: Weight,      // [G D, E]
    pub attn_v: Weight,      // [G D, E]
    pub attn_output: Weight, // [E, H D]
    pub ffn_gate: Weight,    // [F, E]
    pub ffn_up: Weight,      // [F, E]
    pub ffn_down: Weight,    // [E, F]
}

/// How the four inputs of a layer are held.
#[derive(Clone, Copy)]
pub(crate) struct Precisions {
    /// Of the attention's first products.
    pub attn: Precision,
    /// Of what leads back from it.
    pub out: Precision,
    /// Of the gated unit.
    pub ffn: Precision,
    /// Of what leads back from it.
    pub down: Precision,
}

/// What differs between architectures in the kernels of a layer's matrices.
pub(crate) struct LayerKernels {
    /// The products that lead back, from input, weight and rows.
    pub back: fn(Element, Element, Rows) -> Role,
    /// The gated unit, from input, output, gate, up and rows.
    pub gated: fn(Element, Element, [Element; 2], Rows) -> Role,
}

impl Matrices {
    /// Those of layer `layer`.
    pub fn find(from: &mut Catalogue<'_>, layer: u64, c: &Dims) -> Result<Matrices, ModelError> {
        let mut matrix =
            |part: &str, rows, columns| from.matrix(&format!("blk.{layer}.{part}.weight"), rows, columns);
        Ok(Matrices {
            attn_q: matrix("attn_q", c.queries(), c.width)?,
            attn_k: matrix("attn_k", c.keys(), c.width)?,
            attn_v: matrix("attn_v", c.keys(), c.width)?,
            attn_output: matrix("attn_output", c.width, c.queries())?,
            ffn_gate: matrix("ffn_gate", c.feed_forward, c.width)?,
            ffn_up: matrix("ffn_up", c.feed_forward, c.width)?,
            ffn_down: matrix("ffn_down", c.width, c.feed_forward)?,
        })
    }

    /// How the inputs are held: rounded where the settings ask for it and all of an input's
    /// weights are of block formats.
    pub fn precisions(&self, c: &Dims, settings: &Settings) -> Precisions {
        let of = |width, weights: &[&Weight]| {
            let elements: Vec<Element> = weights.iter().map(|weight| weight.element).collect();
            Precision::of(settings, width, &elements)
        };
        // Attention writes a head at a time.
        let out = match c.head.is_multiple_of(32) {
            true => of(c.queries(), &[&self.attn_output]),
            false => Precision::Exact,
        };
        Precisions {
            attn: of(c.width, &[&self.attn_q, &self.attn_k, &self.attn_v]),
            out,
            ffn: of(c.width, &[&self.ffn_gate, &self.ffn_up]),
            down: of(c.feed_forward, &[&self.ffn_down]),
        }
    }

    /// The gated unit for launches of `rows` rows.
    pub fn gated(&self, kernels: &LayerKernels, precisions: Precisions, rows: Rows) -> Role {
        let (from, to) = (precisions.ffn.element(rows), precisions.down.element(rows));
        (kernels.gated)(from, to, [self.ffn_gate.element, self.ffn_up.element], rows)
    }

    /// The kernels of the layer, its rotations left out.
    pub fn add_roles(&self, roles: &mut RoleSet, kernels: &LayerKernels, c: &Dims, settings: &Settings) {
        let precisions = self.precisions(c, settings);
        let Precisions { attn, out, ffn, down } = precisions;
        for precision in [attn, ffn] {
            for to in precision.elements(settings.chunk) {
                roles.add(Role::RmsNorm { width: c.width, to });
            }
        }
        for rows in Rows::up_to(settings.chunk) {
            let (rows, to) = (*rows, out.element(*rows));
            for role in Attention::roles(c, settings.kv, rows, to) {
                roles.add(role);
            }
            let weights = [self.attn_q.element, self.attn_k.element, self.attn_v.element];
            roles.add(Role::Qkv { from: attn.element(rows), weights, rows });
            for (weight, precision) in [(&self.attn_output, out), (&self.ffn_down, down)] {
                roles.add((kernels.back)(precision.element(rows), weight.element, rows));
            }
            roles.add(self.gated(kernels, precisions, rows));
        }
    }
}
