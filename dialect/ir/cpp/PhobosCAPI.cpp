// The dialect's C API: what the Rust wrappers cannot reach through MLIR's own.
#include "Phobos.h"
#include "mlir-c/IR.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

extern "C" {
MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Phobos, phobos);
}
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Phobos, phobos, phobos::PhobosDialect)

static SmallVector<Attribute> unwrapAll(intptr_t count, const MlirAttribute *attributes) {
  SmallVector<Attribute> result;
  for (intptr_t i = 0; i < count; ++i)
    result.push_back(unwrap(attributes[i]));
  return result;
}

extern "C" {
MlirAttribute phobosDimsAttrGet(MlirContext context, intptr_t count, const MlirAttribute *dims) {
  return wrap(phobos::DimsAttr::get(unwrap(context), unwrapAll(count, dims)));
}
bool phobosAttributeIsADims(MlirAttribute attribute) { return llvm::isa<phobos::DimsAttr>(unwrap(attribute)); }
intptr_t phobosDimsAttrGetCount(MlirAttribute attribute) {
  return llvm::cast<phobos::DimsAttr>(unwrap(attribute)).getDims().size();
}
MlirAttribute phobosDimsAttrGetDim(MlirAttribute attribute, intptr_t axis) {
  return wrap(llvm::cast<phobos::DimsAttr>(unwrap(attribute)).getDims()[axis]);
}

MlirType phobosTensorTypeGet(intptr_t count, const MlirAttribute *dims, MlirType element) {
  return wrap(phobos::MemoryTensorType::get(unwrap(element).getContext(), unwrapAll(count, dims), unwrap(element)));
}
bool phobosTypeIsATensor(MlirType type) { return llvm::isa<phobos::MemoryTensorType>(unwrap(type)); }
intptr_t phobosTensorTypeGetRank(MlirType type) {
  return llvm::cast<phobos::MemoryTensorType>(unwrap(type)).getDims().size();
}
MlirAttribute phobosTensorTypeGetDim(MlirType type, intptr_t axis) {
  return wrap(llvm::cast<phobos::MemoryTensorType>(unwrap(type)).getDims()[axis]);
}
MlirType phobosTensorTypeGetElementType(MlirType type) {
  return wrap(llvm::cast<phobos::MemoryTensorType>(unwrap(type)).getElementType());
}

MlirType phobosBlockTypeGet(MlirContext context, MlirStringRef format) {
  return wrap(phobos::BlockType::get(unwrap(context), unwrap(format)));
}
bool phobosTypeIsABlock(MlirType type) { return llvm::isa<phobos::BlockType>(unwrap(type)); }
MlirStringRef phobosBlockTypeGetFormat(MlirType type) {
  return wrap(llvm::cast<phobos::BlockType>(unwrap(type)).getFormat());
}

MlirAttribute phobosReduceKindAttrGet(MlirContext context, int32_t kind) {
  return wrap(phobos::ReduceKindAttr::get(unwrap(context), static_cast<phobos::ReduceKind>(kind)));
}
int32_t phobosReduceKindAttrGetValue(MlirAttribute attribute) {
  return static_cast<int32_t>(llvm::cast<phobos::ReduceKindAttr>(unwrap(attribute)).getValue());
}
}

static bool makesTile(Operation *op) {
  return llvm::any_of(op->getResultTypes(), [](Type type) { return llvm::isa<RankedTensorType>(type); });
}

// The canonicalisations of all operations, but for those with one of these names.
static FrozenRewritePatternSet canonicalisations(MLIRContext *context, ArrayRef<StringRef> without) {
  RewritePatternSet patterns(context);
  for (Dialect *dialect : context->getLoadedDialects())
    dialect->getCanonicalizationPatterns(patterns);
  for (RegisteredOperationName name : context->getRegisteredOperations())
    name.getCanonicalizationPatterns(patterns, context);
  SmallVector<std::string> disabled; // a name is a type's, with its namespaces
  for (auto &pattern : patterns.getNativePatterns())
    if (llvm::any_of(without, [&](StringRef name) { return pattern->getDebugName().ends_with(name); }))
      disabled.push_back(pattern->getDebugName().str());
  return FrozenRewritePatternSet(std::move(patterns), disabled);
}

extern "C" {
// What canonicalize does, but for operations of arith and math on tiles, which it leaves alone and makes none of.
void phobosSimplify(MlirOperation root) {
  Region &body = unwrap(root)->getRegion(0);
  MLIRContext *context = unwrap(root)->getContext();
  FrozenRewritePatternSet all = canonicalisations(context, {});
  // A branch between tiles of different validity is no select.
  FrozenRewritePatternSet branching = canonicalisations(context, {"ConvertTrivialIfToSelect", "CombineNestedIfs"});
  GreedyRewriteConfig config;
  config.setStrictness(GreedyRewriteStrictness::ExistingOps).setScope(&body);
  // As often as canonicalize: what one round makes the next one sees.
  bool changed = true;
  for (int round = 0; changed && round < 10; ++round) {
    changed = false;
    for (bool branches : {false, true}) {
      SmallVector<Operation *> ops;
      body.walk([&](Operation *op) {
        bool elementwise = llvm::isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) && makesTile(op);
        if (!elementwise && branches == (op->getNumRegions() && makesTile(op)))
          ops.push_back(op);
      });
      bool here = false;
      (void)applyOpPatternsGreedily(ops, branches ? branching : all, config, &here);
      changed |= here;
    }
  }
}
}
