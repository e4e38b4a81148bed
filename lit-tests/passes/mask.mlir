// phobos-mask makes the validity of tiles explicit.
// RUN: phobos-opt %s --pass-pipeline='builtin.module(phobos.kernel(phobos-mask,canonicalize,cse))' --split-input-file | FileCheck %s

// A load is valid up to the edge of its tensor, and a store writes what is valid and inside.
// CHECK-LABEL: @load
phobos.kernel @load(%A: !phobos.tensor<[N], f32>) {
  // CHECK-DAG: %[[I:.*]] = phobos.program_id 0
  // CHECK-DAG: %[[N:.*]] = phobos.dim "N"
  // CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : index
  // CHECK-DAG: %[[FULL:.*]] = arith.constant 64 : index
  %i = phobos.program_id 0
  // CHECK: %[[LEFT:.*]] = arith.subi %[[N]], %[[I]] : index
  // CHECK: %[[SOME:.*]] = arith.maxsi %[[LEFT]], %[[ZERO]] : index
  // CHECK: %[[V:.*]] = arith.minsi %[[SOME]], %[[FULL]] : index
  // CHECK: %[[T:[a-z0-9]+]] = phobos.load %{{.*}}[%[[I]]] valid[%[[V]]]
  %t = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  // CHECK: phobos.store %[[T]], %{{.*}}[%[[I]]] valid[%{{.*}}]
  phobos.store %t, %A[%i] : tensor<64xf32>, !phobos.tensor<[N], f32>
  phobos.return
}

// -----

// A slice that starts before the tensor is wholly invalid; one that cannot, needs no test.
// CHECK-LABEL: @before
phobos.kernel @before(%A: !phobos.tensor<[N], f32>, %k: i32) {
  // CHECK: %[[K:.*]] = arith.index_cast %{{.*}} : i32 to index
  %i = arith.index_cast %k : i32 to index
  // CHECK: %[[NEGATIVE:.*]] = arith.cmpi slt, %[[K]], %{{.*}} : index
  // CHECK: %[[V:.*]] = arith.select %[[NEGATIVE]], %{{.*}}, %{{.*}} : index
  // CHECK: phobos.load %{{.*}}[%[[K]]] valid[%[[V]]]
  %t = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  phobos.store %t, %A[%i] : tensor<64xf32>, !phobos.tensor<[N], f32>
  phobos.return
}

// -----

// `else` makes a tile wholly valid; the load itself still needs the edge.
// CHECK-LABEL: @else
phobos.kernel @else(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[64], f32>, %s: f32) {
  %i = phobos.program_id 0
  %zero = arith.constant 0 : index
  // CHECK: %[[T:[a-z0-9]+]] = phobos.load %{{.*}} else %{{.*}} : f32 valid[%{{.*}}]
  %t = phobos.load %A[%i] else %s : f32 : !phobos.tensor<[N], f32> -> tensor<64xf32>
  // CHECK: phobos.store %[[T]], %{{.*}}[%{{.*}}] : tensor<64xf32>
  phobos.store %t, %B[%zero] : tensor<64xf32>, !phobos.tensor<[64], f32>
  phobos.return
}

// -----

// Proven inside: constant offsets in constant extents, and one program per position.
// CHECK-LABEL: @proven
phobos.kernel @proven(%A: !phobos.tensor<[M, 96], f32>) attributes {grid = ["M"]} {
  %m = phobos.program_id 0
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  // CHECK: phobos.load %{{.*}}[%{{.*}}] : !phobos.tensor<[M, 96], f32> -> tensor<1x64xf32>
  %t = phobos.load %A[%m, %c32] : !phobos.tensor<[M, 96], f32> -> tensor<1x64xf32>
  // CHECK: phobos.store %{{.*}} : tensor<1x64xf32>
  phobos.store %t, %A[%m, %c32] : tensor<1x64xf32>, !phobos.tensor<[M, 96], f32>
  // CHECK: phobos.load %{{.*}} valid[%c1, %c32]
  %u = phobos.load %A[%m, %c64] : !phobos.tensor<[M, 96], f32> -> tensor<1x64xf32>
  // CHECK: phobos.store %{{.*}} valid[%c1, %c32]
  phobos.store %u, %A[%m, %c64] : tensor<1x64xf32>, !phobos.tensor<[M, 96], f32>
  phobos.return
}

