// phobos-simplify: scalar code and control flow are folded, arith and math on tiles are not.
// RUN: phobos-opt %s --pass-pipeline='builtin.module(phobos.kernel(phobos-simplify))' --split-input-file | FileCheck %s
// What the pass is for: the store is cut by the load that no element depends on.
// RUN: phobos-opt %s --pass-pipeline='builtin.module(phobos.kernel(phobos-simplify,cse,phobos-fuse,phobos-mask,phobos-simplify,cse))' --split-input-file | FileCheck %s --check-prefix=MASK

// Index arithmetic becomes constants, which phobos-mask proves slices whole by.
// CHECK-LABEL: @scalars
// MASK-LABEL: @scalars
phobos.kernel @scalars(%A: !phobos.tensor<[64], f32>) {
  %two = arith.constant 2 : index
  %sixteen = arith.constant 16 : index
  %at = arith.muli %two, %sixteen : index
  // CHECK: %[[AT:.*]] = arith.constant 32 : index
  // CHECK: phobos.load %{{.*}}[%[[AT]]]
  // MASK: phobos.load %{{[a-z0-9]+\[%[a-z0-9]+\]}} :
  %a = phobos.load %A[%at] : !phobos.tensor<[64], f32> -> tensor<32xf32>
  phobos.store %a, %A[%at] : tensor<32xf32>, !phobos.tensor<[64], f32>
  phobos.return
}

// -----

// Tiles stay as they are.
// CHECK-LABEL: @tiles
// MASK-LABEL: @tiles
phobos.kernel @tiles(%A: !phobos.tensor<[N], i32>, %B: !phobos.tensor<[8], i32>) {
  %zero = arith.constant 0 : index
  // CHECK: %[[A:.*]] = phobos.load
  // MASK: %[[A:.*]] = phobos.load %{{.*}} valid[%[[N:[a-z0-9]+]]]
  %a = phobos.load %A[%zero] : !phobos.tensor<[N], i32> -> tensor<8xi32>
  // CHECK: %[[D:.*]] = arith.subi %[[A]], %[[A]] : tensor<8xi32>
  %d = arith.subi %a, %a : tensor<8xi32>
  // CHECK: %[[C:.*]] = arith.cmpi eq, %[[D]], %[[A]] : tensor<8xi32>
  %c = arith.cmpi eq, %d, %a : tensor<8xi32>
  // CHECK: arith.select %[[C]], %[[D]], %[[D]] : tensor<8xi1>, tensor<8xi32>
  %s = arith.select %c, %d, %d : tensor<8xi1>, tensor<8xi32>
  // In a map they are on scalars, and fold: the map still reads the tile.
  // MASK: phobos.map(%[[A]]) valid[%[[N]]] : (tensor<8xi32>) -> tensor<8xi32> {
  // MASK: %[[ZERO:.*]] = arith.constant 0 : i32
  // MASK: phobos.yield %[[ZERO]]
  // MASK: phobos.store %{{.*}} valid[%[[N]]]
  phobos.store %s, %B[%zero] : tensor<8xi32>, !phobos.tensor<[8], i32>
  phobos.return
}

// -----

// A branch between tiles stays one, before and after phobos-mask; of scalars it becomes a select.
// CHECK-LABEL: @branch
// MASK-LABEL: @branch
phobos.kernel @branch(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[8], f32>, %c: i1, %x: f32, %y: f32) {
  %zero = arith.constant 0 : index
  %a = phobos.load %A[%zero] : !phobos.tensor<[N], f32> -> tensor<8xf32>
  %f = phobos.splat %x : tensor<8xf32>
  // CHECK: scf.if %{{.*}} -> (tensor<8xf32>)
  // MASK: %[[R:.*]]:2 = scf.if %{{.*}} -> (tensor<8xf32>, index)
  // MASK: phobos.store %[[R]]#0, %{{.*}} valid[%[[R]]#1]
  %r = scf.if %c -> (tensor<8xf32>) {
    scf.yield %a : tensor<8xf32>
  } else {
    scf.yield %f : tensor<8xf32>
  }
  phobos.store %r, %B[%zero] : tensor<8xf32>, !phobos.tensor<[8], f32>
  // CHECK: arith.select %{{.*}} : f32
  %s = scf.if %c -> (f32) {
    scf.yield %x : f32
  } else {
    scf.yield %y : f32
  }
  phobos.store_scalar %s, %B[%zero] : f32, !phobos.tensor<[8], f32>
  phobos.return
}

// -----

// A way that is known and a loop of one iteration go, with the tiles in them as they were.
// CHECK-LABEL: @known
phobos.kernel @known(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[8], f32>) {
  %zero = arith.constant 0 : index
  %eight = arith.constant 8 : index
  %c = arith.cmpi slt, %zero, %eight : index
  %a = phobos.load %A[%zero] : !phobos.tensor<[N], f32> -> tensor<8xf32>
  // CHECK-NOT: scf
  // CHECK: arith.addf {{.*}} : tensor<8xf32>
  // CHECK-NOT: scf
  // CHECK: arith.mulf {{.*}} : tensor<8xf32>
  // CHECK-NOT: scf
  %r = scf.if %c -> (tensor<8xf32>) {
    %d = arith.addf %a, %a : tensor<8xf32>
    scf.yield %d : tensor<8xf32>
  } else {
    scf.yield %a : tensor<8xf32>
  }
  %s = scf.for %i = %zero to %eight step %eight iter_args(%t = %r) -> (tensor<8xf32>) {
    %u = arith.mulf %t, %t : tensor<8xf32>
    scf.yield %u : tensor<8xf32>
  }
  phobos.store %s, %B[%zero] : tensor<8xf32>, !phobos.tensor<[8], f32>
  phobos.return
}
