// The named pipelines, from specialised tile IR to the llvm dialect: nothing of ours is left.
// RUN: phobos-opt %s --phobos-host-v2 | FileCheck %s --check-prefixes=CHECK,V2
// RUN: phobos-opt %s --phobos-host-v3 | FileCheck %s --check-prefixes=CHECK,V3
// RUN: phobos-opt %s --phobos-host-v4 | FileCheck %s --check-prefixes=CHECK,V4
// RUN: phobos-opt %s --pass-pipeline='builtin.module(phobos-host-v3)' | FileCheck %s --check-prefixes=CHECK,V3
// RUN: phobos-opt %s --phobos-host-v3 | mlir-translate --mlir-to-llvmir | FileCheck %s --check-prefix=LLVM
// RUN: phobos-opt --help | FileCheck %s --check-prefix=HELP

// CHECK-NOT: phobos.kernel
// CHECK: llvm.func @phobos_entry
// CHECK-NOT: {{^ +(%[^ ]+ = )?(arith|cf|scf|vector|math|builtin|phobos)\.}}
// V2: vector<4xf32>
// V3: vector<8xf32>
// V4: vector<16xf32>
// CHECK: llvm.return

// LLVM: define void @phobos_entry(ptr %0, ptr %1, ptr noalias %2)

// HELP-DAG: --convert-phobos-to-host
// HELP-DAG: --level=
// HELP-DAG: --phobos-fuse
// HELP-DAG: --phobos-mask
// HELP-DAG: --phobos-simplify
// HELP-DAG: --phobos-specialize
// HELP-DAG: --bind=
// HELP-DAG: --phobos-host-v2
// HELP-DAG: --phobos-host-v3
// HELP-DAG: --phobos-host-v4
phobos.kernel @saxpy(%X: !phobos.tensor<[N], f32>, %Y: !phobos.tensor<[N], f32>, %a: f32) {
  %p = phobos.program_id 0
  %tile = arith.constant 1024 : index
  %i = arith.muli %p, %tile : index
  %x = phobos.load %X[%i] : !phobos.tensor<[N], f32> -> tensor<1024xf32>
  %y = phobos.load %Y[%i] : !phobos.tensor<[N], f32> -> tensor<1024xf32>
  %s = phobos.splat %a : tensor<1024xf32>
  %m = arith.mulf %s, %x : tensor<1024xf32>
  %r = arith.addf %m, %y : tensor<1024xf32>
  phobos.store %r, %Y[%i] : tensor<1024xf32>, !phobos.tensor<[N], f32>
  phobos.return
}
