// The passes in stock mlir-opt, by --pass-pipeline, mixed with its own; and the verifiers.
// RUN: mlir-opt --load-dialect-plugin=%phobos_plugin --load-pass-plugin=%phobos_plugin %s \
// RUN:   --pass-pipeline='builtin.module(phobos.kernel(phobos-specialize{bind=TILE=64},cse))' | FileCheck %s
// RUN: mlir-opt --load-dialect-plugin=%phobos_plugin --load-pass-plugin=%phobos_plugin %s \
// RUN:   --pass-pipeline='builtin.module(phobos.kernel(phobos-specialize{bind=TILE=64}),phobos-host-v3)' | FileCheck %s --check-prefix=HOST
// RUN: not mlir-opt --load-dialect-plugin=%phobos_plugin --load-pass-plugin=%phobos_plugin %s \
// RUN:   --pass-pipeline='builtin.module(phobos.kernel(phobos-specialize))' 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: mlir-opt --load-dialect-plugin=%phobos_plugin %S/../verify/invalid.mlir --split-input-file --verify-diagnostics
// phobos-opt has all of it and says so when it is given the plugin too.
// RUN: not --crash phobos-opt --load-dialect-plugin=%phobos_plugin %s 2>&1 | FileCheck %s --check-prefix=TWICE

// CHECK: phobos.load %{{.*}} : !phobos.tensor<[N], f32> -> tensor<64xf32>
// HOST: llvm.func @phobos_entry
// ERROR: passes.mlir:[[#@LINE+4]]:{{.*}}: error: `TILE` is the extent of a tile and has no value
// TWICE: Trying to register different dialects for the same namespace
phobos.kernel @k(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[N], f32>) {
  %i = phobos.program_id 0
  %t = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<?xf32, #phobos.dims<[TILE]>>
  phobos.store %t, %B[%i] : tensor<?xf32, #phobos.dims<[TILE]>>, !phobos.tensor<[N], f32>
  phobos.return
}
