// Root mean square norm of each head, then rotary position embedding of the pairs
// (i, R + i): the halves of a head, as in GPT-NeoX (Black et al. 2022, arXiv:2204.06745).
// Row n stands at position pos + n; Cos and Sin hold a row per position.

// In place, for queries.  X [N, H, 2, R], W [2, R]
@grid(N, H)
kernel norm_rope(X: tensor<f32>[N, H, 2, R], W: tensor<f32>[2, R],
                 Cos: tensor<f32>[P, R], Sin: tensor<f32>[P, R], pos: i32, eps: f32) {
  let n = program_id(0)
  let h = program_id(1)
  let a = X[n, h, 0, :]
  let b = X[n, h, 1, :]
  let scale = rsqrt((sum(a * a, 0) + sum(b * b, 0)) / f32(2 * R) + eps)
  let u = a * scale * W[0, :]
  let v = b * scale * W[1, :]
  let c = Cos[pos + n, :]
  let s = Sin[pos + n, :]
  X[n, h, 0, :] = u * c - v * s
  X[n, h, 1, :] = u * s + v * c
}

// Keys: stored in the cache.  X [N, G, 2, R], W [2, R] -> Cache [S, G, 2, R]
@grid(N, G)
kernel norm_rope_store[T: dtype](X: tensor<f32>[N, G, 2, R], W: tensor<f32>[2, R],
                                 Cos: tensor<f32>[P, R], Sin: tensor<f32>[P, R],
                                 Cache: tensor<T>[S, G, 2, R], pos: i32, eps: f32) {
  let n = program_id(0)
  let g = program_id(1)
  let a = X[n, g, 0, :]
  let b = X[n, g, 1, :]
  let scale = rsqrt((sum(a * a, 0) + sum(b * b, 0)) / f32(2 * R) + eps)
  let u = a * scale * W[0, :]
  let v = b * scale * W[1, :]
  let c = Cos[pos + n, :]
  let s = Sin[pos + n, :]
  Cache[pos + n, g, 0, :] = T(u * c - v * s)
  Cache[pos + n, g, 1, :] = T(u * s + v * c)
}
