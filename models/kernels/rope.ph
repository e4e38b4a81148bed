// Rotary position embedding (Su et al. 2021, arXiv:2104.09864), pairs (2i, 2i+1): of queries in
// place, and of keys into their cache; values go into theirs as they are. Row n stands at
// position Pos[n]; Cos and Sin hold a row per position.
//   Q [N, H, R, 2], Key [N, G, R, 2], Value [N, G, D], Pos [N] -> Keys [G, S, R, 2], Values [G, S, D]
@grid(N, H + 2 * G)
kernel rope[T: dtype](Q: tensor<f32>[N, H, R, 2], Key: tensor<f32>[N, G, R, 2], Value: tensor<f32>[N, G, D],
                      Cos: tensor<f32>[P, R], Sin: tensor<f32>[P, R], Pos: tensor<i32>[N],
                      Keys: tensor<T>[G, S, R, 2], Values: tensor<T>[G, S, D]) {
  let n = program_id(0)
  let at = Pos[n]
  let h = program_id(1)
  if h < H {
    let c = Cos[at, :]
    let s = Sin[at, :]
    let a = Q[n, h, :, 0]
    let b = Q[n, h, :, 1]
    Q[n, h, :, 0] = a * c - b * s
    Q[n, h, :, 1] = a * s + b * c
  } else if h < H + G {
    let g = h - H
    let c = Cos[at, :]
    let s = Sin[at, :]
    let a = Key[n, g, :, 0]
    let b = Key[n, g, :, 1]
    Keys[g, at, :, 0] = T(a * c - b * s)
    Keys[g, at, :, 1] = T(a * s + b * c)
  } else {
    let g = h - H - G
    Values[g, at, :] = T(Value[n, g, :])
  }
}
