// flash_attention_fp32.ph with f16 tensors: products on tensor cores, softmax and
// sums in f32.
//   Q [Nq, D], K and V [Nk, D] -> O [Nq, D]
@autotune(TILE_Q in [16, 64], TILE_K in [16, 64])
@tensorcore
kernel flash_attention_fp16(Q: tensor<f16>[Nq, D], K: tensor<f16>[Nk, D], V: tensor<f16>[Nk, D],
                            O: tensor<f16>[Nq, D], scale: f32) {
  let first = program_id(0) * TILE_Q
  let q = Q[first :+ TILE_Q, :]

  var highest: tile<f32>[TILE_Q, 1] = -inf
  var total: tile<f32>[TILE_Q, 1] = 0.0
  var acc: tile<f32>[TILE_Q, D] = 0.0
  for key in range(0, Nk, TILE_K) {
    let scores = dot_t(q, K[key :+ TILE_K, :]) * scale
    let raised = tmax(highest, rowmax(scores))
    let weights = exp(scores - raised)
    let keep = exp(highest - raised)
    total = total * keep + rowsum(weights)
    acc = acc * keep + dot(f16(weights), V[key :+ TILE_K, :])
    highest = raised
  }
  O[first :+ TILE_Q, :] = f16(acc / total)
}
