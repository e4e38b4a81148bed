// --param, --dim and --type: what they bind and what they refuse.
// RUN: phobos-compile %s --chip host --emit specialized --type F=f32 --dim E=64 | FileCheck %s
// RUN: phobos-compile %s --chip host --emit specialized --type F=f32 --dim E=64 --param TILE_M=3 | FileCheck %s --check-prefix=GIVEN
// RUN: phobos-compile %s --chip host --emit specialized --type F=f32 --dim E=64 --no-tune | FileCheck %s --check-prefix=FIRST
// RUN: phobos-compile %s --chip host --emit specialized --type F=q8_0 --dim E=64 | FileCheck %s --check-prefix=BLOCKS
// The ranking takes the candidate whose product is nearest to a 64x64x64 tile from below.
// CHECK: -> tensor<128x64xf32>
// GIVEN: -> tensor<3x64xf32>
// FIRST: -> tensor<32x64xf32>
// BLOCKS: !phobos.tensor<[M, 64], !phobos.block<q8_0>>
// BLOCKS: phobos.decode

// RUN: %{status} 2 phobos-compile %s --chip host --type F=f32 --dim E=64 --param TILE_N=64 2>&1 | FileCheck %s --check-prefix=NEAREST
// NEAREST: error: kernel `scale` has no @autotune parameter `TILE_N`: did you mean `TILE_M`?
// RUN: %{status} 2 phobos-compile %s --chip host --type F=f32 --dim E=64 --param TILE_M=0 2>&1 | FileCheck %s --check-prefix=ZERO
// ZERO: error: --param TILE_M=0: a parameter is at least 1
// RUN: %{status} 2 phobos-compile %s --chip host --type F=f32 --dim E=64 --param TILE_M=100 2>&1 | FileCheck %s --check-prefix=WHERE
// WHERE: error: --param TILE_M=100: no candidate of kernel `scale` satisfies its conditions: `TILE_M % 32 == 0 || TILE_M < 8` is false
// RUN: %{status} 2 phobos-compile %s --chip host --type F=f32 --dim E=64 --param TILE_M=x 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: `x` is not a whole number
// RUN: %{status} 2 phobos-compile %s --chip host --type F=f32 --dim E=64 --param =3 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: expected NAME=VALUE
// RUN: %{status} 2 phobos-compile %s --chip host --type F=f32 --dim E=64 --param TILE_M=32 --param TILE_M=64 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: --param TILE_M is given twice

// RUN: %{status} 2 phobos-compile %s --chip host --type F=f32 2>&1 | FileCheck %s --check-prefix=DIM
// DIM: error[PH0030]: the dim `E` is the extent of a tile here and is not bound
// RUN: %{status} 2 phobos-compile %s --chip host --type F=f32 --dim X=4 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: kernel `scale` has no dim `X`; it has M, E
// RUN: %{status} 2 phobos-compile %s --chip host --type F=f32 --dim E=0 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: error: --dim E=0: a dim bound at compile time is 1 to 2^63 - 1

// RUN: %{status} 2 phobos-compile %s --chip host --dim E=64 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: error[PH0016]
// RUN: %{status} 2 phobos-compile %s --chip host --dim E=64 --type F=f17 2>&1 | FileCheck %s --check-prefix=ELEMENT
// ELEMENT: unknown element type `f17`
// RUN: %{status} 2 phobos-compile %s --chip host --dim E=64 --type F=f32 --type F=f16 2>&1 | FileCheck %s --check-prefix=TYPES
// TYPES: error: --type F is given twice

@autotune(TILE_M in [32, 128] where TILE_M % 32 == 0 || TILE_M < 8)
kernel scale[F: format](A: tensor<F>[M, E], B: tensor<f32>[M, E], s: f32) {
  let m = program_id(0) * TILE_M
  B[m :+ TILE_M, :] = f32(A[m :+ TILE_M, :]) * s
}
