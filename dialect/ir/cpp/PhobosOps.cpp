// Verifiers of the operations, and the kernel's custom syntax.
#include "Phobos.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace phobos;

#define GET_OP_CLASSES
#include "PhobosOps.cpp.inc"

// One dim per axis: the constants of a static tile, or its `#phobos.dims`.
static SmallVector<Attribute> dimsOf(RankedTensorType tile) {
  if (auto symbolic = llvm::dyn_cast_if_present<DimsAttr>(tile.getEncoding()))
    return llvm::to_vector(symbolic.getDims());
  Builder builder(tile.getContext());
  SmallVector<Attribute> dims;
  for (int64_t extent : tile.getShape())
    dims.push_back(builder.getI64IntegerAttr(extent));
  return dims;
}

static MemoryTensorType memory(Value tensor) { return llvm::cast<MemoryTensorType>(tensor.getType()); }

static bool isOne(Attribute dim) {
  auto number = llvm::dyn_cast<IntegerAttr>(dim);
  return number && number.getInt() == 1;
}

static std::string text(Attribute dim) {
  if (auto name = llvm::dyn_cast<StringAttr>(dim))
    return name.getValue().str();
  return std::to_string(llvm::cast<IntegerAttr>(dim).getInt());
}

// Tiles are static, or every `?` has a name in `#phobos.dims`.
static LogicalResult verifyTile(Operation *op, RankedTensorType tile) {
  auto symbolic = llvm::dyn_cast_if_present<DimsAttr>(tile.getEncoding());
  if (!symbolic) {
    if (!tile.hasStaticShape())
      return op->emitOpError() << "tile " << tile << " has a dynamic axis and no #phobos.dims";
    return success();
  }
  if (static_cast<int64_t>(symbolic.getDims().size()) != tile.getRank())
    return op->emitOpError() << "tile " << tile << " has " << tile.getRank() << " axes but "
                             << symbolic.getDims().size() << " dims";
  for (auto [dim, extent] : llvm::zip(symbolic.getDims(), tile.getShape())) {
    auto number = llvm::dyn_cast<IntegerAttr>(dim);
    if (number ? number.getInt() != extent : !ShapedType::isDynamic(extent))
      return op->emitOpError() << "tile " << tile << ": dim " << text(dim) << " does not match its extent";
  }
  return success();
}

static LogicalResult verifyAccess(Operation *op, MemoryTensorType tensor, size_t offsets, RankedTensorType tile,
                                  size_t valid) {
  if (offsets != tensor.getDims().size())
    return op->emitOpError() << "has " << offsets << " offsets for " << tensor.getDims().size() << " axes";
  if (static_cast<size_t>(tile.getRank()) != offsets)
    return op->emitOpError() << "tile of rank " << tile.getRank() << " for a tensor of rank " << offsets;
  if (tile.getElementType() != tensor.getElementType())
    return op->emitOpError() << "tile element " << tile.getElementType() << " differs from tensor element "
                             << tensor.getElementType();
  if (valid != 0 && valid != offsets)
    return op->emitOpError() << "has " << valid << " valid extents for " << offsets << " axes";
  return verifyTile(op, tile);
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto build = [](Builder &builder, ArrayRef<Type> arguments, ArrayRef<Type> results,
                  function_interface_impl::VariadicFlag, std::string &) {
    return builder.getFunctionType(arguments, results);
  };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), build,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
                                           getArgAttrsAttrName(), getResAttrsAttrName());
}

LogicalResult KernelOp::verify() {
  if (!getFunctionType().getResults().empty())
    return emitOpError("returns nothing: results go to tensors");
  for (Type type : getFunctionType().getInputs())
    if (!llvm::isa<MemoryTensorType>(type) && !type.isIntOrFloat())
      return emitOpError() << "argument must be a !phobos.tensor or a scalar, got " << type;
  return success();
}

