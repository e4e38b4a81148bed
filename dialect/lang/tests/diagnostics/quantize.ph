// bind F=q4_k D=f64
// What `quantize` takes and makes.
@autotune(T in [32, 48, 64]) @grid(1)
kernel k[F: format, D: dtype](X: tensor<f32>[N, K], H: tensor<f16>[N, K], I: tensor<i32>[N], W: tensor<q8_0>[N, K2],
                              Y: tensor<q8_1>[N, K2], Q: tensor<q16_1>[N, K2], s: f32) {
  let x = X[0 :+ 4, 0 :+ 64]
  let a = quantize(x, q4_k)
//                    ^^^^ PH0024: q4_k cannot be made by `quantize`
//                    help: expected q8_1, q16_1, or a float type: f32, f16, bf16
  let b = quantize(x, F)
//                    ^ PH0024: q4_k cannot be made by `quantize`
//                    help: expected q8_1, q16_1, or a float type: f32, f16, bf16
  let c = quantize(x, D)
//                    ^ PH0024: f64 cannot be made by `quantize`
//                    help: expected q8_1, q16_1, or a float type: f32, f16, bf16
  let d = quantize(x, i8)
//                    ^^ PH0024: i8 cannot be made by `quantize`
//                    help: expected q8_1, q16_1, or a float type: f32, f16, bf16
  let e = quantize(x, q8_2)
//                    ^^^^ PH0013: unknown element type `q8_2`
//                    help: did you mean `q8_0`?
  let f = quantize(x, 1)
//                    ^ PH0024: the second argument of `quantize` is the name of an element
//                    help: write `q8_1`, or a generic parameter of the kernel
  let g = quantize(x, Y[0, 0])
//                    ^^^^^^^ PH0024: the second argument of `quantize` is the name of an element
//                    help: write `q8_1`, or a generic parameter of the kernel
  let h = quantize(s, q8_1)
//                 ^ PH0024: `quantize` takes a tile of f32, not f32
  let i = quantize(1.0, q8_1)
//                 ^^^ PH0024: `quantize` takes a tile of f32, not a float literal
  let j = quantize(H[0 :+ 4, 0 :+ 64], q8_1)
//                 ^^^^^^^^^^^^^^^^^^ PH0024: `quantize` takes a tile of f32, not tile<f16>[4, 64]
//                 help: write a cast: `f32(x)`
  let l = quantize(I[0 :+ 64], F)
//                 ^^^^^^^^^^ PH0024: `quantize` takes a tile of f32, not tile<i32>[64]
//                 help: write a cast: `f32(x)`
  let m = quantize(W[0 :+ 4, 0 :+ 64], q8_1)
//                 ^^^^^^^^^^^^^^^^^^ PH0024: `quantize` takes a tile of f32, not tile<q8_0>[4, 64]
//                 help: write a cast: `f32(x)`
  let n = quantize(x)
//        ^^^^^^^^^^^ PH0023: `quantize` takes 2 arguments, not 1
//        help: quantize(x: tile<f32>, F) -> tile<F>
  let o = quantize(x, format = q8_1)
//                    ^^^^^^ PH0019: unknown keyword argument `format`
//                    help: arguments of `quantize` stand in order, without names: quantize(x: tile<f32>, F) -> tile<F>
  let p = quantize(X, q8_1)
//                 ^ PH0025: `X` is a tensor and not a value
//                 help: read a part of it: `A[i, j]`, `A[i :+ n, :]`
  let q = q8_1(x)
//        ^^^^^^^ PH0060: a cast to q8_1 blocks
//        help: write `quantize(x, q8_1)`
  let r = quantize(X[0 :+ 4, 0 :+ 48], q16_1)
//                 ^^^^^^^^^^^^^^^^^^ PH0032: the last extent of this tile, 48, is not provably a multiple of 32 [a block of q16_1 has 32 elements]
//                 help: use a multiple of 32, or an `@autotune` parameter
  let t = quantize(X[0, :], q8_1)
  let u = quantize(x, q8_0)
//                    ^^^^ PH0024: q8_0 cannot be made by `quantize`
//                    help: expected q8_1, q16_1, or a float type: f32, f16, bf16
  let v = quantize(X[0 :+ 4, 0 :+ T], q8_1)
  let w = quantize(f32(Y[0, :]), q16_1)
}
// -----
// What a tile of a format of activations is for.
@grid(1)
kernel k(X: tensor<f32>[N, K], W: tensor<q8_0>[N, K], G: tensor<f32>[N, K], Y: tensor<q8_1>[N, K], Z: tensor<q16_1>[N, K]) {
  let x = X[0 :+ 4, 0 :+ 64]
  let w = W[0 :+ 16, 0 :+ 64]
  let q = quantize(x, q8_1)
  let a = dot_t(q, G[0 :+ 16, 0 :+ 64])
//        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ PH0020: `dot_t` of tile<q8_1>[4, 64] and tile<f32>[16, 64] [q8_1 and f32]
//        help: decode the q8_1 tile with `f32(x)`; as it is it meets blocks of weights: `dot_t(x, w)`
  let b = dot_t(q, q)
//        ^^^^^^^^^^^ PH0020: `dot_t` of tile<q8_1>[4, 64] and tile<q8_1>[4, 64] [q8_1 and q8_1]
//        help: decode the q8_1 tile with `f32(x)`; as it is it meets blocks of weights: `dot_t(x, w)`
  let c = dot_t(x, q)
//        ^^^^^^^^^^^ PH0020: `dot_t` of tile<f32>[4, 64] and tile<q8_1>[4, 64] [f32 and q8_1]
//        help: decode the q8_1 tile with `f32(x)`; as it is it meets blocks of weights: `dot_t(x, w)`
  let d = dot(q, G[0 :+ 64, 0 :+ 64])
//        ^^^^^^^^^^^^^^^^^^^^^^^^^^^ PH0020: `dot` of tile<q8_1>[4, 64] and tile<f32>[64, 64] [q8_1 and f32]
//        help: decode the q8_1 tile with `f32(x)`; as it is it meets blocks of weights: `dot_t(x, w)`
  let e = dot_t(q, w, precision = tf32)
//        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ PH0024: `precision` lowers f32 operands, and these are q8_1
//        help: remove `precision`
  let f = dot_t(q, W[0 :+ 16, 0 :+ 32])
//        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ PH0021: `dot_t` of tile<q8_1>[4, 64] and tile<q8_0>[16, 32] [inner extents 64 and 32]
//        help: `dot_t(a, b)` takes [M, K] and [N, K]; `dot(a, b)` takes [M, K] and [K, N]
  let g = q + q
//        ^ PH0020: `+` of tile<q8_1>[4, 64]
//        help: decode the q8_1 tile first with a cast: `f32(x)`
  let h = -q
//        ^^ PH0020: `-` takes a number, not tile<q8_1>[4, 64]
  let i = exp(q)
//            ^ PH0024: `exp` does not take q8_1 blocks
//            help: decode them first with a cast: `f32(x)`
  let j = q[0 :+ 1, :]
//        ^^^^^^^^^^^^ PH0060: a slice of a tile of q8_1 blocks
//        help: slice the tensor, or decode first: `f32(w)`
  let l = rowsum(q)
//               ^ PH0024: `rowsum` does not take q8_1 blocks
//               help: decode them first with a cast: `f32(x)`
  let m = transpose(q)
//                  ^ PH0024: `transpose` does not take q8_1 blocks
//                  help: decode them first with a cast: `f32(x)`
  let n = where(true, q, q)
//                    ^ PH0020: `where` of tile<q8_1>[4, 64]
//                    help: decode the q8_1 tile first with a cast: `f32(x)`
  var o = q
//    ^ PH0060: a `var` of q8_1 blocks
//    help: blocks do not change: bind them with `let`, or decode them: `f32(x)`
  var p: tile<q8_1>[4, 64]
//    ^ PH0060: a `var` of q8_1 blocks
//    help: blocks do not change: bind them with `let`, or decode them: `f32(x)`
  var r = w
//    ^ PH0060: a `var` of q8_0 blocks
//    help: blocks do not change: bind them with `let`, or decode them: `f32(x)`
  p = q
  let t: tile<q16_1>[4, 64] = q
//                            ^ PH0020: `t` is tile<q16_1>[4, 64], not tile<q8_1>[4, 64] [q8_1 where q16_1 is expected]
//                            help: write `quantize(f32(q), q16_1)`
  let u: tile<q8_1>[8, 64] = quantize(X[0 :+ 1, 0 :+ 64], q8_1)
//                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ PH0021: `u` is tile<q8_1>[8, 64], not tile<q8_1>[1, 64]
  Y[0 :+ 4, 0 :+ 64] = x
//                     ^ PH0020: this part of `Y` is tile<q8_1>[4, 64], not tile<f32>[4, 64] [f32 where q8_1 is expected]
//                     help: write `quantize(x, q8_1)`
  Y[0 :+ 4, 0 :+ 64] = 0.0
//                     ^^^ PH0020: a float literal where q8_1 is expected
  Y[0 :+ 4, 0 :+ 64] += q
// ^^^^^^^^^^^^^^^^^^^^^^^ PH0020: `+=` into a tensor of q8_1 blocks
// help: compute in f32 and store `quantize(x, q8_1)`
  Z[0 :+ 4, 0 :+ 64] = q
//                     ^ PH0020: this part of `Z` is tile<q16_1>[4, 64], not tile<q8_1>[4, 64] [q8_1 where q16_1 is expected]
//                     help: write `quantize(f32(q), q16_1)`
  Y[0 :+ 8, 0 :+ 64] = q
//                     ^ PH0021: this part of `Y` is tile<q8_1>[8, 64], not tile<q8_1>[4, 64]
  Y[0 :+ 4, 16 :+ 64] = q
//          ^^^^^^^^ PH0032: the start of this slice is not provably a multiple of 32 [a block of q8_1 has 32 elements]
//          help: use multiples of 32, or of an `@autotune` parameter
  Y[0, 0] = 1.0
//     ^ PH0032: one element of a q8_1 tensor [a block of q8_1 has 32 elements]
//     help: slice whole blocks and decode them: `f32(W[n, k :+ 32])`
  W[0 :+ 4, 0 :+ 64] = quantize(x, q8_1)
// ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ PH0060: a store to a tensor of q8_0 blocks
// help: quantise on the host, or store f16
  Y[0 :+ 4, 0 :+ 64] = Y[0 :+ 4, 0 :+ 64] else 0.0
//                                             ^^^ PH0060: `else` on a slice of q8_1 blocks
//                                             help: decode the slice with `f32(...)` and use `where`
}
