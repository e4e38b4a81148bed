// Every rule of the operations' verifiers, each broken once.
// RUN: phobos-opt %s --split-input-file --verify-diagnostics

// Kernels.

// expected-error@+1 {{'phobos.kernel' op returns nothing: results go to tensors}}
phobos.kernel @k() -> f32 {
  phobos.return
}

// -----

// expected-error@+1 {{'phobos.kernel' op argument must be a !phobos.tensor or a scalar, got 'index'}}
phobos.kernel @k(%n: index) {
  phobos.return
}

// -----

// expected-error@+1 {{'phobos.kernel' op argument must be a !phobos.tensor or a scalar, got 'tensor<4xf32>'}}
phobos.kernel @k(%t: tensor<4xf32>) {
  phobos.return
}

// -----

func.func @f() {
  // expected-error@+1 {{'phobos.return' op expects parent op 'phobos.kernel'}}
  phobos.return
}

// -----

phobos.kernel @k() {
  // expected-error@+1 {{'phobos.program_id' op attribute 'axis' failed to satisfy constraint}}
  %0 = phobos.program_id 3
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M, 8], f32>) {
  // expected-error@+1 {{'phobos.dim' op no tensor of the kernel has a dim named "N"}}
  %0 = phobos.dim "N"
  phobos.return
}

// -----

func.func @f() {
  // expected-error@+1 {{'phobos.dim' op must be in a phobos.kernel}}
  %0 = phobos.dim "N"
  return
}

// -----

// Loads and stores.

phobos.kernel @k(%a: !phobos.tensor<[M, N], f32>) {
  %i = phobos.program_id 0
  // expected-error@+1 {{'phobos.load' op has 1 offsets for 2 axes}}
  %0 = phobos.load %a[%i] : !phobos.tensor<[M, N], f32> -> tensor<8x8xf32>
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M, N], f32>) {
  %i = phobos.program_id 0
  // expected-error@+1 {{'phobos.load' op tile of rank 1 for a tensor of rank 2}}
  %0 = phobos.load %a[%i, %i] : !phobos.tensor<[M, N], f32> -> tensor<8xf32>
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M], f32>) {
  %i = phobos.program_id 0
  // expected-error@+1 {{'phobos.load' op tile element 'f16' differs from tensor element 'f32'}}
  %0 = phobos.load %a[%i] : !phobos.tensor<[M], f32> -> tensor<8xf16>
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M, N], f32>) {
  %i = phobos.program_id 0
  // expected-error@+1 {{'phobos.load' op has 1 valid extents for 2 axes}}
  %0 = phobos.load %a[%i, %i] valid [%i] : !phobos.tensor<[M, N], f32> -> tensor<8x8xf32>
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M], f32>, %h: f16) {
  %i = phobos.program_id 0
  // expected-error@+1 {{'phobos.load' op `else` value of type 'f16' for elements of type 'f32'}}
  %0 = phobos.load %a[%i] else %h : f16 : !phobos.tensor<[M], f32> -> tensor<8xf32>
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M], f32>) {
  %i = phobos.program_id 0
  // expected-error@+1 {{'phobos.load' op tile 'tensor<?xf32>' has a dynamic axis and no #phobos.dims}}
  %0 = phobos.load %a[%i] : !phobos.tensor<[M], f32> -> tensor<?xf32>
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M], f32>) {
  %i = phobos.program_id 0
  // expected-error@+1 {{has 1 axes but 2 dims}}
  %0 = phobos.load %a[%i] : !phobos.tensor<[M], f32> -> tensor<?xf32, #phobos.dims<["T", 8]>>
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M], f32>) {
  %i = phobos.program_id 0
  // expected-error@+1 {{dim 8 does not match its extent}}
  %0 = phobos.load %a[%i] : !phobos.tensor<[M], f32> -> tensor<16xf32, #phobos.dims<[8]>>
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M], f32>) {
  %i = phobos.program_id 0
  // expected-error@+1 {{dim T does not match its extent}}
  %0 = phobos.load %a[%i] : !phobos.tensor<[M], f32> -> tensor<16xf32, #phobos.dims<["T"]>>
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M, N], f32>, %t: f32) {
  %i = phobos.program_id 0
  %0 = phobos.splat %t : tensor<8xf32>
  // expected-error@+1 {{'phobos.store' op has 1 offsets for 2 axes}}
  phobos.store %0, %a[%i] : tensor<8xf32>, !phobos.tensor<[M, N], f32>
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M], f16>, %t: f32) {
  %i = phobos.program_id 0
  %0 = phobos.splat %t : tensor<8xf32>
  // expected-error@+1 {{'phobos.store' op tile element 'f32' differs from tensor element 'f16'}}
  phobos.store %0, %a[%i] : tensor<8xf32>, !phobos.tensor<[M], f16>
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M], f32>, %t: f32) {
  %i = phobos.program_id 0
  %0 = phobos.splat %t : tensor<8xf32>
  // expected-error@+1 {{'phobos.store' op has 2 valid extents for 1 axes}}
  phobos.store %0, %a[%i] valid [%i, %i] : tensor<8xf32>, !phobos.tensor<[M], f32>
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M, N], f32>) {
  %i = phobos.program_id 0
  // expected-error@+1 {{'phobos.load_scalar' op has 1 offsets for 2 axes}}
  %0 = phobos.load_scalar %a[%i] : !phobos.tensor<[M, N], f32> -> f32
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M], f32>) {
  %i = phobos.program_id 0
  // expected-error@+1 {{'phobos.load_scalar' op scalar 'f16' differs from tensor element 'f32'}}
  %0 = phobos.load_scalar %a[%i] : !phobos.tensor<[M], f32> -> f16
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M, N], f32>, %s: f32) {
  %i = phobos.program_id 0
  // expected-error@+1 {{'phobos.store_scalar' op has 1 offsets for 2 axes}}
  phobos.store_scalar %s, %a[%i] : f32, !phobos.tensor<[M, N], f32>
  phobos.return
}

