// The lowering of a checked kernel to symbolic tile IR.
// RUN: phobos-compile %s --chip host --emit tile | FileCheck %s
// RUN: phobos-compile %s --chip host --emit tile | phobos-opt | FileCheck %s
// RUN: phobos-compile %s --chip host --emit specialized --param TILE=64 | FileCheck %s --check-prefix=BOUND

// Tensors come first, then scalars; the grid and the candidates are attributes.
// CHECK: phobos.kernel @k(%[[A:.*]]: !phobos.tensor<[N, K], f32>, %[[B:.*]]: !phobos.tensor<[K, M], f32>,
// CHECK-SAME: %[[C:.*]]: !phobos.tensor<[N, M], f32>, %[[I:.*]]: !phobos.tensor<[N], i32>, %[[S:.*]]: f32)
// CHECK-SAME: grid = ["ceil(N / TILE)", "ceil(M / 16)", "1"]
// CHECK-SAME: params = {TILE = [32, 64]}
// BOUND: phobos.kernel @k
@autotune(TILE in [32, 64])
@grid(ceil(N / TILE), ceil(M / 16))
kernel k(A: tensor<f32>[N, K], B: tensor<f32>[K, M], C: tensor<f32>[N, M], I: tensor<i32>[N], s: f32) {
  // CHECK-DAG: phobos.program_id 0
  // CHECK-DAG: phobos.param "TILE"
  let row = program_id(0) * TILE
  let column = program_id(1) * 16
  // A var without a loop around it is only a name.
  // CHECK: phobos.splat %{{.*}} : tensor<?x16xf32, #phobos.dims<[TILE, 16]>>
  // BOUND: tensor<64x16xf32>
  var acc: tile<f32>[TILE, 16] = 0.0
  // What is assigned in the loop is carried by it.
  // CHECK: %[[DIM:.*]] = phobos.dim "K"
  // CHECK: %[[R:.*]] = scf.for {{.*}} to %[[DIM]] {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}) -> (tensor<?x16xf32, #phobos.dims<[TILE, 16]>>)
  for k in range(0, K, 8) {
    // The sum starts at the accumulator.
    // CHECK: %[[L:.*]] = phobos.load %[[A]]
    // CHECK: phobos.load %[[B]]
    // CHECK: %[[D:.*]] = phobos.dot %[[L]], %{{.*}}, %[[ACC]] : tensor<?x8xf32, #phobos.dims<[TILE, 8]>>, tensor<8x16xf32> -> tensor<?x16xf32, #phobos.dims<[TILE, 16]>>
    // CHECK: scf.yield %[[D]]
    acc += dot(A[row :+ TILE, k :+ 8], B[k :+ 8, column :+ 16])
  }
  // A scalar stretches.
  // CHECK: %[[T:.*]] = phobos.splat %[[S]]
  // CHECK: arith.mulf %[[R]], %[[T]]
  let scaled = acc * s
  // CHECK: phobos.store
  C[row :+ TILE, column :+ 16] = scaled
  // A point drops its axis: a tile with extent 1 there, reshaped.
  // CHECK: %[[P:.*]] = phobos.load %[[A]]{{.*}} -> tensor<1x8xf32>
  // CHECK: phobos.reshape %[[P]] {points = array<i64: 0>} : tensor<1x8xf32> -> tensor<8xf32>
  let line = A[0, 0 :+ 8] else 1.0
  // CHECK: phobos.reduce <max> %{{.*}} axis 0 : tensor<8xf32> -> tensor<1xf32>
  // CHECK: arith.cmpf oeq
  let top = reduce_max(line, 0) == line
  // CHECK: arith.select
  // CHECK: phobos.store
  C[0, 0 :+ 8] = where(top, line, 0.0)
  // Points alone make a scalar.
  // CHECK: phobos.load_scalar %[[I]]
  let n = I[row]
  // CHECK: scf.if
  if n > 3 {
    // CHECK: phobos.store_scalar
    I[row] = n / 2
  }
  // Division by what may be 0 takes 0 and -1 out first.
  // CHECK: %[[ZERO:.*]] = arith.cmpi eq
  // CHECK: arith.divsi
  // CHECK: arith.select %[[ZERO]]
  I[row + 1] = 7 / n
  // CHECK: scf.while
  // CHECK: scf.condition
  var m: i32 = n
  while m < 100 {
    m = m * 2
  }
  I[row + 2] = m
  // CHECK: phobos.return
}
