@autotune(TILE_M in [16, 64])
@launhc(256)
// ^^^^^^ PH0012: unknown attribute `@launhc`
// help: did you mean `@launch`?
kernel k(A: tensor<f32>[M, K], s: f32, u: f23) {
//                                        ^^^ PH0013: unknown element type `f23`
//                                        help: did you mean `f32`?
  let pm = program_id(0)
  let x = A[pm * TILE_N :+ TILE_M, :]
//               ^^^^^^ PH0010: unknown name `TILE_N`
//               help: did you mean `TILE_M`?
  let y = rwomax(x) + missing
//        ^^^^^^ PH0011: unknown function `rwomax`
//        help: did you mean `rowmax`?
//                    ^^^^^^^ PH0010: unknown name `missing`
  let z = matmul(x, x)
//        ^^^^^^ PH0011: unknown function `matmul`
//        help: the matrix product is `dot(a, b)`
  let x = 1
  A[pm * TILE_M :+ TILE_M, :] = x * y * z
}
// -----
kernel k(A: tensor<f32>[M], A: tensor<f32>[M], M: i32, w: q4_0, t: tile<f32>[4]) {
//                          ^ PH0014: parameter `A` is declared twice
//                          note: 1:10: the first declaration
//                                             ^ PH0014: `M` is both a parameter and a dim or `@autotune` name
//                                             help: dims come from the tensors; remove or rename the parameter
//                                                        ^^^^ PH0013: a parameter cannot be one q4_0 block
//                                                        help: pass a tensor: `tensor<q4_0>[N, K]`
//                                                                 ^^^^^^^^^^^^ PH0013: a kernel has no tile parameters
//                                                                 help: pass a tensor and slice it
  A[0] = 1.0
}
kernel k(B: tensor<q9_0>[M]) { }
//     ^ PH0014: `k` is defined twice
//     note: 1:8: the first definition
const C = 1
const C = 2
//    ^ PH0014: `C` is defined twice
//    note: 5:7: the first definition
fn exp(x: f32) -> f32 { return x }
// ^^^ PH0014: `exp` is the name of a builtin
// help: choose another name
// -----
// bind F=f32 T=q8_0 X=f32
kernel k[F: format, T: dtype, G: format](A: tensor<F>[M]) {
//     ^ PH0016: kernel `k` has no generic parameter `X`
//                  ^^^^^^^^ PH0016: `T` is a dtype and cannot be the block format q8_0
//                  help: declare `T: format`, or bind a scalar type
//                            ^^^^^^^^^ PH0016: `G` is not bound
//                            help: the request binds it to an element type, as in `--type G=f32`
  A[0] = 1.0
}
// -----
@autotune(TILE_M in [16, 64])
@cluster(TILE_M in [1024], TILE_N in [1024])
//                         ^^^^^^ PH0017: `TILE_N` is not a name of `@autotune`
//                         help: did you mean `TILE_M`?
kernel k(A: tensor<f32>[M, M]) {
  A[program_id(0) * TILE_M :+ TILE_M, 0] = 1.0
}
// -----
// A kernel that is asked for and is not there.
// ^ PH0015: there is no kernel `k`
// help: the text has no kernel
fn f(x: f32) -> f32 { return x }
// -----
kernel k(A: tensor<f32>[M, K]) {
  let a = dot(A[0 :+ 16, 0 :+ 16], A[0 :+ 16, 0 :+ 16], prec = tf32)
//                                                      ^^^^ PH0019: unknown keyword argument `prec`
//                                                      help: the operands stand in order, without names; the only keyword is `precision`
  let b = exp(x = 1.0)
//            ^ PH0019: unknown keyword argument `x`
//            help: arguments of `exp` stand in order, without names: exp(x: float) -> float
  let c = dot(a, a, precision = f64)
//                              ^^^ PH0024: a precision is tf32, tf32x3 or f16
//                              help: without one, operands keep their precision
  let d = dot(f16(a), f16(a), precision = tf32)
}
