// phobos-fuse gathers elementwise operations into phobos.map.
// RUN: phobos-opt %s --pass-pipeline='builtin.module(phobos.kernel(phobos-fuse))' --split-input-file | FileCheck %s

// A chain becomes one map; a splat is its scalar.
// CHECK-LABEL: @chain
phobos.kernel @chain(%A: !phobos.tensor<[N], f32>, %s: f32) {
  %i = phobos.program_id 0
  // CHECK: %[[X:.*]] = phobos.load
  %x = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  %c = phobos.splat %s : tensor<64xf32>
  %a = arith.mulf %x, %x : tensor<64xf32>
  %b = arith.addf %a, %c : tensor<64xf32>
  // CHECK: %[[M:.*]] = phobos.map(%[[X]], %{{.*}}) : (tensor<64xf32>, f32) -> tensor<64xf32> {
  // CHECK-NEXT: ^bb0(%[[E:.*]]: f32, %[[S:.*]]: f32):
  // CHECK-NEXT:   %[[Q:.*]] = arith.mulf %[[E]], %[[E]] : f32
  // CHECK-NEXT:   %[[R:.*]] = arith.addf %[[Q]], %[[S]] : f32
  // CHECK-NEXT:   phobos.yield %[[R]] : f32
  // CHECK-NEXT: }
  // CHECK-NEXT: phobos.store %[[M]]
  phobos.store %b, %A[%i] : tensor<64xf32>, !phobos.tensor<[N], f32>
  phobos.return
}

// -----

// Types may change on the way; constants are copied into the body.
// CHECK-LABEL: @mask
phobos.kernel @mask(%A: !phobos.tensor<[N], f32>) {
  %i = phobos.program_id 0
  %zero = arith.constant 0.0 : f32
  %x = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  %z = phobos.splat %zero : tensor<64xf32>
  %c = arith.cmpf ogt, %x, %z : tensor<64xf32>
  %b = arith.select %c, %x, %z : tensor<64xi1>, tensor<64xf32>
  // CHECK: phobos.map(%{{.*}}) : (tensor<64xf32>) -> tensor<64xf32> {
  // CHECK-NEXT: ^bb0(%[[E:.*]]: f32):
  // CHECK:      %[[Z:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK-NEXT: %[[C:.*]] = arith.cmpf ogt, %[[E]], %[[Z]] : f32
  // CHECK-NEXT: %[[R:.*]] = arith.select %[[C]], %[[E]], %[[Z]] : f32
  // CHECK-NEXT: phobos.yield %[[R]] : f32
  phobos.store %b, %A[%i] : tensor<64xf32>, !phobos.tensor<[N], f32>
  phobos.return
}

// -----

// Stretching and positions are free: they are inside every map that needs them.
// CHECK-LABEL: @stretch
phobos.kernel @stretch(%A: !phobos.tensor<[M, N], i32>) {
  %i = phobos.program_id 0
  %row = phobos.load %A[%i, %i] : !phobos.tensor<[M, N], i32> -> tensor<1x16xi32>
  %b = phobos.broadcast %row : tensor<1x16xi32> -> tensor<8x16xi32>
  %n = phobos.iota 0 : tensor<8x1xi32>
  %k = phobos.iota 1 : tensor<8x1xi32>
  %nb = phobos.broadcast %n : tensor<8x1xi32> -> tensor<8x16xi32>
  %kb = phobos.broadcast %k : tensor<8x1xi32> -> tensor<8x16xi32>
  %s = arith.addi %b, %nb : tensor<8x16xi32>
  %t = arith.addi %s, %kb : tensor<8x16xi32>
  // CHECK: phobos.map(%{{.*}}) : (tensor<1x16xi32>) -> tensor<8x16xi32> {
  // CHECK-NEXT: ^bb0(%[[E:.*]]: i32):
  // CHECK-DAG:  %[[L:.*]] = phobos.lane 0 : i32
  // An axis of extent 1 has position 0 wherever it is stretched to.
  // CHECK-DAG:  %[[ZERO:.*]] = arith.constant 0 : i32
  // CHECK-DAG:  %[[S:.*]] = arith.addi %[[E]], %[[L]] : i32
  // CHECK:      %[[T:.*]] = arith.addi %[[S]], %[[ZERO]] : i32
  // CHECK-NEXT: phobos.yield %[[T]] : i32
  phobos.store %t, %A[%i, %i] : tensor<8x16xi32>, !phobos.tensor<[M, N], i32>
  phobos.return
}

// -----

// A tile with several readers in one map is computed once there.
// CHECK-LABEL: @diamond
phobos.kernel @diamond(%A: !phobos.tensor<[N], f32>) {
  %i = phobos.program_id 0
  %x = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  // CHECK: phobos.map
  // CHECK: %[[E:.*]] = math.exp
  // CHECK-NEXT: %[[M:.*]] = arith.mulf %[[E]], %{{.*}} : f32
  // CHECK-NEXT: arith.addf %[[M]], %[[E]] : f32
  // CHECK-NOT: phobos.map
  %e = math.exp %x : tensor<64xf32>
  %m = arith.mulf %e, %x : tensor<64xf32>
  %a = arith.addf %m, %e : tensor<64xf32>
  phobos.store %a, %A[%i] : tensor<64xf32>, !phobos.tensor<[N], f32>
  phobos.return
}

