// Every operation in every form of its syntax.
// RUN: phobos-opt %s | phobos-opt | FileCheck %s
// RUN: phobos-opt --mlir-print-op-generic %s | phobos-opt | FileCheck %s
// RUN: phobos-opt --emit-bytecode %s | phobos-opt | FileCheck %s

// CHECK-LABEL: phobos.kernel @memory
// CHECK-SAME: (%[[A:.*]]: !phobos.tensor<[M, N], f32>, %[[S:.*]]: f32) {
phobos.kernel @memory(%A: !phobos.tensor<[M, N], f32>, %s: f32) {
  // CHECK: %[[I:.*]] = phobos.program_id 0
  %i = phobos.program_id 0
  // CHECK: phobos.program_id 2
  %z = phobos.program_id 2
  // CHECK: %[[P:.*]] = phobos.param "TILE"
  %p = phobos.param "TILE"
  // CHECK: %[[D:.*]] = phobos.dim "N"
  %d = phobos.dim "N"
  // CHECK: %[[T:.*]] = phobos.load %[[A]][%[[I]], %[[D]]] : !phobos.tensor<[M, N], f32> -> tensor<8x16xf32>
  %t = phobos.load %A[%i, %d] : !phobos.tensor<[M, N], f32> -> tensor<8x16xf32>
  // CHECK: phobos.load %[[A]][%[[I]], %[[D]]] else %[[S]] : f32 : !phobos.tensor<[M, N], f32> -> tensor<8x16xf32>
  %u = phobos.load %A[%i, %d] else %s : f32 : !phobos.tensor<[M, N], f32> -> tensor<8x16xf32>
  // CHECK: phobos.load %[[A]][%[[I]], %[[D]]] valid[%[[P]], %[[P]]] : !phobos.tensor<[M, N], f32> -> tensor<8x16xf32>
  %v = phobos.load %A[%i, %d] valid [%p, %p] : !phobos.tensor<[M, N], f32> -> tensor<8x16xf32>
  // CHECK: phobos.load %[[A]][%[[I]], %[[D]]] else %[[S]] : f32 valid[%[[P]], %[[P]]] : !phobos.tensor<[M, N], f32> -> tensor<8x16xf32>
  %w = phobos.load %A[%i, %d] else %s : f32 valid [%p, %p] : !phobos.tensor<[M, N], f32> -> tensor<8x16xf32>
  // CHECK: phobos.store %[[T]], %[[A]][%[[I]], %[[D]]] : tensor<8x16xf32>, !phobos.tensor<[M, N], f32>
  phobos.store %t, %A[%i, %d] : tensor<8x16xf32>, !phobos.tensor<[M, N], f32>
  // CHECK: phobos.store %[[T]], %[[A]][%[[I]], %[[D]]] valid[%[[P]], %[[P]]] : tensor<8x16xf32>, !phobos.tensor<[M, N], f32>
  phobos.store %t, %A[%i, %d] valid [%p, %p] : tensor<8x16xf32>, !phobos.tensor<[M, N], f32>
  // CHECK: %[[X:.*]] = phobos.load_scalar %[[A]][%[[I]], %[[D]]] : !phobos.tensor<[M, N], f32> -> f32
  %x = phobos.load_scalar %A[%i, %d] : !phobos.tensor<[M, N], f32> -> f32
  // CHECK: phobos.store_scalar %[[X]], %[[A]][%[[I]], %[[D]]] : f32, !phobos.tensor<[M, N], f32>
  phobos.store_scalar %x, %A[%i, %d] : f32, !phobos.tensor<[M, N], f32>
  // CHECK: phobos.return
  phobos.return
}

