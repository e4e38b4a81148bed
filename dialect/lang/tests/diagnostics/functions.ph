fn forever(x: f32) -> f32 { return forever(x) }
//                                 ^^^^^^^^^^ PH0006: calls of `forever` do not end
//                                 help: functions are inlined, so they cannot be recursive
fn nothing(x: f32) { let y = x }
// ^^^^^^^ PH0046: function `nothing` does not end in `return value`
fn early(x: f32) -> f32 {
  if x > 0.0 {
    return 1.0
//  ^^^^^^^^^^ PH0046: `return` is the last statement of a function
//  help: use `where`, or `if` with a `var`
  }
  return x
}
fn wrong[T: dtype](x: tile<T>[M, N], y: tile<T>[M, N]) -> tile<T>[N, M] {
  let z = K
//        ^ PH0010: unknown name `K`
//        help: did you mean `x`?
  return x
//       ^ PH0021: the result is tile<f32>[8, 4], not tile<f32>[4, 8]
}
fn tensors(x: tensor<f32>[M]) -> f32 { return 1.0 }
fn row(x: tile<f32>[N]) -> tile<f32>[1] { return sum(x * x, 0) }
kernel k(A: tensor<f32>[M, K], I: tensor<i32>[M]) {
  let a = forever(1.0)
  let b = nothing(1.0)
  let c = early(1.0)
  let d = wrong(A[0 :+ 4, 0 :+ 8], A[0 :+ 4, 0 :+ 8])
  let e = wrong(A[0 :+ 4, 0 :+ 8], A[0 :+ 4, 0 :+ 4])
//                                 ^^^^^^^^^^^^^^^^^ PH0021: argument `y` is tile<f32>[4, 8], not tile<f32>[4, 4]
//                                 note: 9:38: declared here
  let f = tensors(A)
//                ^ PH0025: `A` is a tensor and not a value
//                help: read a part of it: `A[i, j]`, `A[i :+ n, :]`
  let g = row(1.0)
//            ^^^ PH0024: argument `x` is a tile, not a float literal
//            help: `broadcast(x, [dims])` makes a tile of a scalar
  let h = row(A[0 :+ 4, 0 :+ 4])
//            ^^^^^^^^^^^^^^^^^ PH0021: argument `x` has 1 axis, not 2
//            note: 14:8: declared here
  let i = row()
//        ^^^^^ PH0023: `row` takes 1 argument, not 0
//        note: 14:4: declared here
  let j = row(I[0 :+ 4])
//            ^^^^^^^^^ PH0020: argument `x` is tile<f32>[4], not tile<i32>[4] [i32 where f32 is expected]
//            help: write a cast: `f32(...)`
  while early(1.0) > 0.0 { }
//      ^^^^^^^^^^^^^^^^ PH0060: a function call or atomic_add in the condition of `while`
//      help: assign it to a `var` before the loop and at the end of the body
  row(A[0, 0 :+ 4])
// ^^^^^^^^^^^^^^^^^ PH0043: this value is computed and dropped [tile<f32>[1]]
// help: assign it, or remove the line
  return 1
// ^^^^^^^^ PH0046: a kernel returns nothing
// help: store the result to a tensor
}
