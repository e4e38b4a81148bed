// Attention without a mask, one head: O = softmax(scale Q K') V by blocks of keys
// with a running maximum and sum, so that no row of scores is ever stored (Dao et
// al. 2022, arXiv:2205.14135).
//   Q [Nq, D], K and V [Nk, D] -> O [Nq, D]
@autotune(TILE_Q in [16, 64], TILE_K in [16, 64])
kernel flash_attention(Q: tensor<f32>[Nq, D], K: tensor<f32>[Nk, D], V: tensor<f32>[Nk, D],
                       O: tensor<f32>[Nq, D], scale: f32) {
  let first = program_id(0) * TILE_Q
  let q = Q[first :+ TILE_Q, :] * scale

  var highest: tile<f32>[TILE_Q, 1] = -inf
  var total: tile<f32>[TILE_Q, 1] = 0.0
  var acc: tile<f32>[TILE_Q, D] = 0.0
  for key in range(0, Nk, TILE_K) {
    let scores = dot_t(q, K[key :+ TILE_K, :])
    let raised = tmax(highest, rowmax(scores))
    let weights = exp(scores - raised)
    let keep = exp(highest - raised)
    total = total * keep + rowsum(weights)
    acc = acc * keep + dot(weights, V[key :+ TILE_K, :])
    highest = raised
  }
  O[first :+ TILE_Q, :] = acc / total
}