// -----

phobos.kernel @k(%a: !phobos.tensor<[M], f32>, %s: i32) {
  %i = phobos.program_id 0
  // expected-error@+1 {{'phobos.store_scalar' op scalar 'i32' differs from tensor element 'f32'}}
  phobos.store_scalar %s, %a[%i] : i32, !phobos.tensor<[M], f32>
  phobos.return
}

// -----

// Making and reshaping tiles.

phobos.kernel @k(%s: f32) {
  // expected-error@+1 {{'phobos.splat' op failed to verify that the scalar is the tile's element}}
  %0 = "phobos.splat"(%s) : (f32) -> tensor<8xf16>
  phobos.return
}

// -----

phobos.kernel @k(%s: f32) {
  // expected-error@+1 {{'phobos.splat' op tile 'tensor<?xf32>' has a dynamic axis and no #phobos.dims}}
  %0 = phobos.splat %s : tensor<?xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  // expected-error@+1 {{'phobos.undef' op tile 'tensor<?xf32>' has a dynamic axis and no #phobos.dims}}
  %0 = phobos.undef : tensor<?xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  // expected-error@+1 {{'phobos.iota' op gives integers, not 'f32'}}
  %0 = phobos.iota 0 : tensor<8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  // expected-error@+1 {{'phobos.iota' op axis 1 of a tile of rank 1}}
  %0 = phobos.iota 1 : tensor<8xi32>
  phobos.return
}

// -----

