@autotune(T in [], U in [0, 4], V, W in [1.5], X in [T], X in [4])
//        ^^^^^^^ PH0018: `T` has 0 values
//        help: a list stands for 1 to 64 values
//                       ^ PH0018: a value is at least 1 and at most 2147483648, not 0
//                              ^ PH0018: `@autotune` takes lists of values
//                              help: write `@autotune(NAME in [low, high])`
//                                       ^^^ PH0061: a value is an integer constant, not a float literal
//                                                   ^ PH0010: unknown name `T`
//                                                       ^ PH0014: `X` is listed twice
//                                                       note: 1:48: the first list
@launch(100)
//      ^^^ PH0018: threads: 100 is not between 32 and 1024 and a multiple of 32
@pipeline(2)
// ^^^^^^^^^^^^ PH0018: `@pipeline` takes no arguments
@tensorcore(fast)
// ^^^^^^^^^^^^^^^^^ PH0018: `@tensorcore` takes nothing, `sync` or `wmma`
// help: write `@tensorcore`, `@tensorcore(sync)` or `@tensorcore(wmma)`
@aligned(Q = 3, M = 0, M)
//       ^ PH0010: no tensor has a dim `Q`
//       help: did you mean `M`?
//                  ^ PH0018: an alignment is positive, not 0
//                     ^ PH0018: `@aligned` takes `DIM = n`
//                     help: write `@aligned(K = 32)`
@dynshared
@dynshared
// ^^^^^^^^^^ PH0014: `@dynshared` is given twice
// note: 6:1: the first
@group(q, 4)
// ^^^^^^^^^^^^ PH0018: `@group` takes an axis and a size
// help: write `@group(pm, 8)` with `let pm = program_id(...)` in the body
@fast
// ^^^^ PH0012: unknown attribute `@fast`
// help: attributes are autotune, cluster, launch, pipeline, tensorcore, aligned, dynshared, persistent, grid, group
kernel k(A: tensor<f32>[M, N]) { }
// -----
@autotune(T in [16, 64], U in [16, 64] where T * U <= 1024, M < 4, T + 1)
//                                                          ^ PH0010: unknown name `M`
//                                                          help: did you mean `T`?
//                                                                 ^^^^^ PH0027: a condition of `where` is bool, not index
//                                                                 help: compare with `!= 0`
@launch()
// ^^^^^^^^^ PH0018: `@launch` takes 1 to 3 numbers, not 0
// help: write `@launch(threads)`, `@launch(threads, min_blocks)` or `@launch(threads, min_blocks, max_registers)`
@cluster()
// ^^^^^^^^^^ PH0018: `@cluster` lists no parameters
// help: write `@cluster(NAME in [low, high])`
@aligned
// ^^^^^^^^ PH0018: `@aligned` names no dim
// help: write `@aligned(K = 32)`
@launch(256, 1, 2, 3)
// ^^^^^^^^^^^^^^^^^^^^^ PH0014: `@launch` is given twice
// note: 2:1: the first
// ^^^^^^^^^^^^^^^^^^^^^ PH0018: `@launch` takes 1 to 3 numbers, not 4
// help: write `@launch(threads)`, `@launch(threads, min_blocks)` or `@launch(threads, min_blocks, max_registers)`
kernel k(A: tensor<f32>[M, N]) { }
