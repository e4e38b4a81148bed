// C = A B with f16 operands and an f16 accumulator, which is asked for by its type.
//   A [M, K], B [K, N] -> C [M, N]
@autotune(TILE_M in [32, 128], TILE_N in [32, 128], TILE_K in [16, 64])
kernel gemm_fp16(A: tensor<f16>[M, K], B: tensor<f16>[K, N], C: tensor<f16>[M, N]) {
  let m = program_id(0) * TILE_M
  let n = program_id(1) * TILE_N
  var acc: tile<f16>[TILE_M, TILE_N] = 0.0
  for k in range(0, K, TILE_K) {
    acc += dot(A[m :+ TILE_M, k :+ TILE_K], B[k :+ TILE_K, n :+ TILE_N])
  }
  C[m :+ TILE_M, n :+ TILE_N] = acc
}
