// Everything the language has, in programs that check clean.
const HALF = 0.5
const ROWS = 2 * 8
const EPS: f32 = 1e-6

fn normalise[T: dtype](x: tile<T>[R, C], eps: f32) -> tile<f32>[R, C] {
  let y = f32(x)
  let mean = sum(y * y, 1) / f32(C)
  return y * rsqrt(mean + eps)
}

fn twice(x: f32) -> f32 { return x * 2.0 }

@autotune(TILE_M in [16, 64], stages in [2, 3, 4], warps in [4, 8] where TILE_M * 64 <= 4096, stages != 3 || warps == 4)
@launch(128, 2, 64) @pipeline @tensorcore(sync) @aligned(K = 16) @dynshared @persistent @group(pm, 8)
kernel everything[F: format, T: dtype](A: tensor<T>[M, K], W: tensor<F>[N, K], I: tensor<i32>[M], C: tensor<f32>[M, 64],
                                       s: T, n: i32, flag: bool,) {
  let pm = program_id(0); let first = pm * TILE_M
  var a = A[first :+ TILE_M, 0 :+ 64] else 0.0
  let view = A[first : first + TILE_M, 64 : 128]
  a[0, :] = 1
  a[0 :+ 4, 1 :+ 2] += 1
  a[1, 1] *= s
  var acc: tile<f32>[TILE_M, 64]
  acc = normalise(a, EPS) - HALF
  for k in range(0, K, 64) {
    acc += dot_t(f32(A[first :+ TILE_M, k :+ 64]), W[0 :+ 64, k :+ 64])
    acc -= dot(f32(view), f32(W[0 :+ 64, 0 :+ 64]), precision = tf32x3) / 2.0
  }
  var i = 0
  while i < n && !flag {
    i += 1
    if I[i] == 3 || i % 2 != 0 {
      acc *= 2.0
    } else if flag {
      acc /= 2.0
    } else {
      acc = -acc
    }
  }
  let bits = (I[0 :+ 16] & 0x0f | 1 << 2 ^ 3) >> 1
  let other = ~bits
  let wide = i64(bits) + 1
  let old = atomic_add(I, 0, 1) + atomic_add(I, 1, n)
  atomic_add(I, 2, 1)
  let x = reshape(acc, [TILE_M, 8, 8])
  let y = reduce_max(x, -1) + reduce_min(x, 2) + prod(x, 2)
  let z = flat(acc[0, :]) + flat(transpose(acc[0 :+ 1, :]))
  let w = where(acc > 0.0, fma(acc, 2.0, 1.0), -inf)
  let p = iota([TILE_M, 64], 1) - iota([64], 0) + n + first
  let q = where(p >= 0, w, broadcast(0.0, [TILE_M, 64]))
  let r = argmax(q, 1) + argmin(q, 1) + i32(any(q > 1.0, 1)) + i32(all(q > 1.0, 1))
  let square = acc[0 :+ 64, 0 :+ 64]
  let low = cumsum(tril(square)) + cumsum(square, 1)
  let smooth = silu(low) + gelu(low) + sigmoid(low) + tanh(low) + exp2(low) + log(abs(low)) + sqrt(abs(low))
  let whole = floor(smooth) + ceil(smooth) + round(smooth)
  let least = min(whole, max(1.0, tmax(whole, low)))
  let t: tile<f32>[ROWS, 64] = acc[0 :+ ROWS, :]
  let number: i32 = i32(3.7) + i32(first)
  var count: index = 0
  count = I[number]
  assert(count >= 0, "a count is not negative")
  C[first, 0] = twice(f32(s)) + sum(t[0, :], 0)
  C[first, 1] += twice(1.0)
  if any(all(r > 0, 0), 1) {
    C[first :+ TILE_M, :] = q + rowsum(acc) * rowmax(acc) + f32(r)
  }
  C[first :+ 1, :] += least[0 :+ 1, :] + f32(wide[0])
  grid_barrier(I)
  C[first + 1, :] = least[1, :] + z[0, 0] + f32(other[0]) + f32(old) + sum(f32(y[0, :, 0]), 0)
}
// -----
// Names of builtins and types are ordinary names; line ends and `;` mix.
kernel k(tile: tensor<f32>[M, range], sum: f32) {
  let exp = program_id(0); let tensor = exp
  var fn = sum
  fn = exp(fn)

  if sum > 0.0 { fn = 1.0 }
  else { fn = 2.0 }
  tile[tensor,
       0 :+ 4] =
    fn
}
// -----
// f16 accumulation is asked for by an f16 accumulator.
@autotune(T in [16])
kernel half(A: tensor<f16>[M, K], B: tensor<f16>[K, N], C: tensor<f16>[M, N]) {
  let m = program_id(0) * T
  let n = program_id(1) * T
  var narrow: tile<f16>[T, T] = 0
  var wide: tile<f32>[T, T] = 0
  for k in range(0, K, T) {
    narrow += dot(A[m :+ T, k :+ T], B[k :+ T, n :+ T])
    wide += dot(A[m :+ T, k :+ T], B[k :+ T, n :+ T])
  }
  C[m :+ T, n :+ T] = narrow + f16(wide)
}
// -----
// An @autotune name that is a dim binds it.
@autotune(D in [64, 128])
kernel bound(X: tensor<f32>[N, D], Y: tensor<f32>[N, 2, D]) {
  let x = X[program_id(0), :]
  Y[program_id(0), 0, :] = x
  Y[program_id(0), 1, 0 :+ D] = x / f32(D)
}
// -----
// Quantised activations: stored, decoded, and multiplied with weights.
@autotune(TM in [1, 4], TN in [16], TK in [64])
kernel quantised[A: format, F: format](X: tensor<A>[M, K], V: tensor<f32>[M, K], W: tensor<F>[N, K], Q: tensor<q8_1>[M, K],
                                       Y: tensor<f32>[M, N]) {
  let m = program_id(0) * TM
  let n = program_id(1) * TN
  var acc: tile<f32>[TM, TN] = 0.0
  for k in range(0, K, TK) {
    let q = quantize(V[m :+ TM, k :+ TK] * 2.0, q16_1)
    acc += dot_t(f32(q), W[n :+ TN, k :+ TK])
    acc += dot_t(quantize(V[m :+ TM, k :+ TK], A), W[n :+ TN, k :+ TK]) + dot_t(X[m :+ TM, k :+ TK], W[n :+ TN, k :+ TK])
    acc += dot_t(quantize(V[m :+ TM, k :+ TK], bf16), W[n :+ TN, k :+ TK])
    Q[m :+ TM, k :+ TK] = quantize(V[m :+ TM, k :+ TK], q8_1)
  }
  Q[m, :] = quantize(f32(Q[m, :]), q8_1)
  Y[m :+ TM, n :+ TN] = acc
}
// -----
// Blocks go through functions, which bind their format as any element.
fn encoded[T: dtype](x: tile<T>[R, C]) -> tile<q8_1>[R, C] { return quantize(f32(x), q8_1) }

fn product[A: format, F: format](x: tile<A>[R, C], w: tile<F>[N, C]) -> tile<f32>[R, N] { return dot_t(x, w) }

kernel functions(X: tensor<f16>[M, K], W: tensor<q8_0>[N, K], Y: tensor<f32>[M, N], Z: tensor<q8_1>[2, M, K]) {
  let m = program_id(0) * 4
  let n = program_id(1) * 16
  var acc: tile<f32>[4, 16] = 0.0
  for k in range(0, K, 64) {
    let w = W[n :+ 16, k :+ 64]
    acc += product(encoded(X[m :+ 4, k :+ 64]), w) + product(Z[0, m :+ 4, k :+ 64], w) + product(W[m :+ 4, k :+ 64], w)
  }
  Y[m :+ 4, n :+ 16] = acc
}
