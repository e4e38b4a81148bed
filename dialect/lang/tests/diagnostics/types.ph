kernel k(A: tensor<f16>[M, K], B: tensor<f32>[M, K], I: tensor<i32>[M], a: f32, h: f16, n: i32) {
  let x = A[0 :+ 16, 0 :+ 16]
  let y = B[0 :+ 16, 0 :+ 16]
  let z = x + y
//        ^^^^^ PH0020: `+` of tile<f16>[16, 16] and tile<f32>[16, 16] [f16 and f32]
//        help: write a cast: `f32(x)`
  let w = x * a
//        ^^^^^ PH0020: `*` of tile<f16>[16, 16] and f32 [f16 and f32]
//        help: write a cast: `f32(x)`
  let p = program_id(0) + a
//        ^^^^^^^^^^^^^^^^^ PH0020: `+` of index and f32 [index and f32]
//        help: write a cast: `f32(...)`
  let q = program_id(0) * 0.5
//        ^^^^^^^^^^^^^^^^^^^ PH0020: `*` of index and a float literal [index and a float literal]
//        help: write a cast: `f32(...)`
  let b = (y < 0.0) + 1
//        ^^^^^^^^^^^^^ PH0020: `+` of tile<bool>[16, 16] and an integer literal [bool is not a number]
//        help: use `where(c, a, b)` to turn a condition into numbers
  let c = n % a
//        ^^^^^ PH0020: `%` takes integers, not f32
//        help: write `x - floor(x / y) * y`
  let d = y % y
//        ^^^^^ PH0020: `%` takes integers, not f32
//        help: write `x - floor(x / y) * y`
  let e = n + h
//        ^^^^^ PH0020: `+` of i32 and f16 [i32 and f16]
//        help: write a cast: `f16(n)`
  let f = I[0 :+ 16] + 0.5
//        ^^^^^^^^^^^^^^^^ PH0020: `+` of tile<i32>[16] and a float literal [i32 and a float literal]
//        help: write a cast: `f32(...)`
  let g = y && y
//        ^^^^^^ PH0020: `&&` takes bool, not f32
//        help: compare first: `x != 0`
  let i = y & y
//        ^^^^^ PH0020: `&` takes integers, not f32
  let j = !n
//        ^^ PH0020: `!` takes bool, not i32
//        help: compare first: `!(x != 0)`
  let l = -(y < y)
//        ^^^^^^^^ PH0020: `-` takes a number, not tile<bool>[16, 16]
  let m = ~y
//        ^^ PH0020: `~` takes an integer, not tile<f32>[16, 16]
  B[0 :+ 16, 0 :+ 16] = x
//                      ^ PH0020: this part of `B` is tile<f32>[16, 16], not tile<f16>[16, 16] [f16 where f32 is expected]
//                      help: write a cast: `f32(x)`
  A[0 :+ 16, 0 :+ 16] = y
//                      ^ PH0020: this part of `A` is tile<f16>[16, 16], not tile<f32>[16, 16] [f32 where f16 is expected]
//                      help: write a cast: `f16(y)`
  I[0] = a
//       ^ PH0020: this part of `I` is i32, not f32 [f32 where i32 is expected]
//       help: write a cast: `i32(a)`
  I[1] = n + program_id(0)
  var u: i8 = 200
//            ^^^ PH0026: 200 does not fit i8
  let v: f32 = n
//             ^ PH0020: `v` is f32, not i32 [i32 where f32 is expected]
//             help: write a cast: `f32(n)`
  let t: bool = 1
//              ^ PH0020: an integer literal where bool is expected
//              help: write `true` or `false`
}
// -----
kernel k(A: tensor<f32>[M, K], I: tensor<i32>[M]) {
  let x = A
//        ^ PH0025: `A` is a tensor and not a value
//        help: read a part of it: `A[i, j]`, `A[i :+ n, :]`
  if 1 { }
//   ^ PH0027: the condition of `if` is bool, not an integer literal
//   help: compare with `!= 0`
  while A[0, 0] { }
//      ^^^^^^^ PH0027: the condition of `while` is bool, not f32
//      help: compare with `!= 0`
  if A[0 :+ 4, 0] < 1.0 { }
//   ^^^^^^^^^^^^^^^^^^ PH0025: the condition of `if` is a scalar, not tile<bool>[4]
//   help: compute with tiles, as in `where(c, a, b)`, or store the tile to a tensor and read one element back
  let a = I[A[0, 0]]
//          ^^^^^^^ PH0025: a subscript is an integer, not f32
//          help: write `i32(x)`
  let b = I[A[0 :+ 4, 0]]
//          ^^^^^^^^^^^^ PH0025: a subscript is a scalar, not tile<f32>[4]
//          help: there is no gather: a position that lies in a tensor is read by itself, as in `X[I[i]]`, in a loop over i
  for i in range(0, 1.5) { }
//                  ^^^ PH0025: the end of a range is an integer, not a float literal
//                  help: write `i32(x)`
  for i in range(0, 10, 0) { }
//                      ^ PH0024: a step is positive, not 0
//                      help: count up, and compute the other direction from the variable
  let c = exp(3) + exp(I[0]) + exp(true)
//                     ^^^^ PH0024: `exp` takes floats, not i32
//                     help: write a cast: `f32(x)`
//                                 ^^^^ PH0024: `exp` takes floats, not bool
//                                 help: use `where(c, 1.0, 0.0)`
  let d = program_id(3)
//                   ^ PH0024: a grid has the axes 0, 1 and 2, not 3
  let e = program_id(I[0])
//                   ^^^^ PH0061: the axis of `program_id` is an integer constant, not i32
  let f = exp(1.0, 2.0)
//        ^^^^^^^^^^^^^ PH0023: `exp` takes 1 argument, not 2
//        help: exp(x: float) -> float
  let g = rowmax(1.0)
//               ^^^ PH0024: `rowmax` takes a tile, not a float literal
  let h = sum(A[0 :+ 4, 0 :+ 4], 2)
//                               ^ PH0035: there is no axis 2 [tile<f32>[4, 4] has 2]
  let i = any(A[0 :+ 4, 0 :+ 4], 0)
//            ^^^^^^^^^^^^^^^^^ PH0024: `any` takes a bool tile, not tile<f32>[4, 4]
//            help: compare first: `any(x != 0, 0)`
  let j = sum(A[0 :+ 4, 0 :+ 4] < 0.0, 0)
//            ^^^^^^^^^^^^^^^^^^^^^^^ PH0024: `sum` takes a tile of numbers, not tile<bool>[4, 4]
  let l = where(1, 2, 3)
//              ^ PH0027: the condition of `where` is bool, not an integer literal
//              help: compare with `!= 0`
  let m = fma(1, 2, 3)
//        ^^^^^^^^^^^^ PH0024: `fma` takes floats, not index
//        help: integers need no fma: `a * b + c`
  let n = iota(4, 0)
//             ^ PH0024: expected a list of dims
//             help: write `[TILE_M, 1]`
  let o = [1, 2]
//        ^^^^^^ PH0025: a list is not a value
//        help: lists of dims stand in `iota`, `reshape` and `broadcast`
  let p = "text"
//        ^^^^^^ PH0025: a text is not a value
//        help: texts stand in `assert(condition, "text")`
  let q = grid_barrier(I)
//        ^^^^^^^^^^^^^^^ PH0025: `grid_barrier` has no value
//        help: write it as a statement of its own
  let r = atomic_add(A, 0, 0, 1)
//                   ^ PH0060: `atomic_add` takes an i32 tensor, not f32
  let s = atomic_add(I, 0, 1, 1)
//        ^^^^^^^^^^^^^^^^^^^^^^ PH0022: tensor `I` has 1 axis, this place has 2
//        help: write one position per axis
  let t = f32(1, 2)
//        ^^^^^^^^^ PH0023: `f32` takes 1 argument, not 2
//        help: a cast converts one value: `f32(x)`
  let u = assert(true, 1)
//        ^^^^^^^^^^^^^^^ PH0025: `assert` has no value
//        help: write it as a statement of its own
  assert(1.0, "no")
//       ^^^ PH0027: the condition of `assert` is bool, not a float literal
//       help: compare with `!= 0`
  assert(true, 2)
//             ^ PH0024: the second argument of `assert` is a text
//             help: assert(condition, "text")
  let v = transpose(A[0, 0 :+ 4])
//                  ^^^^^^^^^^^^ PH0021: `transpose` takes a tile of 2 axes, not 1 [tile<f32>[4]]
//                  help: `reshape(x, [1, n])` adds an axis
  print(1)
// ^^^^^^^^ PH0060: `print` is not available yet
  let z = A[0, 0][0]
//        ^^^^^^^^^^ PH0025: f32 has no axes to slice
  let y = dot(A[0 :+ 4, 0 :+ 4], 3)
//                               ^ PH0024: `dot` takes tiles, not an integer literal
  let ab = dot(A[0 :+ 4, 0 :+ 4], I[0 :+ 4])
//                                ^^^^^^^^^ PH0021: `dot` takes a tile of 2 axes, not 1 [tile<i32>[4]]
//                                help: `reshape(x, [1, n])` adds an axis
  let ac = dot(A[0 :+ 4, 0 :+ 4], reshape(I[0 :+ 16], [4, 4]))
//         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ PH0020: `dot` of tile<f32>[4, 4] and tile<i32>[4, 4] [f32 and i32]
//         help: both operands are floats, or integers of one type; write a cast
}
