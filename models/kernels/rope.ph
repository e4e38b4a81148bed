// Rotary position embedding (Su et al. 2021, arXiv:2104.09864), pairs (2i, 2i+1).
// Row n stands at position pos + n; Cos and Sin hold a row per position.

// In place, for queries.  X [N, H, R, 2]
@grid(N, H)
kernel rope(X: tensor<f32>[N, H, R, 2], Cos: tensor<f32>[P, R], Sin: tensor<f32>[P, R], pos: i32) {
  let n = program_id(0)
  let h = program_id(1)
  let a = X[n, h, :, 0]
  let b = X[n, h, :, 1]
  let c = Cos[pos + n, :]
  let s = Sin[pos + n, :]
  X[n, h, :, 0] = a * c - b * s
  X[n, h, :, 1] = a * s + b * c
}

// Keys: rotated and stored in the cache.  X [N, G, R, 2] -> Cache [S, G, R, 2]
@grid(N, G)
kernel rope_store[T: dtype](X: tensor<f32>[N, G, R, 2], Cos: tensor<f32>[P, R], Sin: tensor<f32>[P, R],
                            Cache: tensor<T>[S, G, R, 2], pos: i32) {
  let n = program_id(0)
  let g = program_id(1)
  let a = X[n, g, :, 0]
  let b = X[n, g, :, 1]
  let c = Cos[pos + n, :]
  let s = Sin[pos + n, :]
  Cache[pos + n, g, :, 0] = T(a * c - b * s)
  Cache[pos + n, g, :, 1] = T(a * s + b * c)
}

// Values: stored in the cache as they are.  X [N, E] -> Cache [S, E]
@grid(N)
kernel store[T: dtype](X: tensor<f32>[N, E], Cache: tensor<T>[S, E], pos: i32) {
  let n = program_id(0)
  Cache[pos + n, :] = T(X[n, :])
}