phobos.kernel @k() {
  // expected-error@+1 {{'phobos.iota' op attribute 'axis' failed to satisfy constraint}}
  %0 = phobos.iota -1 : tensor<8xi32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<8x1xf32>
  // expected-error@+1 {{'phobos.broadcast' op cannot stretch 'tensor<8x1xf32>' to 'tensor<8xf32>'}}
  %1 = phobos.broadcast %0 : tensor<8x1xf32> -> tensor<8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<8xf32>
  // expected-error@+1 {{'phobos.broadcast' op cannot stretch 'tensor<8xf32>' to 'tensor<8xf16>'}}
  %1 = phobos.broadcast %0 : tensor<8xf32> -> tensor<8xf16>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.broadcast' op axis 0 has extent 4, which is neither 1 nor 8}}
  %1 = phobos.broadcast %0 : tensor<4x8xf32> -> tensor<8x8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<?xf32, #phobos.dims<["TILE_M"]>>
  // expected-error@+1 {{'phobos.broadcast' op axis 0 has extent TILE_M, which is neither 1 nor TILE_N}}
  %1 = phobos.broadcast %0 : tensor<?xf32, #phobos.dims<["TILE_M"]>> -> tensor<?xf32, #phobos.dims<["TILE_N"]>>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<8xf32>
  // expected-error@+1 {{'phobos.reshape' op changes the element from 'f32' to 'i32'}}
  %1 = phobos.reshape %0 : tensor<8xf32> -> tensor<8xi32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<8xf32>
  // expected-error@+1 {{'tensor<8xf32>' and 'tensor<3x3xf32>' hold different numbers of elements}}
  %1 = phobos.reshape %0 : tensor<8xf32> -> tensor<3x3xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<1x8xf32>
  // expected-error@+1 {{'phobos.reshape' op axis 1 of 'tensor<1x8xf32>' is no point}}
  %1 = phobos.reshape %0 {points = array<i64: 1>} : tensor<1x8xf32> -> tensor<8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<?x2xf32, #phobos.dims<["T", 2]>>
  // expected-error@+1 {{hold different numbers of elements}}
  %1 = phobos.reshape %0 : tensor<?x2xf32, #phobos.dims<["T", 2]>> -> tensor<2x?xf32, #phobos.dims<[2, "T"]>>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<8xf32>
  // expected-error@+1 {{'phobos.transpose' op needs a tile of rank 2 or more}}
  %1 = phobos.transpose %0 : tensor<8xf32> -> tensor<8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.transpose' op 'tensor<4x8xf32>' is not the transpose of 'tensor<4x8xf32>'}}
  %1 = phobos.transpose %0 : tensor<4x8xf32> -> tensor<4x8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.transpose' op 'tensor<8x4xf16>' is not the transpose of 'tensor<4x8xf32>'}}
  %1 = phobos.transpose %0 : tensor<4x8xf32> -> tensor<8x4xf16>
  phobos.return
}

// -----

phobos.kernel @k() {
  %i = phobos.program_id 0
  %0 = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.extract' op slice 'tensor<2x2xf32>' at 1 offsets of 'tensor<4x8xf32>'}}
  %1 = phobos.extract %0[%i] : tensor<4x8xf32> -> tensor<2x2xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %i = phobos.program_id 0
  %0 = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.extract' op slice 'tensor<2x2xf16>' differs in element from 'tensor<4x8xf32>'}}
  %1 = phobos.extract %0[%i, %i] : tensor<4x8xf32> -> tensor<2x2xf16>
  phobos.return
}

// -----

