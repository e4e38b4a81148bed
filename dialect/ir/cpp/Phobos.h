// The phobos dialect's generated classes.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "PhobosDialect.h.inc"
#include "PhobosEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "PhobosAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "PhobosTypes.h.inc"
#define GET_OP_CLASSES
#include "PhobosOps.h.inc"
