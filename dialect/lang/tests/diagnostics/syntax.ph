// An unclosed brace does not hide the next kernel.
kernel a(X: tensor<f32>[N]) {
  for i in range(0, N) {
    X[i] = 0.0
  
kernel b(X: tensor<f32>[N]) {
// ^^^^^^ PH0005: expected `}`, found the keyword `kernel`
// note: 3:24: `{` is open since here
  X[0] = unknown
//       ^^^^^^^ PH0010: unknown name `unknown`
}
// -----
// Several errors in one run, with tabs.
kernel k(X: tensor<f32>[N]) {
	let a = (1 + 
	let b = 3 $ 4
// ^^^ PH0004: expected an expression, found the keyword `let`
//         ^ PH0001: unexpected character `$`
	let c = X[0
	let d = 1.5f
// ^^^ PH0005: expected `]`, found the keyword `let`
// note: 5:11: `[` is open since here
//       ^^^^ PH0002: `f` behind a number
//       help: a literal takes its type from its use; write a cast such as `f16(1.5)` to choose one
	X[0] = 0x
//      ^^ PH0002: a hexadecimal number needs digits
	X[1] = "open
//      ^^^^^ PH0003: text without a closing quote
//      help: close it with `"` on the same line
//      ^^^^^ PH0025: a text is not a value
//      help: texts stand in `assert(condition, "text")`
}
// -----
kernel k(X: tensor<f32>[N]) {
  let a
//     ^ PH0004: `let` needs a value
//     help: write `= ...` behind `a`
  var b
//     ^ PH0004: `var` without a type needs a value
//     help: write `= ...` behind `b`
  let c = 1 < 2 < 3
//              ^ PH0004: comparisons cannot be chained
//              help: write `a < b && b < c`
  let d = +1
//        ^ PH0004: there is no prefix `+`
//        help: remove it
  let e = .5
//        ^ PH0004: a number does not begin with `.`
//        help: write `0.5`
  let f = X[: 4]
//          ^ PH0004: a range needs both ends
//          help: write `0 : end`, or `:` alone for the whole axis
  let g = X[4 :]
//            ^ PH0004: a range needs both ends
//            help: write `start :+ length`, or `:` alone for the whole axis
  let h = 99999999999999999999
//        ^^^^^^^^^^^^^^^^^^^^ PH0002: integer does not fit 64 bits
  f(1)(2)
//    ^ PH0004: only a name can be called
  for i in 3 { }
//         ^ PH0004: expected `range(start, end[, step])`, found `3`
  for i in range() { }
//         ^^^^^^^ PH0023: `range` takes 1 to 3 arguments, not 0
//         help: range(end), range(start, end) or range(start, end, step)
  while true { 1 }
//             ^ PH0043: this value is computed and dropped [an integer literal]
//             help: assign it, or remove the line
  return
// ^^^^^^ PH0046: a kernel returns nothing
// help: store the result to a tensor
}
// -----
kernal k(X: tensor<f32>[N]) {
// ^^^^^^ PH0004: expected an item, found `kernal`
// help: did you mean `kernel`?
}
const C = 1 2
//          ^ PH0004: expected the end of the constant, found `2`
fn f(x: f32 -> f32 { return x }
//          ^^ PH0005: expected `)`, found `->`
//          note: 4:5: `(` is open since here
kernel k[F: foo](X: tensor<f32[N]) { }
//          ^^^ PH0004: expected `format` or `dtype`, found `foo`
//          help: `format` is any tensor element, `dtype` a scalar type
//                            ^ PH0004: expected `>`, found `[`
kernel ok(X: tensor<f32>[N]) {
  X[0] = 1.0
}
// -----
@autotune(T in [4]
// ^ PH0015: there is no kernel `k`
// help: the text has no kernel
kernel k(X: tensor<f32>[N]) {
// ^^^^^^ PH0005: expected `)`, found the keyword `kernel`
// note: 1:10: `(` is open since here
  X[program_id(0)] = 1.0
}
// -----
import "other.ph"
// ^^^^^^^^^^^^^^^^^ PH0007: this import was not expanded
// help: give the text through `import::expand`
kernel k(X: tensor<f32>[N]) {
  X[0] = 1.0
}
// -----
// no kernel
// ^ PH0015: there is no kernel `k`
// help: the text has no kernel
