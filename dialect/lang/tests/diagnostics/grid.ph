kernel k(A: tensor<f32>[M, N]) {
  let m = program_id(0)
//        ^^^^^^^^^^^^^ PH0050: the number of programs on axis 0 cannot be derived [no slice starts at `program_id(0) * T` with length T]
//        help: write `@grid(...)` above kernel `k`
  A[m / 2, 0] = 1.0
}
// -----
@autotune(T in [16], U in [16])
kernel k(A: tensor<f32>[M, N], B: tensor<f32>[M, N]) {
  let m = program_id(0)
//        ^^^^^^^^^^^^^ PH0050: the number of programs on axis 0 cannot be derived
//        note: 4:3: this slice gives ceil(M / T)
//        note: 5:3: this slice gives ceil(M / U)
//        help: write `@grid(...)` above kernel `k`
  A[m * T :+ T, 0] = 1.0
  B[m * U :+ U, 0] = 1.0
}
// -----
@grid(M / 2, ceil(M), exp(1.0))
//    ^^^^^ PH0051: a quotient in a grid says how it rounds
//    help: write `ceil(a / b)`
//           ^^^^^^^ PH0051: `ceil` in a grid is of a quotient: `ceil(a / b)`
//           help: a grid is made of integers, dims, parameters, `+`, `*` and `ceil(a / b)`
//                    ^^^^^^^^ PH0051: this is not a grid expression
//                    help: a grid is made of integers, dims, parameters, `+`, `*` and `ceil(a / b)`
kernel a(A: tensor<f32>[M, N]) { }
@grid()
// ^^^^^^^ PH0051: `@grid` has 1 to 3 arguments, not 0
// help: write `@grid(ceil(M / T), N)`: one to three expressions
kernel b(A: tensor<f32>[M, N]) { }
@grid(1, 2, 3, 4)
// ^^^^^^^^^^^^^^^^^ PH0051: `@grid` has 1 to 3 arguments, not 4
// help: write `@grid(ceil(M / T), N)`: one to three expressions
kernel c(A: tensor<f32>[M, N]) { }
@grid(M, X = 3)
// ^^^^^^^^^^^^^^^ PH0051: an argument of `@grid` is an expression
// help: write `@grid(ceil(M / T), N)`: one to three expressions
kernel d(A: tensor<f32>[M, N]) { }
@grid(M)
kernel e(A: tensor<f32>[M, N]) {
  A[program_id(0), program_id(1)] = 1.0
//                 ^^^^^^^^^^^^^ PH0051: the kernel reads program_id(1)
//                 note: 9:1: the grid has 1 axis
//                 help: add an expression to `@grid`
}
@grid(n, ceil(M / 4.0), Q)
//    ^ PH0051: i32 is not known before the launch
//    help: a grid is made of integers, dims, parameters, `+`, `*` and `ceil(a / b)`
//                ^^^ PH0051: this is not a grid expression
//                help: a grid is made of integers, dims, parameters, `+`, `*` and `ceil(a / b)`
//                      ^ PH0010: unknown name `Q`
//                      help: did you mean `n`?
kernel f(A: tensor<f32>[M, N], n: i32) { }