// -----

// Another axis of the grid, or a tile longer than one, proves nothing.
// CHECK-LABEL: @not_proven
phobos.kernel @not_proven(%A: !phobos.tensor<[M], f32>) attributes {grid = ["M", "N"]} {
  %m = phobos.program_id 0
  %n = phobos.program_id 1
  // CHECK: phobos.load %{{.*}} valid[
  %t = phobos.load %A[%n] : !phobos.tensor<[M], f32> -> tensor<1xf32>
  // CHECK: phobos.load %{{.*}} valid[
  %u = phobos.load %A[%m] : !phobos.tensor<[M], f32> -> tensor<2xf32>
  phobos.store %t, %A[%n] : tensor<1xf32>, !phobos.tensor<[M], f32>
  phobos.store %u, %A[%m] : tensor<2xf32>, !phobos.tensor<[M], f32>
  phobos.return
}

// -----

// An element is valid where it is valid in every input.
// CHECK-LABEL: @intersect
phobos.kernel @intersect(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[M], f32>, %C: !phobos.tensor<[64], f32>) {
  %i = phobos.program_id 0
  %zero = arith.constant 0 : index
  // CHECK: phobos.load %{{.*}} valid[%[[A:[a-z0-9]+]]] : !phobos.tensor<[N], f32>
  %a = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
  // CHECK: phobos.load %{{.*}} valid[%[[B:[a-z0-9]+]]] : !phobos.tensor<[M], f32>
  %b = phobos.load %B[%i] : !phobos.tensor<[M], f32> -> tensor<64xf32>
  // CHECK: %[[BOTH:.*]] = arith.minsi %[[A]], %[[B]] : index
  // CHECK: phobos.map(%{{.*}}) valid[%[[BOTH]]]
  %c = phobos.map(%a, %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%x: f32, %y: f32):
    %z = arith.addf %x, %y : f32
    phobos.yield %z : f32
  }
  // CHECK: phobos.store %{{.*}} valid[%[[BOTH]]]
  phobos.store %c, %C[%zero] : tensor<64xf32>, !phobos.tensor<[64], f32>
  phobos.return
}

// -----

// The one lane of an axis that stretches decides about all it becomes: 0 or 16 lanes.
// CHECK-LABEL: @stretch
phobos.kernel @stretch(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[16], f32>) {
  %i = phobos.program_id 0
  %zero = arith.constant 0 : index
  // CHECK: phobos.load %{{.*}} valid[%[[A:[a-z0-9]+]]]
  %a = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<1xf32>
  // CHECK: %[[ALL:.*]] = arith.muli %[[A]], %c16 : index
  // CHECK: phobos.map(%{{.*}}) valid[%[[ALL]]] : (tensor<1xf32>) -> tensor<16xf32>
  %c = phobos.map(%a) : (tensor<1xf32>) -> tensor<16xf32> {
  ^bb0(%x: f32):
    phobos.yield %x : f32
  }
  phobos.store %c, %B[%zero] : tensor<16xf32>, !phobos.tensor<[16], f32>
  // CHECK: phobos.store %{{.*}} valid[%[[ALL]]]
  // A stretch that must be a tile behaves the same.
  %b = phobos.broadcast %a : tensor<1xf32> -> tensor<16xf32>
  // CHECK: %[[B:.*]] = phobos.broadcast
  // CHECK: phobos.store %[[B]], %{{.*}} valid[%[[ALL]]]
  phobos.store %b, %B[%zero] : tensor<16xf32>, !phobos.tensor<[16], f32>
  phobos.return
}

// -----

