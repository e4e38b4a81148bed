// What phobos-specialize refuses.
// RUN: split-file %s %t
// RUN: phobos-opt %t/unbound.mlir --pass-pipeline='builtin.module(phobos.kernel(phobos-specialize))' --split-input-file --verify-diagnostics
// RUN: phobos-opt %t/blocks.mlir --pass-pipeline='builtin.module(phobos.kernel(phobos-specialize{bind=T=48}))' --split-input-file --verify-diagnostics
// RUN: not phobos-opt %t/ok.mlir --pass-pipeline='builtin.module(phobos.kernel(phobos-specialize{bind=T}))' 2>&1 | FileCheck %s --check-prefix=NO-VALUE
// RUN: not phobos-opt %t/ok.mlir --pass-pipeline='builtin.module(phobos.kernel(phobos-specialize{bind=T=0}))' 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not phobos-opt %t/ok.mlir --pass-pipeline='builtin.module(phobos.kernel(phobos-specialize{bind=T=1,T=2}))' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not phobos-opt %t/ok.mlir --pass-pipeline='builtin.module(phobos.kernel(phobos-specialize{nope=1}))' 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not phobos-opt %t/ok.mlir --pass-pipeline='builtin.module(phobos-specialize)' 2>&1 | FileCheck %s --check-prefix=ANCHOR

// NO-VALUE: error: bind: `T` is not NAME=VALUE with a positive integer value
// ZERO: error: bind: `T=0` is not NAME=VALUE with a positive integer value
// TWICE: error: bind: `T` is bound twice
// OPTION: no such option nope
// ANCHOR: Can't add pass 'phobos-specialize' restricted to 'phobos.kernel' on a PassManager intended to run on 'builtin.module'

//--- ok.mlir
phobos.kernel @k() {
  phobos.return
}

//--- unbound.mlir
phobos.kernel @k() {
  // expected-error@+1 {{parameter `T` has no value: bind it with T=VALUE}}
  %0 = phobos.param "T"
  phobos.return
}

// -----

phobos.kernel @k(%s: f32) {
  // expected-error@+1 {{`T` is the extent of a tile and has no value: bind it with T=VALUE}}
  %0 = phobos.splat %s : tensor<?xf32, #phobos.dims<["T"]>>
  phobos.return
}

//--- blocks.mlir
phobos.kernel @k(%s: f32) {
  %0 = phobos.splat %s : tensor<?xf32, #phobos.dims<[T]>>
  // expected-error@+1 {{a tile of extent 48 is not made of whole blocks of q8_1, which have 32}}
  %1 = phobos.quantize %0 : tensor<?xf32, #phobos.dims<[T]>> -> tensor<?x!phobos.block<q8_1>, #phobos.dims<[T]>>
  phobos.return
}

// -----

phobos.kernel @k(%s: f32) {
  %0 = phobos.splat %s : tensor<256xf32>
  // expected-error@+1 {{q4_k cannot be made by phobos.quantize}}
  %1 = phobos.quantize %0 : tensor<256xf32> -> tensor<256x!phobos.block<q4_k>>
  phobos.return
}
