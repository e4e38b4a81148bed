// What phobos-specialize refuses.
// RUN: split-file %s %t
// RUN: phobos-opt %t/unbound.mlir --pass-pipeline='builtin.module(phobos.kernel(phobos-specialize))' --split-input-file --verify-diagnostics
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