// CHECK-LABEL: phobos.kernel @tiles
// CHECK-SAME: (%[[S:.*]]: f32, %[[W:.*]]: !phobos.tensor<[N, 64], !phobos.block<q4_1>>, %[[Y:.*]]: !phobos.tensor<[M, 64], !phobos.block<q8_1>>) {
phobos.kernel @tiles(%s: f32, %W: !phobos.tensor<[N, 64], !phobos.block<q4_1>>, %Y: !phobos.tensor<[M, 64], !phobos.block<q8_1>>) {
  // CHECK: %[[I:.*]] = phobos.program_id 1
  %i = phobos.program_id 1
  // CHECK: phobos.splat %[[S]] : tensor<?x8xf32, #phobos.dims<[T, 8]>>
  %symbolic = phobos.splat %s : tensor<?x8xf32, #phobos.dims<["T", 8]>>
  // CHECK: %[[A:.*]] = phobos.splat %[[S]] : tensor<4x1xf32>
  %a = phobos.splat %s : tensor<4x1xf32>
  // CHECK: %[[D:.*]] = phobos.undef : tensor<4x8xf32>
  %d = phobos.undef : tensor<4x8xf32>
  // CHECK: phobos.iota 1 : tensor<4x8xi32>
  %n = phobos.iota 1 : tensor<4x8xi32>
  // CHECK: phobos.broadcast %[[A]] : tensor<4x1xf32> -> tensor<2x4x8xf32>
  %b = phobos.broadcast %a : tensor<4x1xf32> -> tensor<2x4x8xf32>
  // CHECK: phobos.reshape %[[A]] {points = array<i64: 1>} : tensor<4x1xf32> -> tensor<4xf32>
  %point = phobos.reshape %a {points = array<i64: 1>} : tensor<4x1xf32> -> tensor<4xf32>
  // CHECK: phobos.reshape %[[A]] : tensor<4x1xf32> -> tensor<4xf32>
  %r = phobos.reshape %a : tensor<4x1xf32> -> tensor<4xf32>
  // CHECK: phobos.transpose %[[D]] : tensor<4x8xf32> -> tensor<8x4xf32>
  %t = phobos.transpose %d : tensor<4x8xf32> -> tensor<8x4xf32>
  // CHECK: %[[E:.*]] = phobos.extract %[[D]][%[[I]], %[[I]]] : tensor<4x8xf32> -> tensor<2x8xf32>
  %e = phobos.extract %d[%i, %i] : tensor<4x8xf32> -> tensor<2x8xf32>
  // CHECK: phobos.insert %[[E]] into %[[D]][%[[I]], %[[I]]] : tensor<2x8xf32> into tensor<4x8xf32>
  %f = phobos.insert %e into %d[%i, %i] : tensor<2x8xf32> into tensor<4x8xf32>
  // CHECK: phobos.insert %[[E]] into %[[D]][%[[I]], %[[I]]] valid[%[[I]], %[[I]]] : tensor<2x8xf32> into tensor<4x8xf32>
  %fv = phobos.insert %e into %d[%i, %i] valid [%i, %i] : tensor<2x8xf32> into tensor<4x8xf32>
  // CHECK: %[[Q:.*]] = phobos.load
  %q = phobos.load %W[%i, %i] : !phobos.tensor<[N, 64], !phobos.block<q4_1>> -> tensor<2x64x!phobos.block<q4_1>>
  // CHECK: phobos.decode %[[Q]] : tensor<2x64x!phobos.block<q4_1>> -> tensor<2x64xf32>
  %g = phobos.decode %q : tensor<2x64x!phobos.block<q4_1>> -> tensor<2x64xf32>
  // CHECK: %[[H:.*]] = phobos.quantize %{{.*}} : tensor<2x64xf32> -> tensor<2x64x!phobos.block<q8_1>>
  %h = phobos.quantize %g : tensor<2x64xf32> -> tensor<2x64x!phobos.block<q8_1>>
  // CHECK: phobos.store %[[H]], %[[Y]][%[[I]], %[[I]]] : tensor<2x64x!phobos.block<q8_1>>, !phobos.tensor<[M, 64], !phobos.block<q8_1>>
  phobos.store %h, %Y[%i, %i] : tensor<2x64x!phobos.block<q8_1>>, !phobos.tensor<[M, 64], !phobos.block<q8_1>>
  // CHECK: %[[U:.*]] = phobos.splat %[[S]] : tensor<?x64xf32, #phobos.dims<[T, 64]>>
  %u = phobos.splat %s : tensor<?x64xf32, #phobos.dims<[T, 64]>>
  // CHECK: phobos.quantize %[[U]] : tensor<?x64xf32, #phobos.dims<[T, 64]>> -> tensor<?x64x!phobos.block<q16_1>, #phobos.dims<[T, 64]>>
  %w = phobos.quantize %u : tensor<?x64xf32, #phobos.dims<[T, 64]>> -> tensor<?x64x!phobos.block<q16_1>, #phobos.dims<[T, 64]>>
  // CHECK: %[[C:.*]] = phobos.splat %[[S]] : tensor<2x2xf32>
  %c = phobos.splat %s : tensor<2x2xf32>
  // CHECK: phobos.dot %[[H]], %[[Q]], %[[C]] transposed : tensor<2x64x!phobos.block<q8_1>>, tensor<2x64x!phobos.block<q4_1>> -> tensor<2x2xf32>
  %o = phobos.dot %h, %q, %c transposed : tensor<2x64x!phobos.block<q8_1>>, tensor<2x64x!phobos.block<q4_1>> -> tensor<2x2xf32>
  phobos.return
}

