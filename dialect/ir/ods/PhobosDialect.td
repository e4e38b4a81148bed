// The phobos dialect: tiles of a kernel, its tensors in memory, and the few
// operations on them that arith, math and scf do not have.
#ifndef PHOBOS_DIALECT_TD
#define PHOBOS_DIALECT_TD

include "mlir/IR/OpBase.td"

def Phobos_Dialect : Dialect {
  let name = "phobos";
  let cppNamespace = "::phobos";
  let summary = "Tile-based kernels";
  let description = [{
    A kernel works on *tiles* (builtin ranked tensors, values) that it loads from
    and stores to *tensors* (`!phobos.tensor`, memory). Before specialisation the
    dims of tiles may be parameters, named in a `#phobos.dims` encoding.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif
