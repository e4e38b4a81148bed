// What users of Python, C and Triton write.
kernel k(X: tensor<f32>[N], I: tensor<i32>[N], n: i32) {
  let a = n > 0 and n < 4
//              ^^^ PH0004: expected the end of the statement, found `and`
//              help: write `a && b`
  let b = n > 0 or n < 4
//              ^^ PH0004: expected the end of the statement, found `or`
//              help: write `a || b`
  let c = not n
//            ^ PH0004: expected the end of the statement, found `n`
//            help: negation is `!x`
  if not n { }
//       ^ PH0004: expected `{`, found `n`
//       help: negation is `!x`
  let d = not(n > 0)
//        ^^^ PH0011: unknown function `not`
//        help: negation is `!x`
  let e = n ** 2
//           ^ PH0004: expected an expression, found `*`
//           help: there is no power operator: multiply, or write `exp(y * log(x))`
  let f = X[0 :+ 4] @ X[0 :+ 4]
//                  ^ PH0004: expected the end of the statement, found `@`
//                  help: the matrix product is `dot(a, b)`
  let g, h = 1
//     ^ PH0004: expected `=`, found `,` behind `g`
//     help: one name per `let` or `var`: write a line for each
  let (i, j) = 1
//    ^ PH0004: expected the name of the variable, found `(`
//    help: one name per `let` or `var`: write a line for each
  if n > 0 {
  } elif n < 0 {
//  ^^^^ PH0004: expected the end of the statement, found `elif`
//  help: write `else if`
  }
  if n > 0 {
  }
  elif n < 0 {
//     ^ PH0004: expected the end of the statement, found `n`
//     help: write `else if`
  }
  for l in range(n) { break }
//                    ^^^^^ PH0010: unknown name `break`
//                    help: a loop ends by its range, or by the condition of `while`: use `if` inside
  for m in range(n) { continue }
//                    ^^^^^^^^ PH0010: unknown name `continue`
//                    help: a loop ends by its range, or by the condition of `while`: use `if` inside
}
// -----
kernel a(X: tensor<f32>[N], I: tensor<i32>[N], n: i32) {
  for o in range(n):
//                 ^ PH0004: expected `{`, found `:`
//                 help: a block stands in braces, `{ ... }`; a type stands behind the name of a variable
}
// -----
kernel b(X: tensor<f32>[N], I: tensor<i32>[N], n: i32) {
  if n > 0:
//        ^ PH0004: expected `{`, found `:`
//        help: a block stands in braces, `{ ... }`; a type stands behind the name of a variable
    I[0] = 1
}
// -----
kernel c(X: tensor<f32>[N], I: tensor<i32>[N], n: i32) {
  let p = 1 if n > 0 else 2
//          ^^ PH0004: expected the end of the statement, found the keyword `if`
//          help: to choose a value write `where(c, a, b)`
  let q = tl.load(X)
//          ^ PH0004: expected the end of the statement, found `.`
//          help: there are no modules and methods: call a builtin by its name
  n %= 2
//   ^ PH0004: expected an expression, found `=`
//   help: only `+= -= *= /=` assign with an operator: write `x = x % y`
  n++
//  ^ PH0004: there is no prefix `+`
//  help: write `x += 1` or `x -= 1`
}
// -----
kernel d(X: tensor<f32>[N], I: tensor<i32>[N], n: i32) {
  let r = True
//        ^^^^ PH0010: unknown name `True`
//        help: write `true`
  let s = sin(X[0]) + pow(X[0], 2)
//        ^^^ PH0011: unknown function `sin`
//        help: there is no `sin`; SPEC.md lists the builtins
//                    ^^^ PH0011: unknown function `pow`
//                    help: multiply, or write `exp(y * log(x))`
  let t = zeros(4)
//        ^^^^^ PH0011: unknown function `zeros`
//        help: a number fills a tile: `var t: tile<f32>[N] = 0.0`
  let u = arange(4)
//        ^^^^^^ PH0011: unknown function `arange`
//        help: `iota([n], 0)` has the positions
}
// -----
// Floor division of Python is a comment.
const HALF = 64 // 2
//              ^^^^ PH0070: this comment stands where a divisor would
//              help: `//` begins a comment; the quotient of integers is `a / b`, rounded towards zero
@autotune(TILE in [32])
kernel k(X: tensor<f32>[N], Y: tensor<f32>[N], n: i32) {
  let g = n // 2
//          ^^^^ PH0070: this comment stands where a divisor would
//          help: `//` begins a comment; the quotient of integers is `a / b`, rounded towards zero
  let h = n // TILE
//          ^^^^^^^ PH0070: this comment stands where a divisor would
//          help: `//` begins a comment; the quotient of integers is `a / b`, rounded towards zero
  var i = (n + 1) // (2 * TILE)
//                ^^^^^^^^^^^^^ PH0070: this comment stands where a divisor would
//                help: `//` begins a comment; the quotient of integers is `a / b`, rounded towards zero
  i = X[0] // n % 8
//    ^^^^ PH0020: `i` is i32, not f32 [f32 where i32 is expected]
//    help: write a cast: `i32(...)`
//         ^^^^^^^^ PH0070: this comment stands where a divisor would
//         help: `//` begins a comment; the quotient of integers is `a / b`, rounded towards zero
  let j = n // the whole number
  let k = n // 2 rows
  let l = n // see [1]
  let m = n
  // 2
  let o = (n // 2)
  let p = X[n // 2 :+ 4]
// ^^^ PH0005: expected `)`, found the keyword `let`
// note: 14:11: `(` is open since here
// help: `//` begins a comment; the quotient of integers is `a / b`, rounded towards zero
  for q in range(0, n // 2) {
// ^^^ PH0005: expected `]`, found the keyword `for`
// note: 15:12: `[` is open since here
// help: `//` begins a comment; the quotient of integers is `a / b`, rounded towards zero
    Y[program_id(0)] = 1.0
//  ^ PH0005: expected `)`, found `Y`
//  note: 16:17: `(` is open since here
//  help: `//` begins a comment; the quotient of integers is `a / b`, rounded towards zero
  }
}
// ^ PH0004: expected `kernel`, `fn`, `const`, `import` or an attribute, found `}`
// -----
@autotune(TILE in [32] where TILE // 2 > 8)
// ^ PH0015: there is no kernel `k`
// help: the text has no kernel
kernel k(X: tensor<f32>[N]) {
// ^^^^^^ PH0005: expected `)`, found the keyword `kernel`
// note: 1:10: `(` is open since here
// help: `//` begins a comment; the quotient of integers is `a / b`, rounded towards zero
  X[program_id(0)] = 0.0
}
// -----
// Arguments have no names.
fn twice(x: f32) -> f32 { return x + x }
kernel k(X: tensor<f32>[N], I: tensor<i32>[N]) {
  let x = X[0 :+ 4]
  let a = sum(x, axis=0)
//               ^^^^ PH0019: unknown keyword argument `axis`
//               help: arguments of `sum` stand in order, without names: sum(x: tile, axis: int) -> tile
  let b = sum(x, dim=0)
//               ^^^ PH0019: unknown keyword argument `dim`
//               help: arguments of `sum` stand in order, without names: sum(x: tile, axis: int) -> tile
  let c = iota([4], axis=0)
//                  ^^^^ PH0019: unknown keyword argument `axis`
//                  help: arguments of `iota` stand in order, without names: iota([dims], axis: int) -> tile<i32>[dims]
  let d = twice(x=1.0)
//              ^ PH0019: unknown keyword argument `x`
//              help: arguments of `twice` stand in order, without names
  let e = dot(a=x, b=x)
//            ^ PH0019: unknown keyword argument `a`
//            help: the operands stand in order, without names; the only keyword is `precision`
  let f = f32(value=I[0])
//            ^^^^^ PH0019: unknown keyword argument `value`
//            help: arguments of `f32` stand in order, without names: f32(x)
  let g = atomic_add(I, 0, v=1)
//                         ^ PH0019: unknown keyword argument `v`
//                         help: arguments of `atomic_add` stand in order, without names: atomic_add(t: tensor<i32>, i, ..., v: i32) -> i32
}
// -----
// Tiles where scalars are needed: there is no gather, and tiles become scalars through memory.
kernel k(X: tensor<f32>[N], I: tensor<i32>[N]) {
  let at = I[0 :+ 4]
  let a = X[at]
//          ^^ PH0025: a subscript is a scalar, not tile<i32>[4]
//          help: there is no gather: a position that lies in a tensor is read by itself, as in `X[I[i]]`, in a loop over i
  let b = X[at :+ 4]
//          ^^ PH0025: the start of a slice is a scalar, not tile<i32>[4]
//          help: there is no gather: a position that lies in a tensor is read by itself, as in `X[I[i]]`, in a loop over i
  for i in range(0, at) { }
//                  ^^ PH0025: the end of a range is a scalar, not tile<i32>[4]
//                  help: compute with tiles, as in `where(c, a, b)`, or store the tile to a tensor and read one element back
  while at > 0 { }
//      ^^^^^^ PH0025: the condition of `while` is a scalar, not tile<bool>[4]
//      help: compute with tiles, as in `where(c, a, b)`, or store the tile to a tensor and read one element back
}
// -----
// The narrowest type that holds both.
kernel k(X: tensor<i32>[N], U: tensor<u32>[N], B: tensor<u8>[N], S: tensor<i8>[N], L: tensor<i64>[N], n: i32, s: f32) {
  let a = u32(n) >> n
//        ^^^^^^^^^^^ PH0020: `>>` of u32 and i32 [u32 and i32]
//        help: write casts: `i64(...)` and `i64(n)`
  let b = u32(n) >> N
//        ^^^^^^^^^^^ PH0020: `>>` of u32 and index [u32 and index]
//        help: write a cast: `i64(...)`
  let c = X[0 :+ 4] == L[0]
//        ^^^^^^^^^^^^^^^^^ PH0020: `==` of tile<i32>[4] and i64 [i32 and i64]
//        help: write a cast: `i64(...)`
  let d = X[0 :+ 4] == U[0 :+ 4]
//        ^^^^^^^^^^^^^^^^^^^^^^ PH0020: `==` of tile<i32>[4] and tile<u32>[4] [i32 and u32]
//        help: write casts: `i64(...)` and `i64(...)`
  let e = U[0 :+ 4] + N
//        ^^^^^^^^^^^^^ PH0020: `+` of tile<u32>[4] and index [u32 and index]
//        help: write a cast: `i64(...)`
  let f = B[0 :+ 4] + S[0 :+ 4]
//        ^^^^^^^^^^^^^^^^^^^^^ PH0020: `+` of tile<u8>[4] and tile<i8>[4] [u8 and i8]
//        help: write casts: `i16(...)` and `i16(...)`
  let g = B[0 :+ 4] + n
//        ^^^^^^^^^^^^^ PH0020: `+` of tile<u8>[4] and i32 [u8 and i32]
//        help: write a cast: `i32(...)`
  let h = S[0 :+ 4] + U[0 :+ 4]
//        ^^^^^^^^^^^^^^^^^^^^^ PH0020: `+` of tile<i8>[4] and tile<u32>[4] [i8 and u32]
//        help: write casts: `i64(...)` and `i64(...)`
  let i = where(n > 0, B[0 :+ 4], U[0 :+ 4])
//        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ PH0020: `where` of tile<u8>[4] and tile<u32>[4] [u8 and u32]
//        help: write a cast: `u32(...)`
  let j = n >> s
//        ^^^^^^ PH0020: `>>` takes integers, not f32
  let l = n % 1.5
//        ^^^^^^^ PH0020: `%` takes integers, not a float literal
//        help: write `x - floor(x / y) * y`
  let m = n > 0 && n
//        ^^^^^^^^^^ PH0020: `&&` takes bool, not i32
//        help: compare first: `x != 0`
  let o = 1 || n > 0
//        ^^^^^^^^^^ PH0020: `||` takes bool, not an integer literal
//        help: compare first: `x != 0`
  let p = n == s
//        ^^^^^^ PH0020: `==` of i32 and f32 [i32 and f32]
//        help: write a cast: `f32(n)`
}
// -----
// Positions before 0 and behind a constant end are outside whatever the sizes are.
@autotune(T in [8, 16])
kernel k(X: tensor<f32>[N], Y: tensor<f32>[4, N]) {
  let i = program_id(0)
  let a = X[-1]
//          ^^ PH0071: this lies outside the tensor as a whole: it reads nothing and writes nothing [the axis has extent N]
//          help: positions do not count from the end: the last one is `N - 1`
  let b = X[-1 :+ T]
//          ^^^^^^^ PH0071: this lies outside the tensor as a whole: it reads nothing and writes nothing [the axis has extent N]
//          help: positions do not count from the end: the last one is `N - 1`
  let c = Y[4, i]
//          ^ PH0071: this lies outside the tensor as a whole: it reads nothing and writes nothing [the axis has extent 4]
  let d = Y[4 :+ 2, i] else 1.0
//          ^^^^^^ PH0071: this lies outside the tensor as a whole: it reads nothing and writes nothing [the axis has extent 4]
  let e = Y[3 :+ 2, 0 :+ 4]
  let f = e[0, -1 :+ T]
//             ^^^^^^^ PH0035: this lies outside the tile [the axis has extent 4]
  X[-4 : -2] = 1.0
//  ^^^^^^^ PH0071: this lies outside the tensor as a whole: it reads nothing and writes nothing [the axis has extent N]
//  help: positions do not count from the end: the last one is `N - 1`
  Y[0, i * T :+ T] = 0.0
}
// -----
// Not recursive, and too many.
fn f1(x: f32) -> f32 { return x + 1.0 }
fn f2(x: f32) -> f32 { return f1(f1(f1(f1(f1(f1(f1(f1(f1(f1(f1(x))))))))))) }
//                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ PH0006: the kernel has more than 1000 calls of functions after inlining
//                                        help: a function is inlined at each call: use loops, or make it several kernels
fn f3(x: f32) -> f32 { return f2(f2(f2(f2(f2(f2(f2(f2(f2(f2(f2(x))))))))))) }
fn f4(x: f32) -> f32 { return f3(f3(f3(f3(f3(f3(f3(f3(f3(f3(f3(x))))))))))) }
kernel k(X: tensor<f32>[N]) {
  X[program_id(0)] = f4(1.0)
}
// -----
// Recursive through another.
fn even(x: f32) -> f32 { return odd(x) }
fn odd(x: f32) -> f32 { return even(x) }
//                             ^^^^^^^ PH0006: calls of `even` do not end
//                             help: functions are inlined, so they cannot be recursive
kernel k(X: tensor<f32>[N]) {
  X[program_id(0)] = even(1.0)
}
// -----
// Nested too deeply, and not recursive.
fn a1(x: f32) -> f32 { return x }
fn a2(x: f32) -> f32 { return a1(x) }
//                            ^^^^^ PH0006: calls nest at most 16 deep, and this one of `a1` deeper
//                            help: write the inner functions where they are called
fn a3(x: f32) -> f32 { return a2(x) }
fn a4(x: f32) -> f32 { return a3(x) }
fn a5(x: f32) -> f32 { return a4(x) }
fn a6(x: f32) -> f32 { return a5(x) }
fn a7(x: f32) -> f32 { return a6(x) }
fn a8(x: f32) -> f32 { return a7(x) }
fn a9(x: f32) -> f32 { return a8(x) }
fn b1(x: f32) -> f32 { return a9(x) }
fn b2(x: f32) -> f32 { return b1(x) }
fn b3(x: f32) -> f32 { return b2(x) }
fn b4(x: f32) -> f32 { return b3(x) }
fn b5(x: f32) -> f32 { return b4(x) }
fn b6(x: f32) -> f32 { return b5(x) }
fn b7(x: f32) -> f32 { return b6(x) }
fn b8(x: f32) -> f32 { return b7(x) }
kernel k(X: tensor<f32>[N]) {
  X[program_id(0)] = b8(1.0)
}