// -----

// With readers apart it is a map of its own.
// CHECK-LABEL: @shared
phobos.kernel @shared(%A: !phobos.tensor<[N], f32>) {
  %i = phobos.program_id 0
  %x = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  // CHECK: %[[E:.*]] = phobos.map
  // CHECK: math.exp
  %e = math.exp %x : tensor<64xf32>
  // CHECK: phobos.reduce <sum> %[[E]] axis 0
  %s = phobos.reduce <sum> %e axis 0 : tensor<64xf32> -> tensor<1xf32>
  // CHECK: phobos.map(%[[E]], %{{.*}}) : (tensor<64xf32>, tensor<1xf32>) -> tensor<64xf32>
  %b = phobos.broadcast %s : tensor<1xf32> -> tensor<64xf32>
  %d = arith.divf %e, %b : tensor<64xf32>
  phobos.store %d, %A[%i] : tensor<64xf32>, !phobos.tensor<[N], f32>
  phobos.return
}

// -----

// Nothing is moved into or out of a loop: its carried tile is a tile.
// CHECK-LABEL: @loop
phobos.kernel @loop(%A: !phobos.tensor<[N], f32>) {
  %i = phobos.program_id 0
  %one = arith.constant 1 : index
  %x = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  // CHECK: %[[D:.*]] = phobos.map
  %d = arith.addf %x, %x : tensor<64xf32>
  // CHECK: scf.for {{.*}} iter_args(%[[ACC:.*]] = %[[D]])
  %r = scf.for %k = %one to %i step %one iter_args(%acc = %d) -> (tensor<64xf32>) {
    // CHECK: %[[M:.*]] = phobos.map(%[[ACC]], %[[D]])
    %s = arith.mulf %acc, %d : tensor<64xf32>
    // CHECK: scf.yield %[[M]]
    scf.yield %s : tensor<64xf32>
  }
  phobos.store %r, %A[%i] : tensor<64xf32>, !phobos.tensor<[N], f32>
  phobos.return
}

// -----

// What is quantised is a tile of its own, made by one map; the blocks are no map's element.
// CHECK-LABEL: @quantize
phobos.kernel @quantize(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[N], !phobos.block<q8_1>>, %s: f32) {
  %i = phobos.program_id 0
  %x = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  %t = phobos.splat %s : tensor<64xf32>
  // CHECK: %[[M:.*]] = phobos.map(%{{.*}}, %{{.*}}) : (tensor<64xf32>, f32) -> tensor<64xf32> {
  // CHECK: arith.mulf
  // CHECK: math.exp
  %y = arith.mulf %x, %t : tensor<64xf32>
  %z = math.exp %y : tensor<64xf32>
  // CHECK: %[[Q:.*]] = phobos.quantize %[[M]] : tensor<64xf32> -> tensor<64x!phobos.block<q8_1>>
  %q = phobos.quantize %z : tensor<64xf32> -> tensor<64x!phobos.block<q8_1>>
  phobos.store %q, %B[%i] : tensor<64x!phobos.block<q8_1>>, !phobos.tensor<[N], !phobos.block<q8_1>>
  // CHECK: %[[D:.*]] = phobos.decode %[[Q]]
  // CHECK: phobos.map(%[[D]])
  %d = phobos.decode %q : tensor<64x!phobos.block<q8_1>> -> tensor<64xf32>
  %e = arith.addf %d, %d : tensor<64xf32>
  phobos.store %e, %A[%i] : tensor<64xf32>, !phobos.tensor<[N], f32>
  phobos.return
}

// -----

// A constant tile, as canonicalization makes of `a - a`, is a splat again.
// CHECK-LABEL: @folded
phobos.kernel @folded(%A: !phobos.tensor<[N], i32>) {
  %i = phobos.program_id 0
  // CHECK-NOT: dense
  %x = phobos.load %A[%i] : !phobos.tensor<[N], i32> -> tensor<64xi32>
  %c = arith.constant dense<7> : tensor<64xi32>
  // CHECK: phobos.map(%{{.*}}) : (tensor<64xi32>) -> tensor<64xi32> {
  // CHECK: %[[C:.*]] = arith.constant 7 : i32
  // CHECK: arith.addi %{{.*}}, %[[C]] : i32
  %s = arith.addi %x, %c : tensor<64xi32>
  phobos.store %s, %A[%i] : tensor<64xi32>, !phobos.tensor<[N], i32>
  // CHECK: %[[D:.*]] = phobos.splat %{{.*}} : tensor<64xi32>
  // CHECK: phobos.store %[[D]]
  %d = arith.constant dense<9> : tensor<64xi32>
  phobos.store %d, %A[%i] : tensor<64xi32>, !phobos.tensor<[N], i32>
  phobos.return
}
