// Quantised activations in tile IR: the codes of both sides go into the dot.
// RUN: phobos-compile %s --chip host --emit tile --type A=q8_1 --type F=q4_k --kernel linear | FileCheck %s
// RUN: phobos-compile %s --chip host --emit tile --type A=q8_1 --type F=q4_k --kernel linear | phobos-opt | FileCheck %s
// RUN: phobos-compile %s --chip host --emit tile --type A=f32 --type F=q4_k --kernel linear | FileCheck %s --check-prefix=PLAIN
// RUN: phobos-compile %s --chip host --emit specialized --type A=q16_1 --type F=q4_k --param T=256 --kernel linear | FileCheck %s --check-prefix=BOUND
// RUN: phobos-compile %s --chip host --emit tile --type A=q16_1 --dim K=64 --kernel rows | FileCheck %s --check-prefix=ROWS
// RUN: %{status} 2 phobos-compile %s --chip host --emit specialized --type A=q8_1 --type F=q4_k --param T=32 --kernel linear 2>&1 | FileCheck %s --check-prefix=MULTIPLE
// RUN: %{status} 2 phobos-compile %s --chip host --emit specialized --type A=q8_1 --dim K=48 --kernel rows 2>&1 | FileCheck %s --check-prefix=WHOLE

// CHECK-LABEL: phobos.kernel @linear
// CHECK: %[[V:.*]] = arith.mulf %{{.*}} : tensor<4x?xf32, #phobos.dims<[4, T]>>
// CHECK: %[[W:.*]] = phobos.load %{{.*}} -> tensor<16x?x!phobos.block<q4_k>, #phobos.dims<[16, T]>>
// CHECK: %[[Q:.*]] = phobos.quantize %[[V]] : tensor<4x?xf32, #phobos.dims<[4, T]>> -> tensor<4x?x!phobos.block<q8_1>, #phobos.dims<[4, T]>>
// CHECK-NOT: phobos.decode
// CHECK: phobos.dot %[[Q]], %[[W]], %{{.*}} transposed : tensor<4x?x!phobos.block<q8_1>, #phobos.dims<[4, T]>>, tensor<16x?x!phobos.block<q4_k>, #phobos.dims<[16, T]>> -> tensor<4x16xf32>
// PLAIN-LABEL: phobos.kernel @linear
// PLAIN-NOT: phobos.quantize
// PLAIN: %[[W:.*]] = phobos.decode
// PLAIN: phobos.dot %{{.*}}, %[[W]], %{{.*}} transposed : tensor<4x?xf32,
// BOUND: phobos.quantize %{{.*}} : tensor<4x256xf32> -> tensor<4x256x!phobos.block<q16_1>>
// BOUND: phobos.dot %{{.*}} transposed : tensor<4x256x!phobos.block<q16_1>>, tensor<16x256x!phobos.block<q4_k>> -> tensor<4x16xf32>
// MULTIPLE: T = 32 is no multiple of the block of 256
@autotune(T in [32, 256, 512])
kernel linear[A: format, F: format](X: tensor<f32>[M, K], W: tensor<F>[N, K], Y: tensor<f32>[M, N]) {
  let m = program_id(0) * 4
  let n = program_id(1) * 16
  var acc: tile<f32>[4, 16] = 0.0
  for k in range(0, K, T) {
    let x = X[m :+ 4, k :+ T] * 2.0
    let w = W[n :+ 16, k :+ T]
    acc += dot_t(quantize(x, A), w)
  }
  Y[m :+ 4, n :+ 16] = acc
}

// Rank 1, as a point leaves it: the blocks are stored under another shape, and decoded.
// ROWS-LABEL: phobos.kernel @rows
// ROWS: %[[X:.*]] = phobos.reshape %{{.*}} : tensor<1x?xf32, #phobos.dims<[1, K]>> -> tensor<?xf32, #phobos.dims<[K]>>
// ROWS: %[[Q:.*]] = phobos.quantize %[[X]] : tensor<?xf32, #phobos.dims<[K]>> -> tensor<?x!phobos.block<q16_1>, #phobos.dims<[K]>>
// ROWS: %[[R:.*]] = phobos.reshape %[[Q]] : tensor<?x!phobos.block<q16_1>, #phobos.dims<[K]>> -> tensor<1x?x!phobos.block<q16_1>, #phobos.dims<[1, K]>>
// ROWS: phobos.store %[[R]], %{{.*}} : tensor<1x?x!phobos.block<q16_1>, #phobos.dims<[1, K]>>, !phobos.tensor<[M, K], !phobos.block<q16_1>>
// ROWS: phobos.decode %[[Q]] : tensor<?x!phobos.block<q16_1>, #phobos.dims<[K]>> -> tensor<?xf32, #phobos.dims<[K]>>
// WHOLE: error: --dim K=48: kernel `rows` needs a multiple of 32
kernel rows[A: format](X: tensor<f32>[M, K], Q: tensor<A>[M, K], Y: tensor<f32>[M, K]) {
  let m = program_id(0)
  let q = quantize(X[m, :], A)
  Q[m, :] = q
  Y[m, :] = f32(q)
}