// A dot is valid in the rows of its left and the columns of its right side, and sums the k that
// are valid in both.
// CHECK-LABEL: @dot
phobos.kernel @dot(%A: !phobos.tensor<[M, K], f32>, %B: !phobos.tensor<[K, N], f32>, %C: !phobos.tensor<[M, N], f32>, %s: f32) {
  %i = phobos.program_id 0
  // CHECK: phobos.load %{{.*}} valid[%[[M:[a-z0-9]+]], %[[KA:[a-z0-9]+]]] : !phobos.tensor<[M, K], f32>
  %a = phobos.load %A[%i, %i] : !phobos.tensor<[M, K], f32> -> tensor<4x8xf32>
  // CHECK: phobos.load %{{.*}} valid[%[[KB:[a-z0-9]+]], %[[N:[a-z0-9]+]]] : !phobos.tensor<[K, N], f32>
  %b = phobos.load %B[%i, %i] : !phobos.tensor<[K, N], f32> -> tensor<8x16xf32>
  %acc = phobos.splat %s : tensor<4x16xf32>
  // Both k are the same here, and CSE sees it.
  // CHECK: phobos.dot %{{.*}} valid[%[[M]], %[[N]], %{{.*}}]
  %d = phobos.dot %a, %b, %acc : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  // CHECK: phobos.store
  phobos.store %d, %C[%i, %i] : tensor<4x16xf32>, !phobos.tensor<[M, N], f32>
  phobos.return
}

// -----

// Transposed: the rows of the right side are the columns of the result.
// CHECK-LABEL: @dot_transposed
phobos.kernel @dot_transposed(%B: !phobos.tensor<[N, 8], f32>, %C: !phobos.tensor<[4, 16], f32>, %s: f32) {
  %i = phobos.program_id 0
  %zero = arith.constant 0 : index
  %a = phobos.splat %s : tensor<4x8xf32>
  // CHECK: phobos.load %{{.*}} valid[%[[N:[a-z0-9]+]], %c8]
  %b = phobos.load %B[%i, %zero] : !phobos.tensor<[N, 8], f32> -> tensor<16x8xf32>
  %acc = phobos.splat %s : tensor<4x16xf32>
  // CHECK: phobos.dot %{{.*}} valid[%c4, %[[N]], %c8] transposed
  %d = phobos.dot %a, %b, %acc transposed : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
  // CHECK: phobos.store %{{.*}} valid[%c4, %[[N]]]
  phobos.store %d, %C[%zero, %zero] : tensor<4x16xf32>, !phobos.tensor<[4, 16], f32>
  phobos.return
}

// -----

// Reductions and scans see the valid lanes; the reduced axis is whole, the others stay.
// CHECK-LABEL: @reduce
phobos.kernel @reduce(%A: !phobos.tensor<[M, N], f32>, %B: !phobos.tensor<[8, 1], f32>, %C: !phobos.tensor<[8, 16], f32>,
                      %D: !phobos.tensor<[8, 1], i32>) {
  %i = phobos.program_id 0
  %zero = arith.constant 0 : index
  // CHECK: phobos.load %{{.*}} valid[%[[M:[a-z0-9]+]], %[[N:[a-z0-9]+]]]
  %a = phobos.load %A[%i, %i] : !phobos.tensor<[M, N], f32> -> tensor<8x16xf32>
  // CHECK: phobos.reduce <max> %{{.*}} axis 1 valid[%[[M]], %[[N]]]
  %r = phobos.reduce <max> %a axis 1 : tensor<8x16xf32> -> tensor<8x1xf32>
  // CHECK: phobos.store %{{.*}} valid[%[[M]], %c1]
  phobos.store %r, %B[%zero, %zero] : tensor<8x1xf32>, !phobos.tensor<[8, 1], f32>
  // CHECK: phobos.scan <sum> %{{.*}} axis 1 valid[%[[M]], %[[N]]]
  %s = phobos.scan <sum> %a axis 1 : tensor<8x16xf32>
  // CHECK: phobos.store %{{.*}} valid[%[[M]], %[[N]]]
  phobos.store %s, %C[%zero, %zero] : tensor<8x16xf32>, !phobos.tensor<[8, 16], f32>
  // CHECK: phobos.arg_reduce %{{.*}} axis 1 valid[%[[M]], %[[N]]]
  %p = phobos.arg_reduce %a axis 1 : tensor<8x16xf32> -> tensor<8x1xi32>
  // CHECK: phobos.store %{{.*}} valid[%[[M]], %c1]
  phobos.store %p, %D[%zero, %zero] : tensor<8x1xi32>, !phobos.tensor<[8, 1], i32>
  phobos.return
}

