// The dialect in stock mlir-opt: CSE knows that phobos.load reads and phobos.store writes.
// RUN: mlir-opt --load-dialect-plugin=%phobos_plugin %s --cse --split-input-file | FileCheck %s

// Two equal loads are one.
// CHECK-LABEL: @equal
phobos.kernel @equal(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[N], f32>) {
  %i = phobos.program_id 0
  // CHECK: %[[X:.*]] = phobos.load
  // CHECK-NOT: phobos.load
  %x = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  %y = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  // CHECK: arith.addf %[[X]], %[[X]]
  %s = arith.addf %x, %y : tensor<64xf32>
  phobos.store %s, %B[%i] : tensor<64xf32>, !phobos.tensor<[N], f32>
  phobos.return
}

// -----

// A store between them keeps both.
// CHECK-LABEL: @parted
phobos.kernel @parted(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[N], f32>) {
  %i = phobos.program_id 0
  // CHECK: %[[X:.*]] = phobos.load
  %x = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  phobos.store %x, %B[%i] : tensor<64xf32>, !phobos.tensor<[N], f32>
  // CHECK: %[[Y:.*]] = phobos.load
  %y = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  // CHECK: arith.addf %[[X]], %[[Y]]
  %s = arith.addf %x, %y : tensor<64xf32>
  phobos.store %s, %B[%i] : tensor<64xf32>, !phobos.tensor<[N], f32>
  phobos.return
}

// -----

// The same for points; pure operations merge over a store; what nobody reads goes, a store stays.
// CHECK-LABEL: @others
phobos.kernel @others(%A: !phobos.tensor<[N], f32>) {
  // CHECK: %[[I:.*]] = phobos.program_id 0
  %i = phobos.program_id 0
  // CHECK: %[[X:.*]] = phobos.load_scalar
  %x = phobos.load_scalar %A[%i] : !phobos.tensor<[N], f32> -> f32
  // CHECK: phobos.splat %[[X]] : tensor<4xf32>
  %a = phobos.splat %x : tensor<4xf32>
  // CHECK-NEXT: phobos.store
  phobos.store %a, %A[%i] : tensor<4xf32>, !phobos.tensor<[N], f32>
  // CHECK-NEXT: %[[Y:.*]] = phobos.load_scalar %{{.*}}[%[[I]]]
  %j = phobos.program_id 0
  %y = phobos.load_scalar %A[%j] : !phobos.tensor<[N], f32> -> f32
  // CHECK-NEXT: phobos.store_scalar %[[Y]]
  phobos.store_scalar %y, %A[%i] : f32, !phobos.tensor<[N], f32>
  // CHECK-NEXT: phobos.return
  %unused = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  phobos.return
}
