// Causal attention over the KV cache with an online softmax (Dao et al. 2022,
// arXiv:2205.14135). Query row n stands at position Pos[n], the next row at the next; query head h reads
// key/value head h / (H / G), whose keys and values each lie together. It sees the last `window` positions, its own among them
// (Beltagy et al. 2020, arXiv:2004.05150); the greatest i32 stands for all.
//   Q [N, H, D], K and V [G, S, D], Pos [N] -> O [N, E], where E is H D
@autotune(TILE_Q in [1, 16, 32], TILE_S in [64] where TILE_Q <= TILE_S)
@grid(ceil(N / TILE_Q), H)
kernel attention[T: dtype, B: format](Q: tensor<f32>[N, H, D], K: tensor<T>[G, S, D], V: tensor<T>[G, S, D],
                                      Pos: tensor<i32>[N], O: tensor<B>[N, E], window: i32, scale: f32) {
  let first = program_id(0) * TILE_Q
  let last = min(first + TILE_Q, N) - 1
  let h = program_id(1)
  let g = h / (H / G)
  let q = Q[first :+ TILE_Q, h, :] * scale
  let query = reshape(Pos[first :+ TILE_Q], [TILE_Q, 1])

  var m: tile<f32>[TILE_Q, 1] = -inf
  var l: tile<f32>[TILE_Q, 1] = 0.0
  var acc: tile<f32>[TILE_Q, D] = 0.0
  // The first block holds a key that each row sees: the first row's earliest, and the
  // other rows' within TILE_Q behind it: hence the condition above.
  for s in range(max(0, Pos[first] + 1 - window), Pos[last] + 1, TILE_S) {
    let scores = dot_t(q, f32(K[g, s :+ TILE_S, :]))
    let key = iota([1, TILE_S], 1) + s
    let masked = where(key <= query && key > query - window, scores, -inf)
    let m_new = max(m, rowmax(masked))
    let p = exp(masked - m_new)
    let keep = exp(m - m_new)
    l = l * keep + rowsum(p)
    acc = acc * keep + dot(p, f32(V[g, s :+ TILE_S, :]))
    m = m_new
  }
  O[first :+ TILE_Q, h * D :+ D] = quantize(acc / l, B)
}

// One query row at position Pos[0]: the R query heads of a key/value head go over its cache
// together, so that it is read and widened once.
//   Q [1, G, R, D], K and V [G, S, D], Pos [1] -> O [1, G, R, D]
@autotune(TILE_S in [64])
@grid(G)
kernel attention_one[T: dtype, B: format](Q: tensor<f32>[1, G, R, D], K: tensor<T>[G, S, D],
                                          V: tensor<T>[G, S, D], Pos: tensor<i32>[1],
                                          O: tensor<B>[1, G, R, D], window: i32, scale: f32) {
  let g = program_id(0)
  let pos = Pos[0]
  let q = Q[0, g, :, :] * scale

  var m: tile<f32>[R, 1] = -inf
  var l: tile<f32>[R, 1] = 0.0
  var acc: tile<f32>[R, D] = 0.0
  for s in range(max(0, pos + 1 - window), pos + 1, TILE_S) {
    let scores = dot_t(q, f32(K[g, s :+ TILE_S, :]))
    let key = iota([1, TILE_S], 1) + s
    let masked = where(key <= pos, scores, -inf)
    let m_new = max(m, rowmax(masked))
    let p = exp(masked - m_new)
    let keep = exp(m - m_new)
    l = l * keep + rowsum(p)
    acc = acc * keep + dot(p, f32(V[g, s :+ TILE_S, :]))
    m = m_new
  }
  O[0, g, :, :] = quantize(acc / l, B)
}

// For long texts: one query row over one of C parts of the positions it sees, so that more
// programs than key/value heads share the work (Dao et al. 2023, "Flash-Decoding"). O is
// not yet divided by L; a part without positions has M = -inf.
//   Q [1, G, R, D], K and V [G, S, D], Pos [1] -> O [C, G, R, D], M and L [C, G, R, 1]
@autotune(TILE_S in [64])
@grid(C, G)
kernel attention_part[T: dtype](Q: tensor<f32>[1, G, R, D], K: tensor<T>[G, S, D], V: tensor<T>[G, S, D],
                                Pos: tensor<i32>[1], O: tensor<f32>[C, G, R, D], M: tensor<f32>[C, G, R, 1],
                                L: tensor<f32>[C, G, R, 1], window: i32, scale: f32) {
  let c = program_id(0)
  let g = program_id(1)
  let pos = Pos[0]
  let q = Q[0, g, :, :] * scale
  let start = max(0, pos + 1 - window)
  let end = pos + 1
  let share = ((end - start + TILE_S - 1) / TILE_S + C - 1) / C * TILE_S
  let first = start + c * share

  var m: tile<f32>[R, 1] = -inf
  var l: tile<f32>[R, 1] = 0.0
  var acc: tile<f32>[R, D] = 0.0
  for s in range(first, min(end, first + share), TILE_S) {
    let scores = dot_t(q, f32(K[g, s :+ TILE_S, :]))
    let key = iota([1, TILE_S], 1) + s
    let masked = where(key <= pos, scores, -inf)
    let m_new = max(m, rowmax(masked))
    let p = exp(masked - m_new)
    let keep = exp(m - m_new)
    l = l * keep + rowsum(p)
    acc = acc * keep + dot(p, f32(V[g, s :+ TILE_S, :]))
    m = m_new
  }
  O[c, g, :, :] = acc
  M[c, g, :, :] = m
  L[c, g, :, :] = l
}

// The parts joined.  O [C, G, R, D], M and L [C, G, R, 1] -> Y [1, G, R, D]
@grid(G)
kernel attention_join[B: format](O: tensor<f32>[C, G, R, D], M: tensor<f32>[C, G, R, 1],
                                 L: tensor<f32>[C, G, R, 1], Y: tensor<B>[1, G, R, D]) {
  let g = program_id(0)
  var m: tile<f32>[R, 1] = -inf
  for c in range(0, C) {
    m = max(m, M[c, g, :, :])
  }
  var l: tile<f32>[R, 1] = 0.0
  var acc: tile<f32>[R, D] = 0.0
  for c in range(0, C) {
    let weight = exp(M[c, g, :, :] - m)
    l += L[c, g, :, :] * weight
    acc += O[c, g, :, :] * weight
  }
  Y[0, g, :, :] = quantize(acc / l, B)
}