// -----

// Validity moves with the axes; decode keeps it.
// CHECK-LABEL: @move
phobos.kernel @move(%A: !phobos.tensor<[M, 64], !phobos.block<q8_0>>, %B: !phobos.tensor<[64, 8], f32>) {
  %i = phobos.program_id 0
  %zero = arith.constant 0 : index
  // CHECK: phobos.load %{{.*}} valid[%[[M:[a-z0-9]+]], %c64]
  %a = phobos.load %A[%i, %zero] : !phobos.tensor<[M, 64], !phobos.block<q8_0>> -> tensor<8x64x!phobos.block<q8_0>>
  %d = phobos.decode %a : tensor<8x64x!phobos.block<q8_0>> -> tensor<8x64xf32>
  %t = phobos.transpose %d : tensor<8x64xf32> -> tensor<64x8xf32>
  // CHECK: phobos.store %{{.*}} valid[%c64, %[[M]]]
  phobos.store %t, %B[%zero, %zero] : tensor<64x8xf32>, !phobos.tensor<[64, 8], f32>
  phobos.return
}

// -----

// What is quantised is as valid as before; a product of codes has the extents of any other.
// CHECK-LABEL: @quantize
phobos.kernel @quantize(%X: !phobos.tensor<[M, K], f32>, %W: !phobos.tensor<[N, K], !phobos.block<q8_0>>, %Q: !phobos.tensor<[4, 64], !phobos.block<q8_1>>, %Y: !phobos.tensor<[4, 16], f32>, %s: f32) {
  %i = phobos.program_id 0
  %zero = arith.constant 0 : index
  // CHECK: %[[X:.*]] = phobos.load %{{.*}} valid[%[[M:[a-z0-9]+]], %[[K:[a-z0-9]+]]] : !phobos.tensor<[M, K], f32>
  %x = phobos.load %X[%i, %zero] : !phobos.tensor<[M, K], f32> -> tensor<4x64xf32>
  // CHECK: %[[Q:.*]] = phobos.quantize %[[X]] : tensor<4x64xf32> -> tensor<4x64x!phobos.block<q8_1>>
  %q = phobos.quantize %x : tensor<4x64xf32> -> tensor<4x64x!phobos.block<q8_1>>
  // CHECK: phobos.store %[[Q]], %{{.*}} valid[%[[M]], %[[K]]]
  phobos.store %q, %Q[%zero, %zero] : tensor<4x64x!phobos.block<q8_1>>, !phobos.tensor<[4, 64], !phobos.block<q8_1>>
  // CHECK: %[[W:.*]] = phobos.load %{{.*}} valid[%[[N:[a-z0-9]+]], %[[K]]]
  %w = phobos.load %W[%zero, %zero] : !phobos.tensor<[N, K], !phobos.block<q8_0>> -> tensor<16x64x!phobos.block<q8_0>>
  %c = phobos.splat %s : tensor<4x16xf32>
  // CHECK: %[[INNER:.*]] = arith.minsi %[[K]], %[[K]] : index
  // CHECK: phobos.dot %[[Q]], %[[W]], %{{.*}} valid[%[[M]], %[[N]], %[[INNER]]] transposed
  %y = phobos.dot %q, %w, %c transposed : tensor<4x64x!phobos.block<q8_1>>, tensor<16x64x!phobos.block<q8_0>> -> tensor<4x16xf32>
  // CHECK: phobos.store %{{.*}} valid[%[[M]], %[[N]]]
  phobos.store %y, %Y[%zero, %zero] : tensor<4x16xf32>, !phobos.tensor<[4, 16], f32>
  phobos.return
}

// -----