LogicalResult DimOp::verify() {
  auto kernel = (*this)->getParentOfType<KernelOp>();
  if (!kernel)
    return emitOpError("must be in a phobos.kernel");
  for (Type type : kernel.getFunctionType().getInputs())
    if (auto tensor = llvm::dyn_cast<MemoryTensorType>(type))
      for (Attribute dim : tensor.getDims())
        if (auto name = llvm::dyn_cast<StringAttr>(dim); name && name == getNameAttr())
          return success();
  return emitOpError() << "no tensor of the kernel has a dim named " << getNameAttr();
}

LogicalResult LoadOp::verify() {
  if (getOther() && getOther().getType() != memory(getTensor()).getElementType())
    return emitOpError() << "`else` value of type " << getOther().getType() << " for elements of type "
                         << memory(getTensor()).getElementType();
  return verifyAccess(*this, memory(getTensor()), getOffsets().size(), getResult().getType(), getValid().size());
}

LogicalResult StoreOp::verify() {
  return verifyAccess(*this, memory(getTensor()), getOffsets().size(), getValue().getType(), getValid().size());
}

static LogicalResult verifyScalarAccess(Operation *op, MemoryTensorType tensor, size_t offsets, Type scalar) {
  if (offsets != tensor.getDims().size())
    return op->emitOpError() << "has " << offsets << " offsets for " << tensor.getDims().size() << " axes";
  if (scalar != tensor.getElementType())
    return op->emitOpError() << "scalar " << scalar << " differs from tensor element " << tensor.getElementType();
  return success();
}

LogicalResult LoadScalarOp::verify() {
  return verifyScalarAccess(*this, memory(getTensor()), getOffsets().size(), getResult().getType());
}

LogicalResult StoreScalarOp::verify() {
  return verifyScalarAccess(*this, memory(getTensor()), getOffsets().size(), getValue().getType());
}

LogicalResult SplatOp::verify() { return verifyTile(*this, getResult().getType()); }

LogicalResult UndefOp::verify() { return verifyTile(*this, getResult().getType()); }

LogicalResult IotaOp::verify() {
  RankedTensorType tile = getResult().getType();
  if (!tile.getElementType().isSignlessInteger())
    return emitOpError() << "gives integers, not " << tile.getElementType();
  if (static_cast<int64_t>(getAxis()) >= tile.getRank())
    return emitOpError() << "axis " << getAxis() << " of a tile of rank " << tile.getRank();
  return verifyTile(*this, tile);
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  if (from.getElementType() != to.getElementType() || from.getRank() > to.getRank())
    return emitOpError() << "cannot stretch " << from << " to " << to;
  SmallVector<Attribute> small = dimsOf(from), big = dimsOf(to);
  size_t lead = big.size() - small.size();
  for (size_t axis = 0; axis < small.size(); ++axis)
    if (!isOne(small[axis]) && small[axis] != big[lead + axis])
      return emitOpError() << "axis " << axis << " has extent " << text(small[axis]) << ", which is neither 1 nor "
                           << text(big[lead + axis]);
  return verifyTile(*this, to);
}

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  if (from.getElementType() != to.getElementType())
    return emitOpError() << "changes the element from " << from.getElementType() << " to " << to.getElementType();
  auto significant = [](RankedTensorType tile) {
    return llvm::to_vector(llvm::make_filter_range(dimsOf(tile), [](Attribute dim) { return !isOne(dim); }));
  };
  if (from.hasStaticShape() && to.hasStaticShape() ? from.getNumElements() != to.getNumElements()
                                                   : significant(from) != significant(to))
    return emitOpError() << from << " and " << to << " hold different numbers of elements";
  SmallVector<Attribute> dims = dimsOf(from);
  for (int64_t axis : getPoints().value_or(ArrayRef<int64_t>()))
    if (axis < 0 || axis >= static_cast<int64_t>(dims.size()) || !isOne(dims[axis]))
      return emitOpError() << "axis " << axis << " of " << from << " is no point";
  return verifyTile(*this, to);
}

