@autotune(T in [16])
kernel k(A: tensor<f32>[M, K], s: f32) {
  let a = A[0 :+ 16, 0 :+ 16]
  let n = 1
  var t: tile<f32>[16, 16]
  var u: f32
  a = 0.0
// ^ PH0040: the `let` `a` cannot be assigned
// note: 3:7: declared here
// help: declare it as `var a`
  a[0, :] = 0.0
// ^ PH0040: the view `a` cannot be assigned
// note: 3:7: declared here
// help: `var a = ...` makes a copy that can be assigned; assign the tensor to store
  n = 2
// ^ PH0040: the `let` `n` cannot be assigned
// note: 4:7: declared here
// help: declare it as `var n`
  n += 2
// ^ PH0040: the `let` `n` cannot be assigned
// note: 4:7: declared here
// help: declare it as `var n`
  s = 1.0
// ^ PH0041: the parameter `s` cannot be assigned
// help: copy it: `var x = s`
  M = 3
// ^ PH0041: the dim `M` cannot be assigned
// help: copy it: `var x = M`
  T = 3
// ^ PH0041: the `@autotune` parameter `T` cannot be assigned
// help: copy it: `var x = T`
  A = 1.0
// ^ PH0041: the tensor `A` cannot be assigned as a whole
// help: store to a slice: `A[...] = ...`
  misssing = 1
// ^^^^^^^^ PH0010: unknown name `misssing`
// help: declare it: `var misssing = ...`
  C = 2
// ^ PH0041: the constant `C` cannot be assigned
// help: copy it: `var x = C`
  for i in range(0, 4) {
    i = 3
//  ^ PH0040: a loop variable cannot be assigned
//  note: 17:7: declared here
//  help: copy it: `var i = ...`
  }
  A[0, 0] = u
//          ^ PH0042: `u` may be read before it has a value
//          note: 6:7: declared here without a value
//          help: give it a value where it is declared
  if s > 0.0 {
    u = 1.0
  }
  A[0, 1] = u
  A[0 :+ 16, 0 :+ 16] = t
//                      ^ PH0042: `t` may be read before it has a value
//                      note: 5:7: declared here without a value
//                      help: give it a value where it is declared
  t[0, :] = 1.0
  A[0 :+ 16, 0 :+ 16] = t
  t
// ^ PH0043: this value is computed and dropped [tile<f32>[16, 16]]
// help: assign it, or remove the line
  exp(1.0)
// ^^^^^^^^ PH0043: this value is computed and dropped [f32]
// help: assign it, or remove the line
  exp(1.0) = 2.0
// ^^^^^^^^ PH0044: this cannot be assigned
// help: assign a variable, `tile[...]` or `tensor[...]`
  a + a = 1
// ^^^^^ PH0044: this cannot be assigned
// help: assign a variable, `tile[...]` or `tensor[...]`
  u[0] = 1.0
// ^^^^ PH0025: `u` is f32 and has no axes to slice
  t[16, 0] = 1.0
//  ^^ PH0035: this lies outside the tile [the axis has extent 16]
  t[0 :+ 4, 0] = 1
  t = A[0, 0 :+ 8]
//    ^^^^^^^^^^^^ PH0021: `t` is tile<f32>[16, 16], not tile<f32>[8]
}
const C = 1
// -----
kernel k(Y: tensor<f32>[M], Z: tensor<f32>[M, N]) {
  let m = program_id(0)
  let n = program_id(1)
  Z[m, n] += 1.0
  Y[m] += 1.0
// ^^^^^^^^^^^ PH0045: several programs update this place [it does not depend on program_id(1)]
// help: give each program its own place, and combine them in a second kernel or in one program
  Y[0] -= 1.0
// ^^^^^^^^^^^ PH0045: several programs update this place [it does not depend on program_id(0), program_id(1)]
// help: give each program its own place, and combine them in a second kernel or in one program
}
// -----
// A loop may run no time, so what it assigns may have no value; a slice of a tile counts.
kernel k(Y: tensor<f32>[4, 8], n: i32) {
  var t: tile<f32>[4, 8]
  var u: tile<f32>[4, 8]
  for i in range(0, n) {
    t = 1.0
    u[i, :] = 1.0
  }
  Y[:, :] = t + u
//          ^ PH0042: `t` may be read before it has a value
//          note: 3:7: declared here without a value
//          help: give it a value where it is declared
}
// -----
// A condition on the program counts; a grid of programs that do not read their id does too.
kernel k(Y: tensor<f32>[M]) {
  let m = program_id(0)
  Y[m] = 0.0
  if m == 0 {
    Y[0] += 1.0
  }
}
@grid(8)
kernel l(Y: tensor<f32>[M], c: f32) {
  if c > 0.0 {
    Y[0] += 1.0
//  ^^^^^^^^^^^ PH0045: several programs update this place [it does not depend on program_id(0)]
//  help: give each program its own place, and combine them in a second kernel or in one program
  }
}
// -----
kernel k(Y: tensor<f32>[M], c: f32) {
  let x = where(Y[0 :+ 8] > c, 1, 0) + 1
  let y = where(Y[0 :+ 8] > c, program_id(0), 0)
//        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ PH0020: `where` with a tile condition of index values
//        help: write a cast: `i32(...)` or `f32(...)`
  Y[0 :+ 8] = f32(x)
}
