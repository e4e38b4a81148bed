// The gate of a GEGLU feed-forward (Shazeer 2020, arXiv:2002.05202).
//   Gate, Up [N, F] -> Y [N, F]
@autotune(TILE_F in [256])
kernel geglu(Gate: tensor<f32>[N, F], Up: tensor<f32>[N, F], Y: tensor<f32>[N, F]) {
  let n = program_id(0)
  let f = program_id(1) * TILE_F
  Y[n, f :+ TILE_F] = gelu(Gate[n, f :+ TILE_F]) * Up[n, f :+ TILE_F]
}
