// C = alpha A B + beta C on tensor cores: f16 operands, f32 accumulator and result.
//   A [M, K], B [K, N], C [M, N]
@autotune(TILE_M in [32, 128], TILE_N in [32, 128], TILE_K in [16, 64] where TILE_M * TILE_N <= 16384)
@tensorcore
@pipeline
@group(pm, 8)
kernel gemm_fp16tc_fp32acc(A: tensor<f16>[M, K], B: tensor<f16>[K, N], C: tensor<f32>[M, N],
                           alpha: f32, beta: f32) {
  let pm = program_id(0)
  let pn = program_id(1)
  let m = pm * TILE_M
  let n = pn * TILE_N
  var acc: tile<f32>[TILE_M, TILE_N] = 0.0
  for k in range(0, K, TILE_K) {
    acc += dot(A[m :+ TILE_M, k :+ TILE_K], B[k :+ TILE_K, n :+ TILE_N])
  }
  C[m :+ TILE_M, n :+ TILE_N] = alpha * acc + beta * C[m :+ TILE_M, n :+ TILE_N]
}
