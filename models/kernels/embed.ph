// Rows of the embedding table for a batch of token ids, scaled.
//   Ids [N], W [V, E] -> X [N, E]
@grid(N)
kernel embed[F: format](Ids: tensor<i32>[N], W: tensor<F>[V, E], X: tensor<f32>[N, E], scale: f32) {
  let n = program_id(0)
  let id = Ids[n]
  X[n, :] = f32(W[id, :]) * scale
}