// CHECK-LABEL: phobos.kernel @compute
phobos.kernel @compute(%s: f32, %i: f16) {
  // CHECK: %[[V:.*]] = phobos.program_id 0
  %v = phobos.program_id 0
  // CHECK: %[[A:.*]] = phobos.splat %{{.*}} : tensor<4x8xf32>
  %a = phobos.splat %s : tensor<4x8xf32>
  // CHECK: %[[B:.*]] = phobos.splat %{{.*}} : tensor<8x16xf32>
  %b = phobos.splat %s : tensor<8x16xf32>
  // CHECK: %[[BT:.*]] = phobos.splat %{{.*}} : tensor<16x8xf32>
  %bt = phobos.splat %s : tensor<16x8xf32>
  // CHECK: %[[C:.*]] = phobos.splat %{{.*}} : tensor<4x16xf32>
  %c = phobos.splat %s : tensor<4x16xf32>
  // CHECK: phobos.dot %[[A]], %[[B]], %[[C]] : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  %0 = phobos.dot %a, %b, %c : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  // CHECK: phobos.dot %[[A]], %[[B]], %[[C]] valid[%[[V]], %[[V]], %[[V]]] : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  %1 = phobos.dot %a, %b, %c valid [%v, %v, %v] : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  // CHECK: phobos.dot %[[A]], %[[BT]], %[[C]] transposed : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
  %2 = phobos.dot %a, %bt, %c transposed : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
  // CHECK: phobos.dot %[[A]], %[[BT]], %[[C]] valid[%[[V]], %[[V]], %[[V]]] transposed : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
  %3 = phobos.dot %a, %bt, %c valid [%v, %v, %v] transposed : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
  // CHECK: phobos.reduce <max> %[[A]] axis 1 : tensor<4x8xf32> -> tensor<4x1xf32>
  %4 = phobos.reduce <max> %a axis 1 : tensor<4x8xf32> -> tensor<4x1xf32>
  // CHECK: phobos.reduce <sum> %[[A]] axis 0 valid[%[[V]], %[[V]]] : tensor<4x8xf32> -> tensor<1x8xf32>
  %5 = phobos.reduce <sum> %a axis 0 valid [%v, %v] : tensor<4x8xf32> -> tensor<1x8xf32>
  // CHECK: phobos.scan <sum> %[[A]] axis 1 : tensor<4x8xf32>
  %6 = phobos.scan <sum> %a axis 1 : tensor<4x8xf32>
  // CHECK: phobos.scan <prod> %[[A]] axis 0 valid[%[[V]], %[[V]]] : tensor<4x8xf32>
  %7 = phobos.scan <prod> %a axis 0 valid [%v, %v] : tensor<4x8xf32>
  // CHECK: phobos.arg_reduce %[[A]] axis 1 : tensor<4x8xf32> -> tensor<4x1xi32>
  %10 = phobos.arg_reduce %a axis 1 : tensor<4x8xf32> -> tensor<4x1xi32>
  // CHECK: phobos.arg_reduce smallest %[[A]] axis 0 valid[%[[V]], %[[V]]] : tensor<4x8xf32> -> tensor<1x8xi32>
  %11 = phobos.arg_reduce smallest %a axis 0 valid [%v, %v] : tensor<4x8xf32> -> tensor<1x8xi32>
  // CHECK: phobos.map(%[[A]], %{{.*}}) : (tensor<4x8xf32>, f32) -> tensor<4x8xf32> {
  // CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32):
  %8 = phobos.map(%a, %s) : (tensor<4x8xf32>, f32) -> tensor<4x8xf32> {
  ^bb0(%x: f32, %y: f32):
    // CHECK-NEXT: phobos.lane 1 : i32
    %lane = phobos.lane 1 : i32
    // CHECK-NEXT: %[[Z:.*]] = arith.addf %[[X]], %[[Y]] : f32
    %z = arith.addf %x, %y : f32
    // CHECK-NEXT: phobos.yield %[[Z]] : f32
    phobos.yield %z : f32
  }
  // CHECK: phobos.map(%{{.*}}) valid[%[[V]], %[[V]]] : (f16) -> tensor<4x8xf16> {
  %9 = phobos.map(%i) valid [%v, %v] : (f16) -> tensor<4x8xf16> {
  ^bb0(%x: f16):
    phobos.yield %x : f16
  }
  phobos.return
}

// Tiles go through arith, math and scf.
// CHECK-LABEL: phobos.kernel @mixed
phobos.kernel @mixed(%s: f32, %c: i1) {
  %one = arith.constant 1 : index
  %t = phobos.splat %s : tensor<?x8xf32, #phobos.dims<["T", 8]>>
  // CHECK: arith.addf %{{.*}} : tensor<?x8xf32, #phobos.dims<[T, 8]>>
  %a = arith.addf %t, %t : tensor<?x8xf32, #phobos.dims<["T", 8]>>
  // CHECK: math.exp %{{.*}} : tensor<?x8xf32, #phobos.dims<[T, 8]>>
  %b = math.exp %a : tensor<?x8xf32, #phobos.dims<["T", 8]>>
  // CHECK: scf.for
  %r = scf.for %k = %one to %one step %one iter_args(%acc = %b) -> (tensor<?x8xf32, #phobos.dims<["T", 8]>>) {
    scf.yield %acc : tensor<?x8xf32, #phobos.dims<["T", 8]>>
  }
  phobos.return
}
