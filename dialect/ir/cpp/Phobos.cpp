// The dialect: parsers and printers of its dims, and its registration.
// Compile with clang++ of the same LLVM, never g++: trait ids are keyed by
// __PRETTY_FUNCTION__, and g++'s spelling loses traits without an error.
#include "Phobos.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace phobos;

// `[M, 64, TILE_K]`: each entry a StringAttr (a name) or an i64 IntegerAttr.
static ParseResult parseDims(AsmParser &parser, SmallVector<Attribute> &dims) {
  Builder builder(parser.getContext());
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    int64_t extent;
    OptionalParseResult number = parser.parseOptionalInteger(extent);
    if (number.has_value()) {
      if (failed(*number))
        return failure();
      dims.push_back(builder.getI64IntegerAttr(extent));
      return success();
    }
    std::string name;
    if (parser.parseKeywordOrString(&name))
      return failure();
    dims.push_back(builder.getStringAttr(name));
    return success();
  });
}

static void printDims(AsmPrinter &printer, ArrayRef<Attribute> dims) {
  printer << '[';
  llvm::interleaveComma(dims, printer, [&](Attribute dim) {
    if (auto name = llvm::dyn_cast<StringAttr>(dim))
      printer.printKeywordOrString(name.getValue());
    else
      printer << llvm::cast<IntegerAttr>(dim).getInt();
  });
  printer << ']';
}

static ParseResult parseBareName(AsmParser &parser, std::string &name) { return parser.parseKeywordOrString(&name); }
static void printBareName(AsmPrinter &printer, StringRef name) { printer.printKeywordOrString(name); }

#include "PhobosDialect.cpp.inc"
#include "PhobosEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "PhobosAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "PhobosTypes.cpp.inc"

static LogicalResult verifyDims(function_ref<InFlightDiagnostic()> emit, ArrayRef<Attribute> dims) {
  for (Attribute dim : dims) {
    auto number = llvm::dyn_cast<IntegerAttr>(dim);
    if (!number && !llvm::isa<StringAttr>(dim))
      return emit() << "a dim must be a name or an integer, got " << dim;
    if (number && number.getInt() <= 0)
      return emit() << "a dim must be positive, got " << number.getInt();
  }
  return success();
}

LogicalResult DimsAttr::verify(function_ref<InFlightDiagnostic()> emit, ArrayRef<Attribute> dims) {
  return verifyDims(emit, dims);
}

LogicalResult MemoryTensorType::verify(function_ref<InFlightDiagnostic()> emit, ArrayRef<Attribute> dims, Type element) {
  if (dims.empty())
    return emit() << "a tensor has at least one axis";
  if (!element.isIntOrFloat() && !llvm::isa<BlockType>(element))
    return emit() << "a tensor's element must be a scalar or a block format, got " << element;
  return verifyDims(emit, dims);
}

void PhobosDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "PhobosAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "PhobosTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "PhobosOps.cpp.inc"
      >();
}
