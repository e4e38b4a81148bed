// --emit: every stage, and where it is written.
// RUN: phobos-compile %s --chip host-x86-64-v3 --emit tile | FileCheck %s --check-prefix=TILE
// RUN: phobos-compile %s --chip host-x86-64-v3 --emit specialized | FileCheck %s --check-prefix=SPECIALIZED
// RUN: phobos-compile %s --chip host-x86-64-v3 --emit host | FileCheck %s --check-prefix=HOST
// RUN: phobos-compile %s --chip host-x86-64-v3 --emit llvm | FileCheck %s --check-prefix=LLVM
// RUN: phobos-compile %s --chip host-x86-64-v3 --emit asm | FileCheck %s --check-prefix=ASM
// RUN: rm -rf %t && mkdir -p %t && cd %t
// RUN: phobos-compile %s --chip host-x86-64-v3 --emit obj
// RUN: llvm-readelf --file-headers --symbols emit.host-x86-64-v3.o | FileCheck %s --check-prefix=OBJ
// RUN: phobos-compile %s --chip host-x86-64-v3
// RUN: test -s emit.host-x86-64-v3.phk
// RUN: phobos-compile %s --chip host-x86-64-v3 -o named.phk && cmp named.phk emit.host-x86-64-v3.phk
// RUN: phobos-compile %s --chip host-x86-64-v3 -o - > piped.phk && cmp piped.phk named.phk
// RUN: phobos-compile %s --chip host-x86-64-v3 --emit asm -o code.s && FileCheck %s --check-prefix=ASM < code.s
// RUN: phobos-compile %s --chip host-x86-64-v3 -o /dev/null && test -c /dev/null
// Nothing else is left behind.
// RUN: ls | count 5
// RUN: %{status} 2 phobos-compile %s --chip host --emit ptx 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: invalid value 'ptx' for '--emit <EMIT>'

// Each level has vectors of its own.
// RUN: phobos-compile %s --chip host-x86-64-v2 --emit asm | FileCheck %s --check-prefix=V2
// RUN: phobos-compile %s --chip host-x86-64-v4 --emit asm | FileCheck %s --check-prefix=V4

// TILE: phobos.param "T"
// SPECIALIZED: phobos.load {{.*}} -> tensor<64xf32>
// HOST: llvm.func @phobos_entry
// LLVM: define void @phobos_entry
// LLVM: load <8 x float>
// ASM: phobos_entry:
// ASM: vaddps {{.*}}%ymm
// OBJ: Class: {{ *}}ELF64
// OBJ: Type: {{ *}}REL
// OBJ: FUNC GLOBAL DEFAULT {{.*}} phobos_entry
// V2-NOT: %ymm
// V2: addps {{.*}}%xmm
// V4: vaddps {{.*}}%zmm
@autotune(T in [64])
kernel k(A: tensor<f32>[N], B: tensor<f32>[N]) {
  B[program_id(0) * T :+ T] = A[program_id(0) * T :+ T] + 1.0
}
