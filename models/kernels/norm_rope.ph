// Root mean square norm of each head, then rotary position embedding of the pairs
// (i, R + i): the halves of a head, as in GPT-NeoX (Black et al. 2022, arXiv:2204.06745).
// Queries in place, keys into their cache; values go into theirs as they are. Row n stands
// at position Pos[n]; Cos and Sin hold a row per position.
//   Q [N, H, 2, R], Key [N, G, 2, R], Value [N, G, D], Wq and Wk [2, R], Pos [N]
//   -> Keys [G, S, 2, R], Values [G, S, D]
@grid(N, H + 2 * G)
kernel norm_rope[T: dtype](Q: tensor<f32>[N, H, 2, R], Key: tensor<f32>[N, G, 2, R], Value: tensor<f32>[N, G, D],
                           Wq: tensor<f32>[2, R], Wk: tensor<f32>[2, R],
                           Cos: tensor<f32>[P, R], Sin: tensor<f32>[P, R], Pos: tensor<i32>[N],
                           Keys: tensor<T>[G, S, 2, R], Values: tensor<T>[G, S, D], eps: f32) {
  let n = program_id(0)
  let at = Pos[n]
  let h = program_id(1)
  if h < H {
    let c = Cos[at, :]
    let s = Sin[at, :]
    let a = Q[n, h, 0, :]
    let b = Q[n, h, 1, :]
    let scale = rsqrt((sum(a * a, 0) + sum(b * b, 0)) / f32(2 * R) + eps)
    let u = a * scale * Wq[0, :]
    let v = b * scale * Wq[1, :]
    Q[n, h, 0, :] = u * c - v * s
    Q[n, h, 1, :] = u * s + v * c
  } else if h < H + G {
    let g = h - H
    let c = Cos[at, :]
    let s = Sin[at, :]
    let a = Key[n, g, 0, :]
    let b = Key[n, g, 1, :]
    let scale = rsqrt((sum(a * a, 0) + sum(b * b, 0)) / f32(2 * R) + eps)
    let u = a * scale * Wk[0, :]
    let v = b * scale * Wk[1, :]
    Keys[g, at, 0, :] = T(u * c - v * s)
    Keys[g, at, 1, :] = T(u * s + v * c)
  } else {
    let g = h - H - G
    Values[g, at, :] = T(Value[n, g, :])
  }
}