phobos.kernel @k() {
  %i = phobos.program_id 0
  %0 = phobos.undef : tensor<4x8xf32>
  %1 = phobos.undef : tensor<2xf32>
  // expected-error@+1 {{'phobos.insert' op slice 'tensor<2xf32>' at 2 offsets of 'tensor<4x8xf32>'}}
  %2 = phobos.insert %1 into %0[%i, %i] : tensor<2xf32> into tensor<4x8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %i = phobos.program_id 0
  %0 = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.extract' op slice 'tensor<2x9xf32>' is longer than 'tensor<4x8xf32>' on axis 1}}
  %1 = phobos.extract %0[%i, %i] : tensor<4x8xf32> -> tensor<2x9xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %i = phobos.program_id 0
  %0 = phobos.undef : tensor<4x8xf32>
  %1 = phobos.undef : tensor<2x8xf32>
  // expected-error@+1 {{'phobos.insert' op has 1 valid extents for 2 axes}}
  %2 = phobos.insert %1 into %0[%i, %i] valid [%i] : tensor<2x8xf32> into tensor<4x8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<64xf32>
  // expected-error@+1 {{'phobos.decode' op decodes a block format, not 'f32'}}
  %1 = phobos.decode %0 : tensor<64xf32> -> tensor<64xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<64x!phobos.block<q8_0>>
  // expected-error@+1 {{'phobos.decode' op of 'tensor<64x!phobos.block<q8_0>>' gives f32 in the same shape, not 'tensor<64xf16>'}}
  %1 = phobos.decode %0 : tensor<64x!phobos.block<q8_0>> -> tensor<64xf16>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<64x!phobos.block<q8_0>>
  // expected-error@+1 {{gives f32 in the same shape, not 'tensor<32xf32>'}}
  %1 = phobos.decode %0 : tensor<64x!phobos.block<q8_0>> -> tensor<32xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<64xf16>
  // expected-error@+1 {{'phobos.quantize' op takes f32, not 'f16'}}
  %1 = phobos.quantize %0 : tensor<64xf16> -> tensor<64x!phobos.block<q8_1>>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<64xf32>
  // expected-error@+1 {{'phobos.quantize' op of 'tensor<64xf32>' gives blocks in the same shape, not 'tensor<64xf16>'}}
  %1 = phobos.quantize %0 : tensor<64xf32> -> tensor<64xf16>
  phobos.return
}

// -----

phobos.kernel @k() {
  %0 = phobos.undef : tensor<64xf32>
  // expected-error@+1 {{gives blocks in the same shape, not 'tensor<32x!phobos.block<q8_1>>'}}
  %1 = phobos.quantize %0 : tensor<64xf32> -> tensor<32x!phobos.block<q8_1>>
  phobos.return
}

// -----

// Computing.

phobos.kernel @k() {
  %a = phobos.undef : tensor<8xf32>
  %b = phobos.undef : tensor<8x8xf32>
  // expected-error@+1 {{'phobos.dot' op takes tiles of rank 2}}
  %0 = phobos.dot %a, %b, %b : tensor<8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<4x8xf32>
  %b = phobos.undef : tensor<16x8xf32>
  %c = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.dot' op contracts over 8 of 'tensor<4x8xf32>' but 16 of 'tensor<16x8xf32>'}}
  %0 = phobos.dot %a, %b, %c : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<4x8xf32>
  %b = phobos.undef : tensor<8x16xf32>
  %c = phobos.undef : tensor<4x16xf32>
  // expected-error@+1 {{'phobos.dot' op contracts over 8 of 'tensor<4x8xf32>' but 16 of 'tensor<8x16xf32>'}}
  %0 = phobos.dot %a, %b, %c transposed : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<4x8xf32>
  %b = phobos.undef : tensor<8x16xf32>
  %c = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.dot' op gives 4x16, not 'tensor<4x8xf32>'}}
  %0 = phobos.dot %a, %b, %c : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<4x8xf32>
  %b = phobos.undef : tensor<8x4xf32>
  %c = phobos.undef : tensor<4x4x!phobos.block<q8_0>>
  // expected-error@+1 {{'phobos.dot' op cannot accumulate in '!phobos.block<q8_0>'}}
  %0 = phobos.dot %a, %b, %c : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4x!phobos.block<q8_0>>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<4x32x!phobos.block<q8_1>>
  %b = phobos.undef : tensor<8x32xf32>
  %c = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.dot' op takes blocks on both sides or on neither, got 'tensor<4x32x!phobos.block<q8_1>>' and 'tensor<8x32xf32>'}}
  %0 = phobos.dot %a, %b, %c transposed : tensor<4x32x!phobos.block<q8_1>>, tensor<8x32xf32> -> tensor<4x8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<4x32xf32>
  %b = phobos.undef : tensor<8x32x!phobos.block<q8_0>>
  %c = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.dot' op takes blocks on both sides or on neither}}
  %0 = phobos.dot %a, %b, %c transposed : tensor<4x32xf32>, tensor<8x32x!phobos.block<q8_0>> -> tensor<4x8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<32x32x!phobos.block<q8_1>>
  %b = phobos.undef : tensor<32x32x!phobos.block<q8_0>>
  %c = phobos.undef : tensor<32x32xf32>
  // expected-error@+1 {{'phobos.dot' op of blocks is transposed}}
  %0 = phobos.dot %a, %b, %c : tensor<32x32x!phobos.block<q8_1>>, tensor<32x32x!phobos.block<q8_0>> -> tensor<32x32xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<4x32x!phobos.block<q8_1>>
  %b = phobos.undef : tensor<8x32x!phobos.block<q8_0>>
  %c = phobos.undef : tensor<4x8xf16>
  // expected-error@+1 {{'phobos.dot' op of blocks accumulates in f32, not in 'f16'}}
  %0 = phobos.dot %a, %b, %c transposed : tensor<4x32x!phobos.block<q8_1>>, tensor<8x32x!phobos.block<q8_0>> -> tensor<4x8xf16>
  phobos.return
}