// Axes of extent 1 come and go; the lane of one that goes counts for the rest.
// CHECK-LABEL: @reshape
phobos.kernel @reshape(%A: !phobos.tensor<[M, N], f32>, %B: !phobos.tensor<[16], f32>) {
  %i = phobos.program_id 0
  %zero = arith.constant 0 : index
  // CHECK: phobos.load %{{.*}} valid[%[[M:[a-z0-9]+]], %[[N:[a-z0-9]+]]]
  %a = phobos.load %A[%i, %i] : !phobos.tensor<[M, N], f32> -> tensor<1x16xf32>
  // CHECK: %[[BOTH:.*]] = arith.muli %[[N]], %[[M]] : index
  %r = phobos.reshape %a : tensor<1x16xf32> -> tensor<16xf32>
  // CHECK: phobos.store %{{.*}} valid[%[[BOTH]]]
  phobos.store %r, %B[%zero] : tensor<16xf32>, !phobos.tensor<[16], f32>
  phobos.return
}

// -----

// An axis of extent 1 that stays keeps its own: the last ones meet, and what goes counts for the
// first axis.
// CHECK-LABEL: @kept
phobos.kernel @kept(%A: !phobos.tensor<[L, M, N], f32>, %B: !phobos.tensor<[2, 1], f32>) {
  %i = phobos.program_id 0
  %zero = arith.constant 0 : index
  // CHECK: phobos.load %{{.*}} valid[%[[L:[a-z0-9]+]], %[[M:[a-z0-9]+]], %[[N:[a-z0-9]+]]]
  %a = phobos.load %A[%i, %i, %i] : !phobos.tensor<[L, M, N], f32> -> tensor<1x2x1xf32>
  // CHECK: %[[FIRST:.*]] = arith.muli %[[M]], %[[L]] : index
  %r = phobos.reshape %a {points = array<i64: 0>} : tensor<1x2x1xf32> -> tensor<2x1xf32>
  // CHECK: phobos.store %{{.*}} valid[%[[FIRST]], %[[N]]]
  phobos.store %r, %B[%zero, %zero] : tensor<2x1xf32>, !phobos.tensor<[2, 1], f32>
  phobos.return
}

// -----

// Of axes of extent 1 alone, `points` says which goes.
// CHECK-LABEL: @points
phobos.kernel @points(%A: !phobos.tensor<[L, M, N], f32>, %B: !phobos.tensor<[1, 1], f32>) {
  %i = phobos.program_id 0
  %zero = arith.constant 0 : index
  // CHECK: phobos.load %{{.*}} valid[%[[L:[a-z0-9]+]], %[[M:[a-z0-9]+]], %[[N:[a-z0-9]+]]]
  %a = phobos.load %A[%i, %i, %i] : !phobos.tensor<[L, M, N], f32> -> tensor<1x1x1xf32>
  // CHECK: %[[FIRST:.*]] = arith.muli %[[L]], %[[N]] : index
  %r = phobos.reshape %a {points = array<i64: 2>} : tensor<1x1x1xf32> -> tensor<1x1xf32>
  // CHECK: phobos.store %{{.*}} valid[%[[FIRST]], %[[M]]]
  phobos.store %r, %B[%zero, %zero] : tensor<1x1xf32>, !phobos.tensor<[1, 1], f32>
  // CHECK: %[[OTHER:.*]] = arith.muli %[[M]], %[[L]] : index
  // CHECK: phobos.store %{{.*}} valid[%[[OTHER]], %[[N]]]
  %s = phobos.reshape %a : tensor<1x1x1xf32> -> tensor<1x1xf32>
  phobos.store %s, %B[%zero, %zero] : tensor<1x1xf32>, !phobos.tensor<[1, 1], f32>
  phobos.return
}

// -----

