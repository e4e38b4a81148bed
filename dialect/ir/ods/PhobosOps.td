// Operations of the phobos dialect.
//
// "valid" operands are the validity extents of ARCHITECTURE.md, decision 4: one index
// per axis, how many lanes from 0 hold defined values. No valid operands means
// that every lane is valid.
#ifndef PHOBOS_OPS_TD
#define PHOBOS_OPS_TD

include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "PhobosTypes.td"

class Phobos_Op<string mnemonic, list<Trait> traits = []> : Op<Phobos_Dialect, mnemonic, traits>;

def Tile : Type<CPred<"::llvm::isa<::mlir::RankedTensorType>($_self)">, "tile (a ranked tensor)", "::mlir::RankedTensorType">;

// Any type to C++: of a class that it knows the printer would leave out the name, `<[M], f32>`.
def Tensor : Type<CPred<"::llvm::isa<::phobos::MemoryTensorType>($_self)">, "!phobos.tensor">;

def Phobos_ReduceKind : I32EnumAttr<"ReduceKind", "what a reduction or scan combines", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Prod", 1, "prod">,
    I32EnumAttrCase<"Max", 2, "max">, I32EnumAttrCase<"Min", 3, "min">,
    I32EnumAttrCase<"Any", 4, "any">, I32EnumAttrCase<"All", 5, "all">]> {
  let cppNamespace = "::phobos";
  let genSpecializedAttr = 0;
}
def Phobos_ReduceKindAttr : EnumAttr<Phobos_Dialect, Phobos_ReduceKind, "reduce_kind"> {
  let assemblyFormat = "`<` $value `>`";
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

def Phobos_KernelOp : Phobos_Op<"kernel", [
    AffineScope, AutomaticAllocationScope, IsolatedFromAbove, FunctionOpInterface]> {
  let summary = "a kernel: the program that every point of the grid runs";
  let description = [{
    Arguments are tensors (`!phobos.tensor`) and scalars. `params` maps each
    `@autotune` parameter to its candidates; `grid` says how many programs each
    axis has, for readers of the IR.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
      OptionalAttr<DictionaryAttr>:$params, OptionalAttr<ArrayAttr>:$grid,
      OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Phobos_ReturnOp : Phobos_Op<"return", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "the end of a kernel";
  let assemblyFormat = "attr-dict";
}

def Phobos_ProgramIdOp : Phobos_Op<"program_id", [Pure]> {
  let summary = "this program's position on a grid axis";
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<2>]>:$axis);
  let results = (outs Index:$result);
  let assemblyFormat = "$axis attr-dict";
}

def Phobos_ParamOp : Phobos_Op<"param", [Pure]> {
  let summary = "the value of an @autotune parameter";
  let arguments = (ins StrAttr:$name);
  let results = (outs Index:$result);
  let assemblyFormat = "$name attr-dict";
}

def Phobos_DimOp : Phobos_Op<"dim", [Pure]> {
  let summary = "the value of a named dim of the kernel's tensors";
  let arguments = (ins StrAttr:$name);
  let results = (outs Index:$result);
  let assemblyFormat = "$name attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

def Phobos_LoadOp : Phobos_Op<"load", [AttrSizedOperandSegments]> {
  let summary = "read a tile of a tensor";
  let description = [{
    Lanes outside the tensor are invalid, or hold `other` when it is given. A slice
    that starts before 0 is wholly invalid. One offset per axis of the tensor; the
    tile has the tensor's rank and element.
  }];
  let arguments = (ins Arg<Tensor, "", [MemRead]>:$tensor, Variadic<Index>:$offsets,
      Optional<AnyType>:$other, Variadic<Index>:$valid);
  let results = (outs Tile:$result);
  let assemblyFormat = [{
    $tensor `[` $offsets `]` (`else` $other^ `:` type($other))? (`valid` `[` $valid^ `]`)? attr-dict
    `:` type($tensor) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Phobos_StoreOp : Phobos_Op<"store", [AttrSizedOperandSegments]> {
  let summary = "write the valid lanes of a tile to a tensor";
  let arguments = (ins Tile:$value, Arg<Tensor, "", [MemWrite]>:$tensor,
      Variadic<Index>:$offsets, Variadic<Index>:$valid);
  let assemblyFormat = [{
    $value `,` $tensor `[` $offsets `]` (`valid` `[` $valid^ `]`)? attr-dict `:` type($value) `,` type($tensor)
  }];
  let hasVerifier = 1;
}

def Phobos_LoadScalarOp : Phobos_Op<"load_scalar", []> {
  let summary = "read one element; 0 outside the tensor";
  let arguments = (ins Arg<Tensor, "", [MemRead]>:$tensor, Variadic<Index>:$offsets);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$tensor `[` $offsets `]` attr-dict `:` type($tensor) `->` type($result)";
  let hasVerifier = 1;
}

def Phobos_StoreScalarOp : Phobos_Op<"store_scalar", []> {
  let summary = "write one element; nothing outside the tensor";
  let arguments = (ins AnyType:$value, Arg<Tensor, "", [MemWrite]>:$tensor, Variadic<Index>:$offsets);
  let assemblyFormat = "$value `,` $tensor `[` $offsets `]` attr-dict `:` type($value) `,` type($tensor)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Making and reshaping tiles
//===----------------------------------------------------------------------===//

def Phobos_SplatOp : Phobos_Op<"splat", [Pure,
    TypesMatchWith<"the scalar is the tile's element", "result", "value",
                   "::llvm::cast<::mlir::RankedTensorType>($_self).getElementType()">]> {
  let summary = "a tile with the same value in every lane, all valid";
  let arguments = (ins AnyType:$value);
  let results = (outs Tile:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Phobos_UndefOp : Phobos_Op<"undef", [Pure]> {
  let summary = "a tile declared without a value";
  let results = (outs Tile:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Phobos_IotaOp : Phobos_Op<"iota", [Pure]> {
  let summary = "each lane's index along an axis";
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$axis);
  let results = (outs Tile:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Phobos_BroadcastOp : Phobos_Op<"broadcast", [Pure]> {
  let summary = "stretch axes of extent 1; a lower rank gets leading axes";
  let arguments = (ins Tile:$input);
  let results = (outs Tile:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Phobos_ReshapeOp : Phobos_Op<"reshape", [Pure]> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    Only extent-1 axes may be added or dropped unless every lane is valid: a
    validity extent has no meaning across merged axes. `points` are axes of the
    input that go; other axes of extent 1 meet from the last one.
  }];
  let arguments = (ins Tile:$input, OptionalAttr<DenseI64ArrayAttr>:$points);
  let results = (outs Tile:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Phobos_TransposeOp : Phobos_Op<"transpose", [Pure]> {
  let summary = "the last two axes exchanged";
  let arguments = (ins Tile:$input);
  let results = (outs Tile:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Phobos_ExtractOp : Phobos_Op<"extract", [Pure]> {
  let summary = "a slice of a tile";
  let arguments = (ins Tile:$input, Variadic<Index>:$offsets);
  let results = (outs Tile:$result);
  let assemblyFormat = "$input `[` $offsets `]` attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Phobos_InsertOp : Phobos_Op<"insert", [Pure, AttrSizedOperandSegments, AllTypesMatch<["dest", "result"]>]> {
  let summary = "a tile with one slice replaced";
  let description = [{
    Lanes of `value` beyond `valid` become 0 in the result, whose validity is that of
    `dest`.
  }];
  let arguments = (ins Tile:$value, Tile:$dest, Variadic<Index>:$offsets, Variadic<Index>:$valid);
  let results = (outs Tile:$result);
  let assemblyFormat = [{
    $value `into` $dest `[` $offsets `]` (`valid` `[` $valid^ `]`)? attr-dict `:` type($value) `into` type($dest)
  }];
  let hasVerifier = 1;
}

def Phobos_DecodeOp : Phobos_Op<"decode", [Pure]> {
  let summary = "the f32 values of a tile of a block format, exact";
  let arguments = (ins Tile:$input);
  let results = (outs Tile:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Phobos_QuantizeOp : Phobos_Op<"quantize", [Pure]> {
  let summary = "a tile of f32 in a block format of activations";
  let description = [{
    The blocks lie along the last axis, whose extent is a multiple of their elements. A
    lane that is not valid counts as 0 in its block; the result is as valid as the input.
  }];
  let arguments = (ins Tile:$input);
  let results = (outs Tile:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Computing
//===----------------------------------------------------------------------===//

def Phobos_DotOp : Phobos_Op<"dot", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc + lhs * rhs (rhs transposed when `transposed` is set)";
  let description = [{
    `lhs` is [M, K], `rhs` [K, N] or, transposed, [N, K]; `acc` and the result are
    [M, N]. `valid` is (m, n, k): lanes of k beyond it count as zero. Blocks stand on
    both sides or on neither: activations on the left and weights on the right, whose
    integer codes are multiplied; any other tile of blocks is decoded first.
  }];
  let arguments = (ins Tile:$lhs, Tile:$rhs, Tile:$acc, Variadic<Index>:$valid, UnitAttr:$transposed);
  let results = (outs Tile:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `,` $acc (`valid` `[` $valid^ `]`)? (`transposed` $transposed^)? attr-dict
    `:` type($lhs) `,` type($rhs) `->` type($acc)
  }];
  let hasVerifier = 1;
}

def Phobos_ReduceOp : Phobos_Op<"reduce", [Pure]> {
  let summary = "combine the valid lanes along an axis, which keeps extent 1";
  let arguments = (ins Phobos_ReduceKindAttr:$kind, Tile:$input,
      ConfinedAttr<I64Attr, [IntNonNegative]>:$axis, Variadic<Index>:$valid);
  let results = (outs Tile:$result);
  let assemblyFormat = [{
    $kind $input `axis` $axis (`valid` `[` $valid^ `]`)? attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Phobos_ArgReduceOp : Phobos_Op<"arg_reduce", [Pure]> {
  let summary = "the position of the largest (or smallest) valid lane along an axis";
  let description = [{
    The first of equals; a NaN wins. The axis keeps extent 1; without valid lanes the
    position is 0.
  }];
  let arguments = (ins Tile:$input, ConfinedAttr<I64Attr, [IntNonNegative]>:$axis, Variadic<Index>:$valid,
      UnitAttr:$smallest);
  let results = (outs Tile:$result);
  let assemblyFormat = [{
    (`smallest` $smallest^)? $input `axis` $axis (`valid` `[` $valid^ `]`)? attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Phobos_ScanOp : Phobos_Op<"scan", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "running combination along an axis, inclusive";
  let arguments = (ins Phobos_ReduceKindAttr:$kind, Tile:$input,
      ConfinedAttr<I64Attr, [IntNonNegative]>:$axis, Variadic<Index>:$valid);
  let results = (outs Tile:$result);
  let assemblyFormat = "$kind $input `axis` $axis (`valid` `[` $valid^ `]`)? attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Phobos_MapOp : Phobos_Op<"map", [Pure, SingleBlock, AttrSizedOperandSegments, IsolatedFromAbove]> {
  let summary = "one elementwise loop nest over tiles";
  let description = [{
    The body computes one element from the elements of the input tiles at the same
    index; an input axis of extent 1 stretches, a lower rank gets leading axes. A
    scalar input is the same in every lane. Made by phobos-fuse.
  }];
  let arguments = (ins Variadic<AnyType>:$inputs, Variadic<Index>:$valid);
  let results = (outs Tile:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $inputs `)` (`valid` `[` $valid^ `]`)? attr-dict `:` functional-type($inputs, $result) $body
  }];
  let hasVerifier = 1;
}

def Phobos_LaneOp : Phobos_Op<"lane", [Pure, HasParent<"MapOp">]> {
  let summary = "the element's index along an axis, inside phobos.map";
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$axis);
  let results = (outs AnySignlessInteger:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Phobos_YieldOp : Phobos_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"MapOp">]> {
  let summary = "the element that phobos.map's body computed";
  let arguments = (ins AnyType:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

#endif
