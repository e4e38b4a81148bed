// What phobos-mask refuses.
// RUN: phobos-opt %s --pass-pipeline='builtin.module(phobos.kernel(phobos-mask))' --split-input-file --verify-diagnostics

phobos.kernel @merge(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[4, 4], f32>) {
  %i = phobos.program_id 0
  %a = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<16xf32>
  // expected-error@+1 {{this reshape merges or splits axes of a tile that may be partly outside its tensor: give the load an `else` value, or make the extents divide}}
  %r = phobos.reshape %a : tensor<16xf32> -> tensor<4x4xf32>
  phobos.store %r, %B[%i, %i] : tensor<4x4xf32>, !phobos.tensor<[4, 4], f32>
  phobos.return
}

// -----

// With an `else` value there is nothing to lose.
phobos.kernel @merge_whole(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[4, 4], f32>, %s: f32) {
  %i = phobos.program_id 0
  %a = phobos.load %A[%i] else %s : f32 : !phobos.tensor<[N], f32> -> tensor<16xf32>
  %r = phobos.reshape %a : tensor<16xf32> -> tensor<4x4xf32>
  phobos.store %r, %B[%i, %i] : tensor<4x4xf32>, !phobos.tensor<[4, 4], f32>
  phobos.return
}

// -----

phobos.kernel @twice(%A: !phobos.tensor<[N], f32>) {
  %i = phobos.program_id 0
  // expected-error@+1 {{phobos.load already has valid extents: phobos-mask runs once}}
  %a = phobos.load %A[%i] valid [%i] : !phobos.tensor<[N], f32> -> tensor<16xf32>
  phobos.return
}

// -----

phobos.kernel @symbolic(%A: !phobos.tensor<[N], f32>) {
  %i = phobos.program_id 0
  // expected-error@+1 {{phobos.load has a tile that is not static: run phobos-specialize first}}
  %a = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<?xf32, #phobos.dims<["T"]>>
  phobos.return
}
