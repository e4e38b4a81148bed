// The three products of an attention layer in one launch: a program makes one tile of one
// of them.
//   X [M, K], Wq [N, K], Wk and Wv [P, K] -> Q [M, N], Key and Value [M, P]
@autotune(TILE_M in [1, 4, 16, 64, 128], TILE_N in [16, 32, 64], TILE_K in [256, 512, 4096])
@grid(ceil(N / TILE_N) + 2 * ceil(P / TILE_N), ceil(M / TILE_M))
kernel qkv[A: format, F: format, G: format, H: format](
    X: tensor<A>[M, K], Wq: tensor<F>[N, K], Wk: tensor<G>[P, K], Wv: tensor<H>[P, K],
    Q: tensor<f32>[M, N], Key: tensor<f32>[M, P], Value: tensor<f32>[M, P]) {
  let tile = program_id(0)
  let m = program_id(1) * TILE_M
  let queries = (N + TILE_N - 1) / TILE_N
  let keys = (P + TILE_N - 1) / TILE_N
  var acc: tile<f32>[TILE_M, TILE_N] = 0.0
  if tile < queries {
    let n = tile * TILE_N
    for k in range(0, K, TILE_K) {
      acc += dot_t(X[m :+ TILE_M, k :+ TILE_K], Wq[n :+ TILE_N, k :+ TILE_K])
    }
    Q[m :+ TILE_M, n :+ TILE_N] = acc
  } else if tile < queries + keys {
    let n = (tile - queries) * TILE_N
    for k in range(0, K, TILE_K) {
      acc += dot_t(X[m :+ TILE_M, k :+ TILE_K], Wk[n :+ TILE_N, k :+ TILE_K])
    }
    Key[m :+ TILE_M, n :+ TILE_N] = acc
  } else {
    let n = (tile - queries - keys) * TILE_N
    for k in range(0, K, TILE_K) {
      acc += dot_t(X[m :+ TILE_M, k :+ TILE_K], Wv[n :+ TILE_N, k :+ TILE_K])
    }
    Value[m :+ TILE_M, n :+ TILE_N] = acc
  }
}