LogicalResult TransposeOp::verify() {
  SmallVector<Attribute> expected = dimsOf(getInput().getType());
  if (expected.size() < 2)
    return emitOpError("needs a tile of rank 2 or more");
  std::swap(expected[expected.size() - 1], expected[expected.size() - 2]);
  if (expected != dimsOf(getResult().getType()) ||
      getInput().getType().getElementType() != getResult().getType().getElementType())
    return emitOpError() << getResult().getType() << " is not the transpose of " << getInput().getType();
  return verifyTile(*this, getResult().getType());
}

static LogicalResult verifySlice(Operation *op, RankedTensorType whole, size_t offsets, RankedTensorType slice) {
  if (static_cast<size_t>(whole.getRank()) != offsets || slice.getRank() != whole.getRank())
    return op->emitOpError() << "slice " << slice << " at " << offsets << " offsets of " << whole;
  if (slice.getElementType() != whole.getElementType())
    return op->emitOpError() << "slice " << slice << " differs in element from " << whole;
  for (int64_t axis = 0; axis < whole.getRank(); ++axis)
    if (!whole.isDynamicDim(axis) && !slice.isDynamicDim(axis) && slice.getDimSize(axis) > whole.getDimSize(axis))
      return op->emitOpError() << "slice " << slice << " is longer than " << whole << " on axis " << axis;
  return verifyTile(op, slice);
}

LogicalResult ExtractOp::verify() {
  return verifySlice(*this, getInput().getType(), getOffsets().size(), getResult().getType());
}

LogicalResult InsertOp::verify() {
  if (!getValid().empty() && getValid().size() != getOffsets().size())
    return emitOpError() << "has " << getValid().size() << " valid extents for " << getOffsets().size() << " axes";
  return verifySlice(*this, getDest().getType(), getOffsets().size(), getValue().getType());
}

LogicalResult DecodeOp::verify() {
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  if (!llvm::isa<BlockType>(from.getElementType()))
    return emitOpError() << "decodes a block format, not " << from.getElementType();
  if (!to.getElementType().isF32() || dimsOf(from) != dimsOf(to))
    return emitOpError() << "of " << from << " gives f32 in the same shape, not " << to;
  return verifyTile(*this, to);
}

LogicalResult QuantizeOp::verify() {
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  if (!from.getElementType().isF32())
    return emitOpError() << "takes f32, not " << from.getElementType();
  if (!llvm::isa<BlockType>(to.getElementType()) || dimsOf(from) != dimsOf(to))
    return emitOpError() << "of " << from << " gives blocks in the same shape, not " << to;
  return verifyTile(*this, to);
}

LogicalResult DotOp::verify() {
  RankedTensorType lhs = getLhs().getType(), rhs = getRhs().getType(), acc = getAcc().getType();
  if (lhs.getRank() != 2 || rhs.getRank() != 2 || acc.getRank() != 2)
    return emitOpError() << "takes tiles of rank 2, got " << lhs << ", " << rhs << " and " << acc;
  SmallVector<Attribute> a = dimsOf(lhs), b = dimsOf(rhs), c = dimsOf(acc);
  size_t k = getTransposed() ? 1 : 0, n = 1 - k;
  if (a[1] != b[k])
    return emitOpError() << "contracts over " << text(a[1]) << " of " << lhs << " but " << text(b[k]) << " of " << rhs;
  if (c[0] != a[0] || c[1] != b[n])
    return emitOpError() << "gives " << text(a[0]) << "x" << text(b[n]) << ", not " << acc;
  if (!acc.getElementType().isFloat() && !acc.getElementType().isSignlessInteger())
    return emitOpError() << "cannot accumulate in " << acc.getElementType();
  bool left = llvm::isa<BlockType>(lhs.getElementType()), right = llvm::isa<BlockType>(rhs.getElementType());
  if (left != right)
    return emitOpError() << "takes blocks on both sides or on neither, got " << lhs << " and " << rhs;
  if (left && !getTransposed())
    return emitOpError("of blocks is transposed: they lie along the inner axis of both sides");
  if (left && !acc.getElementType().isF32())
    return emitOpError() << "of blocks accumulates in f32, not in " << acc.getElementType();
  if (!getValid().empty() && getValid().size() != 3)
    return emitOpError() << "takes 3 valid extents (m, n, k), got " << getValid().size();
  return verifyTile(*this, acc);
}

