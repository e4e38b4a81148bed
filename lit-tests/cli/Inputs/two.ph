kernel first(A: tensor<f32>[N]) {
  A[program_id(0)] = 1.0
}

kernel second(A: tensor<f32>[N]) {
  A[program_id(0)] = 2.0
}
