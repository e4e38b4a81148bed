// Linear layers: rows of X times the transpose of a weight in any format.
//   X [M, K], W [N, K] -> Y [M, N]
@autotune(TILE_M in [1, 4, 16, 64, 128], TILE_N in [16, 32, 64], TILE_K in [256, 512, 4096])
kernel linear[A: format, F: format](X: tensor<A>[M, K], W: tensor<F>[N, K], Y: tensor<f32>[M, N]) {
  let pn = program_id(0)
  let pm = program_id(1)
  var acc: tile<f32>[TILE_M, TILE_N] = 0.0
  for k in range(0, K, TILE_K) {
    acc += dot_t(X[pm * TILE_M :+ TILE_M, k :+ TILE_K], W[pn * TILE_N :+ TILE_N, k :+ TILE_K])
  }
  Y[pm * TILE_M :+ TILE_M, pn * TILE_N :+ TILE_N] = acc
}

// The same, added to what Y holds: the residual stream.
@autotune(TILE_M in [1, 4, 16, 64, 128], TILE_N in [16, 32, 64], TILE_K in [256, 512, 4096])
kernel linear_add[A: format, F: format](X: tensor<A>[M, K], W: tensor<F>[N, K], Y: tensor<f32>[M, N]) {
  let pn = program_id(0)
  let pm = program_id(1)
  var acc: tile<f32>[TILE_M, TILE_N] = 0.0
  for k in range(0, K, TILE_K) {
    acc += dot_t(X[pm * TILE_M :+ TILE_M, k :+ TILE_K], W[pn * TILE_N :+ TILE_N, k :+ TILE_K])
  }
  Y[pm * TILE_M :+ TILE_M, pn * TILE_N :+ TILE_N] += acc
}