// A slice of a tile is valid as far as the tile is, and not before its start.
// CHECK-LABEL: @extract
phobos.kernel @extract(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[8], f32>, %k: i32) {
  %i = phobos.program_id 0
  %zero = arith.constant 0 : index
  %eight = arith.constant 8 : index
  %whole = phobos.load %B[%zero] : !phobos.tensor<[8], f32> -> tensor<8xf32>
  // CHECK: phobos.load %{{.*}} valid[%[[A:[a-z0-9]+]]] : !phobos.tensor<[N], f32>
  %a = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<16xf32>
  // CHECK: %[[LEFT:.*]] = arith.subi %[[A]], %c8 : index
  // CHECK: %[[SOME:.*]] = arith.maxsi %[[LEFT]], %c0 : index
  // CHECK: %[[V:.*]] = arith.minsi %[[SOME]], %c8 : index
  %e = phobos.extract %a[%eight] : tensor<16xf32> -> tensor<8xf32>
  // CHECK: phobos.store %{{.*}} valid[%[[V]]]
  phobos.store %e, %B[%zero] : tensor<8xf32>, !phobos.tensor<[8], f32>
  // CHECK: %[[K:.*]] = arith.index_cast
  %at = arith.index_cast %k : i32 to index
  // CHECK: %[[NEGATIVE:.*]] = arith.cmpi slt, %[[K]], %c0 : index
  // CHECK: %[[W:.*]] = arith.select %[[NEGATIVE]], %c0, %{{.*}} : index
  %f = phobos.extract %whole[%at] : tensor<8xf32> -> tensor<4xf32>
  // CHECK: phobos.store %{{.*}} valid[%[[W]]]
  phobos.store %f, %B[%zero] : tensor<4xf32>, !phobos.tensor<[8], f32>
  phobos.return
}

// -----

// A tile put into another: what is invalid in it becomes 0, and the whole keeps its validity.
// CHECK-LABEL: @insert
phobos.kernel @insert(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[16], f32>, %s: f32) {
  %i = phobos.program_id 0
  %zero = arith.constant 0 : index
  %d = phobos.splat %s : tensor<16xf32>
  // CHECK: phobos.load %{{.*}} valid[%[[A:[a-z0-9]+]]]
  %a = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<8xf32>
  // CHECK: phobos.insert %{{.*}} into %{{.*}}[%{{.*}}] valid[%[[A]]]
  %t = phobos.insert %a into %d[%zero] : tensor<8xf32> into tensor<16xf32>
  // CHECK: phobos.store %{{.*}}[%{{.*}}] : tensor<16xf32>
  phobos.store %t, %B[%zero] : tensor<16xf32>, !phobos.tensor<[16], f32>
  phobos.return
}

// -----

// Loops carry the extents of their tiles beside them: first whole, then that of the load.
// CHECK-LABEL: @for
phobos.kernel @for(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[16], f32>, %s: f32) {
  %n = phobos.dim "N"
  %zero = arith.constant 0 : index
  %step = arith.constant 16 : index
  %first = phobos.splat %s : tensor<16xf32>
  // CHECK: %[[R:.*]]:2 = scf.for {{.*}} iter_args(%[[T:.*]] = %{{.*}}, %[[E:.*]] = %c16) -> (tensor<16xf32>, index)
  %r = scf.for %k = %zero to %n step %step iter_args(%acc = %first) -> (tensor<16xf32>) {
    // CHECK: phobos.load %{{.*}} valid[%[[L:[a-z0-9]+]]]
    %x = phobos.load %A[%k] : !phobos.tensor<[N], f32> -> tensor<16xf32>
    // CHECK: %[[BOTH:.*]] = arith.minsi %[[E]], %[[L]] : index
    // CHECK: %[[M:[a-z0-9]+]] = phobos.map(%[[T]], %{{.*}}) valid[%[[BOTH]]]
    %m = phobos.map(%acc, %x) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32> {
    ^bb0(%p: f32, %q: f32):
      %z = arith.addf %p, %q : f32
      phobos.yield %z : f32
    }
    // CHECK: scf.yield %[[M]], %[[BOTH]] : tensor<16xf32>, index
    scf.yield %m : tensor<16xf32>
  }
  // CHECK: phobos.store %[[R]]#0, %{{.*}} valid[%[[R]]#1]
  phobos.store %r, %B[%zero] : tensor<16xf32>, !phobos.tensor<[16], f32>
  phobos.return
}

