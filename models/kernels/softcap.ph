// Values brought into (-cap, cap), those near 0 hardly changed (Gemma 2, arXiv:2408.00118).
//   X [N, V] in place
@autotune(TILE_V in [1024])
kernel softcap(X: tensor<f32>[N, V], cap: f32) {
  let n = program_id(0)
  let v = program_id(1) * TILE_V
  X[n, v :+ TILE_V] = cap * tanh(X[n, v :+ TILE_V] / cap)
}
