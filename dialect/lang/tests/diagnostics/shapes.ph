@autotune(TILE_M in [16, 64], TILE_N in [16, 64])
kernel k(A: tensor<f32>[M, K], B: tensor<f32>[K, N], n: i32) {
  let a = A[0 :+ TILE_M, 0 :+ 32]
  let b = B[0 :+ 64, 0 :+ TILE_N]
  let c = dot(a, b)
//        ^^^^^^^^^ PH0021: `dot` of tile<f32>[TILE_M, 32] and tile<f32>[64, TILE_N] [inner extents 32 and 64]
//        help: `dot(a, b)` takes [M, K] and [K, N]; `dot_t(a, b)` takes [M, K] and [N, K]
  let d = dot_t(a, b)
//        ^^^^^^^^^^^ PH0021: `dot_t` of tile<f32>[TILE_M, 32] and tile<f32>[64, TILE_N] [inner extents 32 and TILE_N]
//        help: `dot_t(a, b)` takes [M, K] and [N, K]; `dot(a, b)` takes [M, K] and [K, N]
  let e = a + b
//        ^^^^^ PH0021: `+` of tile<f32>[TILE_M, 32] and tile<f32>[64, TILE_N] [[TILE_M, 32] against [64, TILE_N]]
//        help: axes meet from the last one: extent TILE_M does not meet 64
  let f = A[0]
//        ^^^^ PH0022: tensor `A` has 2 axes, this slice has 1 axis [dims are [M, K]]
//        help: write one subscript per axis; `:` is a whole axis
  let g = A[0, 0, 0]
//        ^^^^^^^^^^ PH0022: tensor `A` has 2 axes, this slice has 3 axes [dims are [M, K]]
//        help: write one subscript per axis; `:` is a whole axis
  let h: tile<f32>[TILE_M, n] = 0.0
//                         ^ PH0030: this extent is not known at compile time [i32]
//                         help: use an integer, a constant, an `@autotune` parameter or a tensor dim
  let i = A[0 :+ n, 0]
//               ^ PH0030: this extent is not known at compile time [i32]
//               help: use an integer, a constant, an `@autotune` parameter or a tensor dim
  let j = A[n : n + n, 0]
//          ^^^^^^^^^ PH0031: the length of this slice is not known at compile time
//          help: write `start :+ n` with a static n
  let l = A[4 : 4, 0]
//          ^^^^^ PH0031: this slice has length 0
//          help: write `start :+ n` with a static n
  let m = A[n * 4 : n * 4 + TILE_M, 0]
  A[n * 4 : n * 4 + TILE_M, 0] = a
//                               ^ PH0021: this part of `A` is tile<f32>[TILE_M], not tile<f32>[TILE_M, 32]
  let o: tile<f32>[0] = 0.0
//                 ^ PH0030: an extent is positive, not 0
  let p: tile<f32>[1, 1, 1, 1, 1] = 0.0
//       ^^^^^^^^^^^^^^^^^^^^^^^^ PH0034: a tile has 1 to 4 axes, not 5
  let q = reshape(a, [TILE_M, 16])
//        ^^^^^^^^^^^^^^^^^^^^^^^^ PH0021: tile<f32>[TILE_M, 32] cannot become [TILE_M, 16]
//        help: the numbers of elements must be equal whatever the parameters are
  let r = broadcast(a, [TILE_M, 64])
//        ^^^^^^^^^^^^^^^^^^^^^^^^^^ PH0021: tile<f32>[TILE_M, 32] does not stretch to [TILE_M, 64]
  let s = a[0, 32]
//             ^^ PH0035: this lies outside the tile [the axis has extent 32]
  let t = a[0 :+ 64, 0 :+ 64]
//                   ^^^^^^^ PH0035: this lies outside the tile [the axis has extent 32]
  let u = flat(a)
//        ^^^^^^^ PH0030: the elements of tile<f32>[TILE_M, 32] are not one static extent
//        help: at most one extent may be a parameter, and the others 1
  let v = where(a < 0.0, b, 0.0)
//        ^^^^^^^^^^^^^^^^^^^^^^ PH0021: `where` of tile<bool>[TILE_M, 32] and tile<f32>[64, TILE_N] [[TILE_M, 32] against [64, TILE_N]]
  let w = iota([TILE_M, 2], 2)
//                          ^ PH0035: there is no axis 2 [tile<i32>[TILE_M, 2] has 2]
  let x = sum(a, 1) else 0.0
//                  ^^^^ PH0004: expected the end of the statement, found the keyword `else`
  let y = a[0, :] else 0.0
//                     ^^^ PH0033: `else` stands behind a slice of a tensor
//                     help: use `where` to choose elements of a tile
  let z = tril(a[0, :])
//             ^^^^^^^ PH0021: `tril` takes a tile of 2 axes, not 1 [tile<f32>[32]]
//             help: `reshape(x, [1, n])` adds an axis
}
// -----
kernel k(A: tensor<f32>[], B: tensor<f32>[M + 1], C: tensor<f32>[a, b, c, d, e, f, g, h, i]) {
//          ^^^^^^^^^^^^^ PH0034: a tensor has 1 to 8 axes, not 0
//                                        ^^^^^ PH0030: a tensor dim is a name or a positive integer
//                                        help: name it: the value comes from the tensor at launch
//                                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ PH0034: a tensor has 1 to 8 axes, not 9
}
// -----
kernel k(A: tensor<f32>[3, 4, 5, 6, 7]) {
  let a = A[:, :, :, :, :]
//        ^^^^^^^^^^^^^^^^ PH0034: this slice has 5 axes
//        help: a tile has at most 4; take points on the others
}
