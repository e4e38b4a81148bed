// Types and attributes of the phobos dialect.
#ifndef PHOBOS_TYPES_TD
#define PHOBOS_TYPES_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypeInterfaces.td"
include "PhobosDialect.td"

class Phobos_Type<string name, string typeMnemonic, list<Trait> traits = []>
    : TypeDef<Phobos_Dialect, name, traits> {
  let mnemonic = typeMnemonic;
}

def Phobos_TensorType : Phobos_Type<"MemoryTensor", "tensor"> {
  let summary = "a contiguous row-major tensor in memory";
  let description = [{
    `!phobos.tensor<[M, 64], f32>`: each dim is a name, bound at launch, or a
    constant. The element is a scalar or a block format.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::Attribute">:$dims, "::mlir::Type":$elementType);
  let assemblyFormat = "`<` custom<Dims>($dims) `,` $elementType `>`";
  let genVerifyDecl = 1;
}

def Phobos_BlockType : Phobos_Type<"Block", "block"> {
  let summary = "an element of a block format, such as `q4_1`";
  let description = [{
    A tile of a block format holds the encoded bytes; `phobos.decode` gives its
    values. The block lies along the last axis.
  }];
  let parameters = (ins StringRefParameter<"format name">:$format);
  let assemblyFormat = "`<` custom<BareName>($format) `>`";
}

def Phobos_DimsAttr : AttrDef<Phobos_Dialect, "Dims"> {
  let mnemonic = "dims";
  let summary = "the dims of a symbolic tile";
  let description = [{
    The encoding of a tile type before specialisation: one entry per axis, a
    parameter name where the builtin type says `?`, the constant elsewhere.
    `tensor<?x32xf32, #phobos.dims<[TILE_M, 32]>>`.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::Attribute">:$dims);
  let assemblyFormat = "`<` custom<Dims>($dims) `>`";
  let genVerifyDecl = 1;
}

#endif
