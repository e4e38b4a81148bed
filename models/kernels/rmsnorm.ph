// Root mean square norm of each row (Zhang and Sennrich 2019, arXiv:1910.07467).
//   X [N, E], W [E] -> Y [N, E]
@grid(N)
kernel rmsnorm[B: format](X: tensor<f32>[N, E], W: tensor<f32>[E], Y: tensor<B>[N, E], eps: f32) {
  let n = program_id(0)
  let x = X[n, :]
  let scale = rsqrt(sum(x * x, 0) / f32(E) + eps)
  Y[n, :] = quantize(x * scale * W[:], B)
}

// The same, added to what Y holds: the residual stream.
@grid(N)
kernel rmsnorm_add(X: tensor<f32>[N, E], W: tensor<f32>[E], Y: tensor<f32>[N, E], eps: f32) {
  let n = program_id(0)
  let x = X[n, :]
  let scale = rsqrt(sum(x * x, 0) / f32(E) + eps)
  Y[n, :] += x * scale * W[:]
}