// -----

// A loop whose tiles stay whole is left as it is.
// CHECK-LABEL: @for_whole
phobos.kernel @for_whole(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[16], f32>, %s: f32) {
  %n = phobos.dim "N"
  %zero = arith.constant 0 : index
  %step = arith.constant 16 : index
  %first = phobos.splat %s : tensor<1xf32>
  // CHECK: scf.for {{.*}} -> (tensor<1xf32>)
  %r = scf.for %k = %zero to %n step %step iter_args(%acc = %first) -> (tensor<1xf32>) {
    %x = phobos.load %A[%k] : !phobos.tensor<[N], f32> -> tensor<16xf32>
    %m = phobos.reduce <sum> %x axis 0 : tensor<16xf32> -> tensor<1xf32>
    // CHECK: scf.yield %{{[^,]*}} : tensor<1xf32>
    scf.yield %m : tensor<1xf32>
  }
  phobos.store %r, %B[%zero] : tensor<1xf32>, !phobos.tensor<[16], f32>
  phobos.return
}

// -----

// Both branches give the extent; one that is whole gives the full one.
// CHECK-LABEL: @if
phobos.kernel @if(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[16], f32>, %s: f32, %c: i1) {
  %i = phobos.program_id 0
  %zero = arith.constant 0 : index
  // CHECK: %[[R:.*]]:2 = scf.if %{{.*}} -> (tensor<16xf32>, index) {
  %r = scf.if %c -> (tensor<16xf32>) {
    // CHECK: %[[X:[a-z0-9]+]] = phobos.load %{{.*}} valid[%[[L:[a-z0-9]+]]]
    %x = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<16xf32>
    // CHECK: scf.yield %[[X]], %[[L]]
    scf.yield %x : tensor<16xf32>
  } else {
    %y = phobos.splat %s : tensor<16xf32>
    // CHECK: scf.yield %{{.*}}, %c16
    scf.yield %y : tensor<16xf32>
  }
  // CHECK: phobos.store %[[R]]#0, %{{.*}} valid[%[[R]]#1]
  phobos.store %r, %B[%zero] : tensor<16xf32>, !phobos.tensor<[16], f32>
  phobos.return
}

// -----

// CHECK-LABEL: @while
phobos.kernel @while(%A: !phobos.tensor<[N], f32>, %B: !phobos.tensor<[16], f32>, %s: f32) {
  %n = phobos.dim "N"
  %zero = arith.constant 0 : index
  %step = arith.constant 16 : index
  %first = phobos.splat %s : tensor<16xf32>
  // CHECK: %[[R:.*]]:3 = scf.while (%{{.*}} = %c0, %[[T:.*]] = %{{.*}}, %[[E:.*]] = %c16) : (index, tensor<16xf32>, index) -> (index, tensor<16xf32>, index)
  %r:2 = scf.while (%k = %zero, %acc = %first) : (index, tensor<16xf32>) -> (index, tensor<16xf32>) {
    %more = arith.cmpi slt, %k, %n : index
    // CHECK: scf.condition(%{{.*}}) %{{.*}}, %[[T]], %[[E]] : index, tensor<16xf32>, index
    scf.condition(%more) %k, %acc : index, tensor<16xf32>
  } do {
  ^bb0(%k: index, %acc: tensor<16xf32>):
    // CHECK: %[[X:[a-z0-9]+]] = phobos.load %{{.*}} valid[%[[L:[a-z0-9]+]]]
    %x = phobos.load %A[%k] : !phobos.tensor<[N], f32> -> tensor<16xf32>
    %next = arith.addi %k, %step : index
    // CHECK: scf.yield %{{.*}}, %[[X]], %[[L]] : index, tensor<16xf32>, index
    scf.yield %next, %x : index, tensor<16xf32>
  }
  // CHECK: phobos.store %[[R]]#1, %{{.*}} valid[%[[R]]#2]
  phobos.store %r#1, %B[%zero] : tensor<16xf32>, !phobos.tensor<[16], f32>
  phobos.return
}
