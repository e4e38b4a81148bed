// A linear layer with weights of a block format and activations rounded to 8 bits: the
// products are of integers. `--explain` says by which instruction.
//   phobos-compile examples/linear_q8.ph --chip host --type F=q4_k --explain -o linear_q8.phk
// X [M, K], W [N, K] -> Y [M, N]
@autotune(TILE_M in [1, 16, 64], TILE_N in [32], TILE_K in [256, 512])
kernel linear_q8[F: format](X: tensor<f32>[M, K], W: tensor<F>[N, K], Y: tensor<f32>[M, N]) {
  let n = program_id(0) * TILE_N
  let m = program_id(1) * TILE_M
  var acc: tile<f32>[TILE_M, TILE_N] = 0.0
  for k in range(0, K, TILE_K) {
    let x = quantize(X[m :+ TILE_M, k :+ TILE_K], q8_1)
    acc += dot_t(x, W[n :+ TILE_N, k :+ TILE_K])
  }
  Y[m :+ TILE_M, n :+ TILE_N] = acc
}
