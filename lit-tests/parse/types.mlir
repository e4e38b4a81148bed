// Types and attributes, printed as they are read, also through the generic form and bytecode.
// RUN: phobos-opt %s | phobos-opt | FileCheck %s
// RUN: phobos-opt --mlir-print-op-generic %s | phobos-opt | FileCheck %s
// RUN: phobos-opt --emit-bytecode %s | phobos-opt | FileCheck %s

// CHECK-LABEL: phobos.kernel @tensors
// CHECK-SAME: !phobos.tensor<[M, 64], f32>
// CHECK-SAME: !phobos.tensor<[4, 8], i1>
// CHECK-SAME: !phobos.tensor<[N], f16>
// CHECK-SAME: !phobos.tensor<[A, B, C, 2], bf16>
// CHECK-SAME: !phobos.tensor<["two words", "7up", TILE_M], f64>
// CHECK-SAME: !phobos.tensor<[N, K], !phobos.block<q4_1>>
// CHECK-SAME: !phobos.tensor<[N, K], !phobos.block<"odd name">>
// CHECK-SAME: f32
// CHECK-SAME: i64
phobos.kernel @tensors(
    %a: !phobos.tensor<[M, 64], f32>, %b: !phobos.tensor<[4, 8], i1>, %c: !phobos.tensor<[N], f16>,
    %d: !phobos.tensor<[A, B, C, 2], bf16>, %e: !phobos.tensor<["two words", "7up", "TILE_M"], f64>,
    %f: !phobos.tensor<[N, K], !phobos.block<q4_1>>, %g: !phobos.tensor<[N, K], !phobos.block<"odd name">>,
    %h: f32, %i: i64) {
  // CHECK: phobos.undef : tensor<?x32xf32, #phobos.dims<[TILE_M, 32]>>
  %0 = phobos.undef : tensor<?x32xf32, #phobos.dims<[TILE_M, 32]>>
  // CHECK: phobos.undef : tensor<?x?xi32, #phobos.dims<["a b", T]>>
  %1 = phobos.undef : tensor<?x?xi32, #phobos.dims<["a b", "T"]>>
  // CHECK: phobos.undef : tensor<2x3xf16>
  %2 = phobos.undef : tensor<2x3xf16>
  // CHECK: phobos.undef : tensor<64x256x!phobos.block<q8_0>>
  %3 = phobos.undef : tensor<64x256x!phobos.block<q8_0>>
  phobos.return
}

// CHECK-LABEL: phobos.kernel @attributes
// CHECK-SAME: attributes {grid = ["ceil(M / TILE_M)", "N"], params = {TILE_M = [32, 64]}}
phobos.kernel @attributes() attributes {params = {TILE_M = [32, 64]}, grid = ["ceil(M / TILE_M)", "N"]} {
  phobos.return
}

// The attribute of reduce and scan stands alone too.
// CHECK: phobos.kinds = [#phobos.reduce_kind<sum>, #phobos.reduce_kind<prod>, #phobos.reduce_kind<max>, #phobos.reduce_kind<min>, #phobos.reduce_kind<any>, #phobos.reduce_kind<all>]
module attributes {phobos.kinds = [#phobos.reduce_kind<sum>, #phobos.reduce_kind<prod>, #phobos.reduce_kind<max>,
                                   #phobos.reduce_kind<min>, #phobos.reduce_kind<any>, #phobos.reduce_kind<all>]} {}
