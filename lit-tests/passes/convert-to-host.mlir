// convert-phobos-to-host: one program as loops over vectors.
// RUN: split-file %s %t
// RUN: phobos-opt %t/ok.mlir --convert-phobos-to-host=level=v3 -canonicalize -cse --split-input-file | FileCheck %t/ok.mlir --check-prefixes=CHECK,V3
// RUN: phobos-opt %t/ok.mlir --convert-phobos-to-host=level=v2 -canonicalize -cse --split-input-file | FileCheck %t/ok.mlir --check-prefixes=CHECK,V2
// RUN: phobos-opt %t/ok.mlir --convert-phobos-to-host=level=v4 -canonicalize -cse --split-input-file | FileCheck %t/ok.mlir --check-prefixes=CHECK,V4
// RUN: phobos-opt %t/refused.mlir --convert-phobos-to-host --split-input-file --verify-diagnostics
// RUN: not phobos-opt %t/refused.mlir --convert-phobos-to-host=level=v5 2>&1 | FileCheck %s --check-prefix=LEVEL
// LEVEL: error: level: `v5` is not one of v2, v3, v4, v4-vnni

//--- ok.mlir

// The ABI: slots of 8 bytes for tensors, scalars, dims; program ids; scratch.
// CHECK-LABEL: llvm.func @phobos_entry
// CHECK-SAME: (%[[ARGS:.*]]: !llvm.ptr, %[[PID:.*]]: !llvm.ptr, %[[SCRATCH:.*]]: !llvm.ptr {llvm.noalias})
// CHECK-SAME: phobos.scratch_bytes = 0 : i64
// CHECK-DAG: %[[A:.*]] = llvm.load %[[ARGS]] {alignment = 8 : i64} : !llvm.ptr -> !llvm.ptr
// CHECK-DAG: %[[SLOT1:.*]] = llvm.getelementptr %[[ARGS]][8]
// CHECK-DAG: %[[B:.*]] = llvm.load %[[SLOT1]] {alignment = 8 : i64} : !llvm.ptr -> !llvm.ptr
// CHECK-DAG: %[[SLOT2:.*]] = llvm.getelementptr %[[ARGS]][16]
// CHECK-DAG: %[[S:.*]] = llvm.load %[[SLOT2]] {{.*}} : !llvm.ptr -> f32
// CHECK-DAG: %[[SLOT3:.*]] = llvm.getelementptr %[[ARGS]][24]
// CHECK-DAG: %[[N:.*]] = llvm.load %[[SLOT3]] {alignment = 8 : i64} : !llvm.ptr -> i64
// CHECK-DAG: llvm.load %[[PID]] {alignment = 8 : i64} : !llvm.ptr -> i64
// Whole vectors up to the extent, then a masked tail. Nothing is read beyond it.
// V2: scf.for {{.*}} step %c4_i64
// V3: scf.for {{.*}} step %c8_i64
// V4: scf.for {{.*}} step %c16_i64
// V2: %[[X:.*]] = llvm.load {{.*}} -> vector<4xf32>
// V3: %[[X:.*]] = llvm.load {{.*}} -> vector<8xf32>
// V4: %[[X:.*]] = llvm.load {{.*}} -> vector<16xf32>
// CHECK: %[[V:.*]] = vector.broadcast %[[S]] : f32 to vector
// CHECK: %[[SUM:.*]] = arith.addf %[[X]], %[[V]]
// CHECK: llvm.store %[[SUM]]
// CHECK: scf.if
// CHECK: llvm.intr.masked.load
// CHECK: llvm.intr.masked.store
// CHECK: llvm.return
phobos.kernel @map(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[N], f32>, %s: f32) {
  %i = phobos.program_id 0
  %n = phobos.dim "N"
  %x = phobos.load %A[%i] valid [%n] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  %m = phobos.map(%x, %s) valid [%n] : (tensor<64xf32>, f32) -> tensor<64xf32> {
  ^bb0(%p: f32, %q: f32):
    %z = arith.addf %p, %q : f32
    phobos.yield %z : f32
  }
  phobos.store %m, %B[%i] valid [%n] : tensor<64xf32>, !phobos.tensor<[N], f32>
  phobos.return
}

// -----

// A loop carries its tile in scratch. A tile made of a view of itself is copied before the
// buffer is overwritten: the buffer and the copy take 64 bytes and 64 of room behind them each.
// CHECK-LABEL: llvm.func @phobos_entry
// CHECK-SAME: phobos.scratch_bytes = 256 : i64
phobos.kernel @carried(%A: !phobos.tensor<[4, 4], f32>, %C: !phobos.tensor<[4, 4], f32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %a = phobos.load %A[%zero, %zero] : !phobos.tensor<[4, 4], f32> -> tensor<4x4xf32>
  // CHECK: scf.for
  // CHECK: scf.for
  %r = scf.for %i = %zero to %three step %one iter_args(%t = %a) -> (tensor<4x4xf32>) {
    %u = phobos.transpose %t : tensor<4x4xf32> -> tensor<4x4xf32>
    scf.yield %u : tensor<4x4xf32>
  }
  phobos.store %r, %C[%zero, %zero] : tensor<4x4xf32>, !phobos.tensor<[4, 4], f32>
  phobos.return
}

