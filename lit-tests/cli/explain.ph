// --explain: a rule by its code, or the paths that this kernel's operations took.
// RUN: phobos-compile --explain PH0012 | FileCheck %s --check-prefix=CODE
// RUN: phobos-compile --explain ph0012 | FileCheck %s --check-prefix=CODE
// CODE: PH0012: unknown attribute
// CODE: a misspelt one would be lost in silence
// RUN: %{status} 2 phobos-compile --explain PH9999 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: {{.*}}PH9999

// RUN: phobos-compile %s --chip host --explain -o /dev/null 2>&1 | FileCheck %s
// RUN: phobos-compile --explain %s --chip host -o /dev/null 2>&1 | FileCheck %s
// CHECK: gemm for host-x86-64-v{{[234](-vnni)?}}: T=32
// CHECK-NEXT: grid ceil(M / 32) x ceil(N / 32) x 1
// CHECK-NEXT: scratch {{[1-9][0-9]*}} bytes
// CHECK-NEXT: explain.ph:[[#@LINE+5]]:12: dot: register tile of {{[0-9]+}} rows by {{[0-9]+}} columns on the right side
@autotune(T in [32])
kernel gemm(A: tensor<f32>[M, K], B: tensor<f32>[K, N], C: tensor<f32>[M, N]) {
  var acc: tile<f32>[T, T] = 0.0
  for k in range(0, K, T) {
    acc += dot(A[program_id(0) * T :+ T, k :+ T], B[k :+ T, program_id(1) * T :+ T])
  }
  C[program_id(0) * T :+ T, program_id(1) * T :+ T] = acc
}

// RUN: env PHOBOS_PRINT_PHASES=1 phobos-compile %s --chip host -o /dev/null 2>&1 | FileCheck %s --check-prefix=PHASES
// PHASES: gemm host-x86-64-v{{[234](-vnni)?}}: check {{[0-9.]+}} + tune {{[0-9.]+}} + {{.*}} + link {{[0-9.]+}} = {{[0-9.]+}} ms
// RUN: phobos-compile %s --chip host --index-bits 32 --explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=INDEX
// INDEX: --index-bits 32 has no effect on the host