// -----

phobos.kernel @k() {
  %i = phobos.program_id 0
  %a = phobos.undef : tensor<8x8xf32>
  // expected-error@+1 {{'phobos.dot' op takes 3 valid extents (m, n, k), got 2}}
  %0 = phobos.dot %a, %a, %a valid [%i, %i] : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<8xf32>
  // expected-error@+1 {{'phobos.reduce' op axis 1 of a tile of rank 1}}
  %0 = phobos.reduce <sum> %a axis 1 : tensor<8xf32> -> tensor<1xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.reduce' op 'tensor<4xf32>' is not 'tensor<4x8xf32>' with axis 1 reduced to 1}}
  %0 = phobos.reduce <sum> %a axis 1 : tensor<4x8xf32> -> tensor<4xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.reduce' op changes the element from 'f32' to 'f64'}}
  %0 = phobos.reduce <max> %a axis 1 : tensor<4x8xf32> -> tensor<4x1xf64>
  phobos.return
}

// -----

phobos.kernel @k() {
  %i = phobos.program_id 0
  %a = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.reduce' op has 1 valid extents for 2 axes}}
  %0 = phobos.reduce <max> %a axis 1 valid [%i] : tensor<4x8xf32> -> tensor<4x1xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.arg_reduce' op gives i32 positions, not 'f32'}}
  %0 = phobos.arg_reduce %a axis 1 : tensor<4x8xf32> -> tensor<4x1xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<4x8xf32>
  // expected-error@+1 {{'phobos.arg_reduce' op 'tensor<4x8xi32>' is not 'tensor<4x8xf32>' with axis 1 reduced to 1}}
  %0 = phobos.arg_reduce %a axis 1 : tensor<4x8xf32> -> tensor<4x8xi32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<8xf32>
  // expected-error@+2 {{expected ::phobos::ReduceKind to be one of: sum, prod, max, min, any, all}}
  // expected-error@+1 {{failed to parse Phobos_ReduceKindAttr}}
  %0 = phobos.reduce <mean> %a axis 0 : tensor<8xf32> -> tensor<1xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<8xf32>
  // expected-error@+1 {{'phobos.scan' op axis 2 of a tile of rank 1}}
  %0 = phobos.scan <sum> %a axis 2 : tensor<8xf32>
  phobos.return
}

// -----

