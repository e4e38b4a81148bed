// convert-phobos-to-host: phobos.quantize, a block of 32 elements at a time.
// RUN: split-file %s %t
// RUN: phobos-opt %t/ok.mlir --convert-phobos-to-host=level=v3 -canonicalize -cse --split-input-file | FileCheck %t/ok.mlir --check-prefixes=CHECK,V3
// RUN: phobos-opt %t/ok.mlir --convert-phobos-to-host=level=v2 -canonicalize -cse --split-input-file | FileCheck %t/ok.mlir --check-prefixes=CHECK,V2
// RUN: phobos-opt %t/ok.mlir --convert-phobos-to-host=level=v4 -canonicalize -cse --split-input-file | FileCheck %t/ok.mlir --check-prefixes=CHECK,V4
// RUN: phobos-opt %t/refused.mlir --convert-phobos-to-host --split-input-file --verify-diagnostics

//--- ok.mlir

// Whole blocks that a store alone reads go straight to the tensor: no scratch.
// CHECK-LABEL: llvm.func @phobos_entry
// CHECK-SAME: phobos.scratch_bytes = 0 : i64
// CHECK-DAG: %[[TOP:.*]] = arith.constant 1.270000e+02 : f32
// CHECK-DAG: %[[SMALLEST:.*]] = arith.constant 7.88860905E-31 : f32
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: scf.for
// The largest magnitude, by its bits: NaN is above infinity.
// V2-COUNT-7: arith.maxsi {{.*}} : vector<4xi32>
// V3-COUNT-3: arith.maxsi {{.*}} : vector<8xi32>
// V4: arith.maxsi {{.*}} : vector<16xi32>
// CHECK: %[[LARGEST:.*]] = arith.bitcast %{{.*}} : i32 to f32
// A block too small for a scale is zeros.
// CHECK: %[[TINY:.*]] = arith.cmpf olt, %[[LARGEST]], %[[SMALLEST]] : f32
// CHECK: %[[QUOTIENT:.*]] = arith.divf %[[LARGEST]], %[[TOP]] : f32
// CHECK: %[[SCALE:.*]] = arith.select %[[TINY]], %[[ZERO]], %[[QUOTIENT]] : f32
// CHECK: %[[INVERSE:.*]] = arith.divf %[[TOP]], %[[LARGEST]] : f32
// CHECK: arith.select %[[TINY]], %[[ZERO]], %[[INVERSE]] : f32
// Ties to even, within the codes that there are.
// CHECK: arith.cmpf ogt
// CHECK: arith.cmpf olt
// CHECK: llvm.intr.rint
// CHECK: arith.fptosi
// The header: the scale, and the sums of the codes in its unit.
// CHECK: llvm.store %[[SCALE]], %[[BLOCK:.*]] {alignment = 4 : i64} : f32
// CHECK: %[[SUM:.*]] = arith.mulf %{{.*}}, %[[SCALE]] : f32
// CHECK: %[[AT:.*]] = llvm.getelementptr %[[BLOCK]][4]
// CHECK: llvm.store %[[SUM]], %[[AT]]
// CHECK: llvm.getelementptr %[[BLOCK]][8]
// CHECK: llvm.getelementptr %[[BLOCK]][12]
// The codes, a byte each.
// V2: arith.trunci {{.*}} : vector<4xi32> to vector<4xi8>
// V3: arith.trunci {{.*}} : vector<8xi32> to vector<8xi8>
// V4: arith.trunci {{.*}} : vector<16xi32> to vector<16xi8>
// CHECK: llvm.getelementptr %[[BLOCK]][16]
// CHECK-NOT: vector.shuffle {{.*}} [0, 2, 1, 3
// CHECK: llvm.return
phobos.kernel @stored(%X: !phobos.tensor<[64], f32>, %Q: !phobos.tensor<[64], !phobos.block<q8_1>>) {
  %zero = arith.constant 0 : index
  %x = phobos.load %X[%zero] : !phobos.tensor<[64], f32> -> tensor<64xf32>
  %q = phobos.quantize %x : tensor<64xf32> -> tensor<64x!phobos.block<q8_1>>
  phobos.store %q, %Q[%zero] : tensor<64x!phobos.block<q8_1>>, !phobos.tensor<[64], !phobos.block<q8_1>>
  phobos.return
}

// -----

// Where the tile may end inside a block, it is copied over zeros first: 64 elements, and 64 bytes
// behind them.
// CHECK-LABEL: llvm.func @phobos_entry
// CHECK-SAME: phobos.scratch_bytes = 320 : i64
// CHECK: scf.for
// CHECK: llvm.store %cst{{.*}} : vector<{{.*}}xf32>
// CHECK: llvm.intr.masked.load
// CHECK: llvm.intr.masked.store
// CHECK: llvm.intr.rint
// CHECK: llvm.return
phobos.kernel @cut(%X: !phobos.tensor<[M], f32>, %Q: !phobos.tensor<[N], !phobos.block<q8_1>>) {
  %zero = arith.constant 0 : index
  %m = phobos.dim "M"
  %n = phobos.dim "N"
  %both = arith.minsi %m, %n : index
  %x = phobos.load %X[%zero] valid [%m] : !phobos.tensor<[M], f32> -> tensor<64xf32>
  %q = phobos.quantize %x : tensor<64xf32> -> tensor<64x!phobos.block<q8_1>>
  phobos.store %q, %Q[%zero] valid [%both] : tensor<64x!phobos.block<q8_1>>, !phobos.tensor<[N], !phobos.block<q8_1>>
  phobos.return
}

