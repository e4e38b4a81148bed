// The gated half of a SwiGLU feed-forward (Shazeer 2020, arXiv:2002.05202): silu of one
// product times another, in one pass over X.
//   X [M, K], Gate and Up [N, K] -> Y [M, N]
@autotune(TILE_M in [1, 4, 16, 64, 128], TILE_N in [16, 32, 64], TILE_K in [256, 512, 4096])
kernel swiglu[A: format, F: format, G: format, B: format](X: tensor<A>[M, K], Gate: tensor<F>[N, K],
                                                          Up: tensor<G>[N, K], Y: tensor<B>[M, N]) {
  let m = program_id(1) * TILE_M
  let n = program_id(0) * TILE_N
  var gate: tile<f32>[TILE_M, TILE_N] = 0.0
  var up: tile<f32>[TILE_M, TILE_N] = 0.0
  for k in range(0, K, TILE_K) {
    let x = X[m :+ TILE_M, k :+ TILE_K]
    gate += dot_t(x, Gate[n :+ TILE_N, k :+ TILE_K])
    up += dot_t(x, Up[n :+ TILE_N, k :+ TILE_K])
  }
  Y[m :+ TILE_M, n :+ TILE_N] = quantize(silu(gate) * up, B)
}