phobos.kernel @k() {
  %i = phobos.program_id 0
  %a = phobos.undef : tensor<8xf32>
  // expected-error@+1 {{'phobos.scan' op has 2 valid extents for 1 axes}}
  %0 = phobos.scan <sum> %a axis 0 valid [%i, %i] : tensor<8xf32>
  phobos.return
}

// -----

// Maps.

phobos.kernel @k() {
  %a = phobos.undef : tensor<8xf32>
  // expected-error@+1 {{'phobos.map' op has 1 inputs but 2 body arguments}}
  %0 = phobos.map(%a) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%x: f32, %y: f32):
    phobos.yield %x : f32
  }
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<8xf32>
  // expected-error@+1 {{'phobos.map' op body argument 'f16' for input 'tensor<8xf32>'}}
  %0 = phobos.map(%a) : (tensor<8xf32>) -> tensor<8xf16> {
  ^bb0(%x: f16):
    phobos.yield %x : f16
  }
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<8x8xf32>
  // expected-error@+1 {{'phobos.map' op input 'tensor<8x8xf32>' has a higher rank than 'tensor<8xf32>'}}
  %0 = phobos.map(%a) : (tensor<8x8xf32>) -> tensor<8xf32> {
  ^bb0(%x: f32):
    phobos.yield %x : f32
  }
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<4xf32>
  // expected-error@+1 {{'phobos.map' op input 'tensor<4xf32>' does not stretch to 'tensor<8xf32>'}}
  %0 = phobos.map(%a) : (tensor<4xf32>) -> tensor<8xf32> {
  ^bb0(%x: f32):
    phobos.yield %x : f32
  }
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<8xf32>
  // expected-error@+1 {{'phobos.map' op body must yield 'f16'}}
  %0 = phobos.map(%a) : (tensor<8xf32>) -> tensor<8xf16> {
  ^bb0(%x: f32):
    phobos.yield %x : f32
  }
  phobos.return
}

// -----

phobos.kernel @k() {
  %i = phobos.program_id 0
  %a = phobos.undef : tensor<8xf32>
  // expected-error@+1 {{'phobos.map' op has 2 valid extents for 1 axes}}
  %0 = phobos.map(%a) valid [%i, %i] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%x: f32):
    phobos.yield %x : f32
  }
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<8xf32>
  // expected-error@+1 {{'phobos.map' op body must yield 'f32'}}
  %0 = phobos.map(%a) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%x: f32):
    %y = arith.addf %x, %x : f32
  }
  phobos.return
}

// -----

phobos.kernel @k(%s: f32) {
  // expected-note@+2 {{required by region isolation constraints}}
  %a = phobos.undef : tensor<8xf32>
  %0 = phobos.map(%a) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%x: f32):
    // expected-error@+1 {{'arith.addf' op using value defined outside the region}}
    %y = arith.addf %x, %s : f32
    phobos.yield %y : f32
  }
  phobos.return
}

// -----

phobos.kernel @k() {
  // expected-error@+1 {{'phobos.lane' op expects parent op 'phobos.map'}}
  %0 = phobos.lane 0 : i32
  phobos.return
}

// -----

phobos.kernel @k() {
  %a = phobos.undef : tensor<8xf32>
  %0 = phobos.map(%a) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%x: f32):
    // expected-error@+1 {{'phobos.lane' op axis 1 of a map of rank 1}}
    %l = phobos.lane 1 : i32
    phobos.yield %x : f32
  }
  phobos.return
}

// -----

// What MLIR itself checks on tiles: a mismatch of names is one of types.

phobos.kernel @k(%s: f32) {
  %a = phobos.splat %s : tensor<?xf32, #phobos.dims<["TILE_M"]>>
  // expected-note@-1 {{prior use here}}
  %b = phobos.splat %s : tensor<?xf32, #phobos.dims<["TILE_N"]>>
  // expected-error@+1 {{expects different type than prior uses}}
  %c = arith.addf %a, %a : tensor<?xf32, #phobos.dims<["TILE_N"]>>
  phobos.return
}
