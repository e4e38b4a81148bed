// Rotary position embedding (Su et al. 2021, arXiv:2104.09864), pairs (2i, 2i+1), of queries in
// place and of keys into their cache. Row n stands at position pos + n; Cos and Sin hold a
// row per position.
//   Q [N, H, R, 2], Key [N, G, R, 2] -> Cache [S, G, R, 2]
@grid(N, H + G)
kernel rope[T: dtype](Q: tensor<f32>[N, H, R, 2], Key: tensor<f32>[N, G, R, 2],
                      Cos: tensor<f32>[P, R], Sin: tensor<f32>[P, R], Cache: tensor<T>[S, G, R, 2], pos: i32) {
  let n = program_id(0)
  let h = program_id(1)
  let c = Cos[pos + n, :]
  let s = Sin[pos + n, :]
  if h < H {
    let a = Q[n, h, :, 0]
    let b = Q[n, h, :, 1]
    Q[n, h, :, 0] = a * c - b * s
    Q[n, h, :, 1] = a * s + b * c
  } else {
    let g = h - H
    let a = Key[n, g, :, 0]
    let b = Key[n, g, :, 1]
    Cache[pos + n, g, :, 0] = T(a * c - b * s)
    Cache[pos + n, g, :, 1] = T(a * s + b * c)
  }
}
