// bind F=q8_0
@autotune(T in [16, 64])
kernel k[F: format](W: tensor<F>[N, K], V: tensor<F>[N, 48], X: tensor<f32>[N, K], i: i32) {
//                                      ^ PH0032: the last dim of `V` is not whole blocks: 48 % 32 != 0 [a block of q8_0 has 32 elements]
  let a = W[0, 0]
//             ^ PH0032: one element of a q8_0 tensor [a block of q8_0 has 32 elements]
//             help: slice whole blocks and decode them: `f32(W[n, k :+ 32])`
  let b = W[0 :+ 16, 0 :+ 16]
//                   ^^^^^^^ PH0032: the length of this slice is not provably a multiple of 32 [a block of q8_0 has 32 elements]
//                   help: use multiples of 32, or of an `@autotune` parameter
  let c = W[0 :+ 16, i :+ 32]
//                   ^^^^^^^ PH0032: the start of this slice is not provably a multiple of 32 [a block of q8_0 has 32 elements]
//                   help: use multiples of 32, or of an `@autotune` parameter
  let d = W[0 :+ 16, 0 :+ 32] else 0.0
//                                 ^^^ PH0060: `else` on a slice of q8_0 blocks
//                                 help: decode the slice with `f32(...)` and use `where`
  let e = b + b
  let w = W[0 :+ 16, 0 :+ 64]
  let f = w * 2.0
//        ^ PH0020: `*` of tile<q8_0>[16, 64]
//        help: decode the q8_0 tile first with a cast: `f32(x)`
  let g = w[0 :+ 4, :]
//        ^^^^^^^^^^^^ PH0060: a slice of a tile of q8_0 blocks
//        help: slice the tensor, or decode first: `f32(w)`
  let h = exp(w)
//            ^ PH0024: `exp` does not take q8_0 blocks
//            help: decode them first with a cast: `f32(x)`
  let l = rowsum(w)
//               ^ PH0024: `rowsum` does not take q8_0 blocks
//               help: decode them first with a cast: `f32(x)`
  let m = F(1.0)
//        ^^^^^^ PH0060: a cast to q8_0 blocks
//        help: cast to f32 or f16, or quantise on the host
  W[0 :+ 16, 0 :+ 32] = 1.0
// ^^^^^^^^^^^^^^^^^^^^^^^^^ PH0060: a store to a tensor of q8_0 blocks
// help: quantise on the host, or store f16
  let n: F = 1.0
//       ^ PH0013: a variable cannot be one q8_0 block
//       help: blocks are decoded when they are read: `f32(W[n, :])`
  let o = dot_t(f64(w), w)
//        ^^^^^^^^^^^^^^^^ PH0020: `dot_t` of tile<f64>[16, 64] and tile<q8_0>[16, 64] [f64 and q8_0]
//        help: both operands are floats, or integers of one type; write a cast
  let p = broadcast(w, [16, 64])
//                  ^ PH0024: `broadcast` does not take q8_0 blocks
//                  help: decode them first with a cast: `f32(x)`
  for k in range(0, 64, 16) {
    let q = W[0, k :+ 32]
//               ^^^^^^^ PH0032: the start of this slice is not provably a multiple of 32 [a block of q8_0 has 32 elements]
//               help: use multiples of 32, or of an `@autotune` parameter
  }
  X[0 :+ 16, 0 :+ 64] = f32(w)
}
