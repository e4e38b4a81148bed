// phobos-specialize binds parameters and dims.
// RUN: phobos-opt %s --pass-pipeline='builtin.module(phobos.kernel(phobos-specialize{bind=TILE=8,D=64}))' | FileCheck %s

// Dims that no tile needs stay names; bound ones become constants in the signature too.
// CHECK-LABEL: phobos.kernel @gemm
// CHECK-SAME: (%{{.*}}: !phobos.tensor<[M, 64], f32>, %{{.*}}: !phobos.tensor<[8, M], f16>)
phobos.kernel @gemm(%A: !phobos.tensor<[M, D], f32>, %B: !phobos.tensor<[TILE, M], f16>)
    attributes {params = {TILE = [8, 16]}} {
  // CHECK-NOT: phobos.param
  // CHECK: %[[TILE:.*]] = arith.constant 8 : index
  %tile = phobos.param "TILE"
  // CHECK: %[[D:.*]] = arith.constant 64 : index
  %d = phobos.dim "D"
  // CHECK: %[[M:.*]] = phobos.dim "M"
  %m = phobos.dim "M"
  // CHECK: phobos.load %{{.*}}[%[[TILE]], %[[D]]] : !phobos.tensor<[M, 64], f32> -> tensor<8x64xf32>
  %t = phobos.load %A[%tile, %d] : !phobos.tensor<[M, D], f32> -> tensor<?x?xf32, #phobos.dims<[TILE, D]>>
  // CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (tensor<8x64xf32>)
  %r = scf.for %i = %tile to %m step %d iter_args(%acc = %t) -> (tensor<?x?xf32, #phobos.dims<[TILE, D]>>) {
    // CHECK: arith.addf %{{.*}}, %{{.*}} : tensor<8x64xf32>
    %s = arith.addf %acc, %t : tensor<?x?xf32, #phobos.dims<[TILE, D]>>
    scf.yield %s : tensor<?x?xf32, #phobos.dims<[TILE, D]>>
  }
  phobos.return
}