// -----

// A tile read from a tensor that the kernel writes is copied when it is read.
// CHECK-LABEL: llvm.func @phobos_entry
// CHECK-SAME: phobos.scratch_bytes = 320 : i64
phobos.kernel @copy(%A: !phobos.tensor<[64], f32>) {
  %zero = arith.constant 0 : index
  %a = phobos.load %A[%zero] : !phobos.tensor<[64], f32> -> tensor<64xf32>
  phobos.store %a, %A[%zero] : tensor<64xf32>, !phobos.tensor<[64], f32>
  phobos.return
}

// -----

// Points are tested against the tensor: 0 outside, nothing written outside.
// CHECK-LABEL: llvm.func @phobos_entry
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult
// CHECK: scf.if %[[INSIDE]] -> (f32)
// CHECK: scf.if %{{.*}} {
// CHECK: llvm.store %{{.*}} : f32
phobos.kernel @points(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[M], f32>) {
  %i = phobos.program_id 0
  %x = phobos.load_scalar %A[%i] : !phobos.tensor<[N], f32> -> f32
  phobos.store_scalar %x, %B[%i] : f32, !phobos.tensor<[M], f32>
  phobos.return
}

// -----

// Slices of a tile stay inside it, also for positions known only at run time.
// CHECK-LABEL: llvm.func @phobos_entry
// CHECK: %[[AT:.*]] = arith.extsi %{{.*}} : i32 to i64
// CHECK: %[[NEGATIVE:.*]] = arith.cmpi slt, %[[AT]], %c0_i64 : i64
// CHECK: arith.select %[[NEGATIVE]], %c0_i64, %{{.*}} : i64
phobos.kernel @insert(%A: !phobos.tensor<[16], f32>, %s: f32, %k: i32) {
  %zero = arith.constant 0 : index
  %at = arith.index_cast %k : i32 to index
  %t = phobos.splat %s : tensor<16xf32>
  %v = phobos.load %A[%zero] : !phobos.tensor<[16], f32> -> tensor<4xf32>
  %w = phobos.insert %v into %t[%at] : tensor<4xf32> into tensor<16xf32>
  phobos.store %w, %A[%zero] : tensor<16xf32>, !phobos.tensor<[16], f32>
  phobos.return
}

// -----

// What --explain says is an attribute of the function.
// CHECK-LABEL: llvm.func @phobos_entry
// V3-SAME: phobos.remarks = ["{{.*}}: dot: {{.*}}"]
phobos.kernel @dot(%A: !phobos.tensor<[8, 8], f32>, %s: f32) {
  %zero = arith.constant 0 : index
  %a = phobos.load %A[%zero, %zero] : !phobos.tensor<[8, 8], f32> -> tensor<8x8xf32>
  %c = phobos.splat %s : tensor<8x8xf32>
  %d = phobos.dot %a, %a, %c : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  phobos.store %d, %A[%zero, %zero] : tensor<8x8xf32>, !phobos.tensor<[8, 8], f32>
  phobos.return
}

//--- refused.mlir
phobos.kernel @unfused(%A: !phobos.tensor<[64], f32>) {
  %zero = arith.constant 0 : index
  %a = phobos.load %A[%zero] : !phobos.tensor<[64], f32> -> tensor<64xf32>
  // expected-error@+1 {{arith.addf on a tile: run phobos-fuse first}}
  %b = arith.addf %a, %a : tensor<64xf32>
  phobos.store %b, %A[%zero] : tensor<64xf32>, !phobos.tensor<[64], f32>
  phobos.return
}

// -----

phobos.kernel @symbolic(%s: f32) {
  // expected-error@+1 {{a tile is not static here: run phobos-specialize first}}
  %a = phobos.splat %s : tensor<?xf32, #phobos.dims<["T"]>>
  phobos.return
}

// -----

phobos.kernel @format(%A: !phobos.tensor<[64], !phobos.block<q9_9>>) {
  %zero = arith.constant 0 : index
  // expected-error@+1 {{block format `q9_9` is not known to this compiler}}
  %a = phobos.load %A[%zero] : !phobos.tensor<[64], !phobos.block<q9_9>> -> tensor<64x!phobos.block<q9_9>>
  phobos.return
}

// -----

phobos.kernel @unknown(%c: i1) {
  // expected-error@+1 {{cf.assert is not available on the host yet}}
  cf.assert %c, "no"
  phobos.return
}

// -----

phobos.kernel @first(%A: !phobos.tensor<[N], f32>) {
  phobos.return
}
// expected-error@+1 {{a second kernel: its function would be `phobos_entry` too, so a module has one kernel here}}
phobos.kernel @second(%A: !phobos.tensor<[N], f32>) {
  phobos.return
}