// `result` is `input` with the axis reduced to extent 1; the element is the caller's business.
static LogicalResult verifyReduced(Operation *op, RankedTensorType input, uint64_t axis, RankedTensorType result,
                                   size_t valid) {
  SmallVector<Attribute> expected = dimsOf(input);
  if (axis >= expected.size())
    return op->emitOpError() << "axis " << axis << " of a tile of rank " << expected.size();
  expected[axis] = Builder(op->getContext()).getI64IntegerAttr(1);
  if (expected != dimsOf(result))
    return op->emitOpError() << result << " is not " << input << " with axis " << axis << " reduced to 1";
  if (valid != 0 && valid != expected.size())
    return op->emitOpError() << "has " << valid << " valid extents for " << expected.size() << " axes";
  return verifyTile(op, result);
}

LogicalResult ReduceOp::verify() {
  if (getInput().getType().getElementType() != getResult().getType().getElementType())
    return emitOpError() << "changes the element from " << getInput().getType().getElementType() << " to "
                         << getResult().getType().getElementType();
  return verifyReduced(*this, getInput().getType(), getAxis(), getResult().getType(), getValid().size());
}

LogicalResult ArgReduceOp::verify() {
  if (!getResult().getType().getElementType().isSignlessInteger(32))
    return emitOpError() << "gives i32 positions, not " << getResult().getType().getElementType();
  return verifyReduced(*this, getInput().getType(), getAxis(), getResult().getType(), getValid().size());
}

LogicalResult ScanOp::verify() {
  if (static_cast<int64_t>(getAxis()) >= getInput().getType().getRank())
    return emitOpError() << "axis " << getAxis() << " of a tile of rank " << getInput().getType().getRank();
  if (!getValid().empty() && static_cast<int64_t>(getValid().size()) != getInput().getType().getRank())
    return emitOpError() << "has " << getValid().size() << " valid extents for " << getInput().getType().getRank()
                         << " axes";
  return verifyTile(*this, getResult().getType());
}

LogicalResult LaneOp::verify() {
  int64_t rank = (*this)->getParentOfType<MapOp>().getResult().getType().getRank();
  if (static_cast<int64_t>(getAxis()) >= rank)
    return emitOpError() << "axis " << getAxis() << " of a map of rank " << rank;
  return success();
}

LogicalResult MapOp::verify() {
  RankedTensorType result = getResult().getType();
  Block &body = getBody().front();
  if (body.getNumArguments() != getInputs().size())
    return emitOpError() << "has " << getInputs().size() << " inputs but " << body.getNumArguments()
                         << " body arguments";
  SmallVector<Attribute> dims = dimsOf(result);
  for (auto [input, argument] : llvm::zip(getInputs(), body.getArguments())) {
    auto tile = llvm::dyn_cast<RankedTensorType>(input.getType());
    Type element = tile ? tile.getElementType() : input.getType();
    if (argument.getType() != element)
      return emitOpError() << "body argument " << argument.getType() << " for input " << input.getType();
    if (!tile)
      continue;
    SmallVector<Attribute> small = dimsOf(tile);
    if (small.size() > dims.size())
      return emitOpError() << "input " << tile << " has a higher rank than " << result;
    for (size_t axis = 0; axis < small.size(); ++axis)
      if (Attribute big = dims[dims.size() - small.size() + axis]; !isOne(small[axis]) && small[axis] != big)
        return emitOpError() << "input " << tile << " does not stretch to " << result;
  }
  auto yield = llvm::dyn_cast<YieldOp>(body.getTerminator());
  if (!yield || yield.getValue().getType() != result.getElementType())
    return emitOpError() << "body must yield " << result.getElementType();
  if (!getValid().empty() && getValid().size() != dims.size())
    return emitOpError() << "has " << getValid().size() << " valid extents for " << dims.size() << " axes";
  return verifyTile(*this, result);
}