// -----

// A dim that blocks lie along is whole blocks at every launch: nothing is copied, and there is no
// tail.
// CHECK-LABEL: llvm.func @phobos_entry
// CHECK-SAME: phobos.scratch_bytes = 0 : i64
// CHECK-NOT: masked
// CHECK: llvm.intr.rint
// CHECK-NOT: masked
// CHECK: llvm.return
phobos.kernel @ragged(%X: !phobos.tensor<[N], f32>, %Q: !phobos.tensor<[N], !phobos.block<q8_1>>) {
  %zero = arith.constant 0 : index
  %n = phobos.dim "N"
  %x = phobos.load %X[%zero] valid [%n] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  %q = phobos.quantize %x : tensor<64xf32> -> tensor<64x!phobos.block<q8_1>>
  phobos.store %q, %Q[%zero] valid [%n] : tensor<64x!phobos.block<q8_1>>, !phobos.tensor<[N], !phobos.block<q8_1>>
  phobos.return
}

// -----

// What else reads blocks finds them in scratch: two of 80 bytes. Codes of 16 bits lie in the
// order in which products take them, the middle two of each four exchanged.
// CHECK-LABEL: llvm.func @phobos_entry
// CHECK-SAME: %[[SCRATCH:[a-z0-9]+]]: !llvm.ptr {llvm.noalias}
// CHECK-SAME: phobos.scratch_bytes = 256 : i64
// CHECK-DAG: arith.constant 3.276700e+04 : f32
// CHECK: %[[BLOCK:.*]] = llvm.getelementptr %[[SCRATCH]][
// CHECK: llvm.store %{{.*}}, %[[BLOCK]] {alignment = 4 : i64} : f32
// V2: %[[CODES:.*]] = vector.shuffle {{.*}} [0, 2, 1, 3] : vector<4xi32>
// V3: %[[CODES:.*]] = vector.shuffle {{.*}} [0, 2, 1, 3, 4, 6, 5, 7] : vector<8xi32>
// V4: %[[CODES:.*]] = vector.shuffle {{.*}} [0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15] : vector<16xi32>
// CHECK: arith.trunci %[[CODES]] : {{.*}}xi16>
// CHECK: llvm.return
phobos.kernel @decoded(%X: !phobos.tensor<[64], f32>, %Y: !phobos.tensor<[64], f32>) {
  %zero = arith.constant 0 : index
  %x = phobos.load %X[%zero] : !phobos.tensor<[64], f32> -> tensor<64xf32>
  %q = phobos.quantize %x : tensor<64xf32> -> tensor<64x!phobos.block<q16_1>>
  %y = phobos.decode %q : tensor<64x!phobos.block<q16_1>> -> tensor<64xf32>
  phobos.store %y, %Y[%zero] : tensor<64xf32>, !phobos.tensor<[64], f32>
  phobos.return
}

// -----

// A dot takes the codes of both sides.
// CHECK-LABEL: llvm.func @phobos_entry
// CHECK-SAME: phobos.remarks = ["{{.*}}dot_t of q8_1 with q4_1 (16 rows interleaved): integer products by {{.*}}"]
// CHECK: llvm.intr.rint
// V3: llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
// V4: llvm.call_intrinsic "llvm.x86.avx512.pmaddubs.w.512"
// CHECK: llvm.return
phobos.kernel @product(%X: !phobos.tensor<[4, 64], f32>, %W: !phobos.tensor<[16, 64], !phobos.block<q4_1>>, %Y: !phobos.tensor<[4, 16], f32>, %s: f32) {
  %zero = arith.constant 0 : index
  %x = phobos.load %X[%zero, %zero] : !phobos.tensor<[4, 64], f32> -> tensor<4x64xf32>
  %w = phobos.load %W[%zero, %zero] : !phobos.tensor<[16, 64], !phobos.block<q4_1>> -> tensor<16x64x!phobos.block<q4_1>>
  %q = phobos.quantize %x : tensor<4x64xf32> -> tensor<4x64x!phobos.block<q8_1>>
  %c = phobos.splat %s : tensor<4x16xf32>
  %d = phobos.dot %q, %w, %c transposed : tensor<4x64x!phobos.block<q8_1>>, tensor<16x64x!phobos.block<q4_1>> -> tensor<4x16xf32>
  phobos.store %d, %Y[%zero, %zero] : tensor<4x16xf32>, !phobos.tensor<[4, 16], f32>
  phobos.return
}

//--- refused.mlir
phobos.kernel @matrices(%X: !phobos.tensor<[2, 2, 32], f32>, %Y: !phobos.tensor<[2, 2, 32], f32>) {
  %zero = arith.constant 0 : index
  %x = phobos.load %X[%zero, %zero, %zero] : !phobos.tensor<[2, 2, 32], f32> -> tensor<2x2x32xf32>
  // expected-error@+1 {{a tile of several matrices of a block format is not available yet}}
  %q = phobos.quantize %x : tensor<2x2x32xf32> -> tensor<2x2x32x!phobos.block<q8_1>>
  %y = phobos.decode %q : tensor<2x2x32x!phobos.block<q8_1>> -> tensor<2x2x32xf32>
  phobos.store %y, %Y[%zero, %zero, %zero] : tensor<2x2x32xf32>, !phobos.tensor<[2, 2, 32], f32>
  phobos.return
}
