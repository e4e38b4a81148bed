// Y = a X + Y, one tile of each per program.  X, Y [N]
@autotune(TILE in [256, 1024])
kernel saxpy(X: tensor<f32>[N], Y: tensor<f32>[N], a: f32) {
  let start = program_id(0) * TILE
  Y[start :+ TILE] = a * X[start :+ TILE] + Y[start :+ TILE]
}
