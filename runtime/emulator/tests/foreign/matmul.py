"""Triton's sm_80 matmul, ahead of time and without a GPU: python matmul.py OUT.

C[M, N] (f32) = A[M, K] B[N, K]^T with f16 or f32 operands, tiles of 64 x 64 x 32.
"""
import os
import re
import sys

os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul(a, b, c, K, sam, sbn, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * sam + rk[None, :]
    pb = b + rn[None, :] * sbn + rk[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc, input_precision="ieee")
        pa += BK
        pb += BK
    tl.store(c + rm[:, None] * scm + rn[None, :], acc)


def emit(ty, out):
    names = ["a", "b", "c", "K", "sam", "sbn", "scm"]
    signature = dict(zip(names, ["*" + ty, "*" + ty, "*fp32"] + ["i32"] * 4))
    signature.update(BM="constexpr", BN="constexpr", BK="constexpr")
    source = ASTSource(
        fn=matmul,
        signature=signature,
        constexprs={"BM": 64, "BN": 64, "BK": 32},
        attrs={(i,): [["tt.divisibility", 16]] for i in range(7)},
    )
    options = {"num_warps": 4, "num_stages": 3}
    kernel = triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)
    text = kernel.asm["ptx"]
    # Debug sections and the path of this file are no part of the code.
    text = re.sub(r'\.file\s+(\d+)\s+".*"', r'.file \1 "matmul.py"', text)
    text = re.sub(r"\n\s*\.section.*?\n\s*\}\s*(?=\n)", "\n", text, flags=re.S)
    text = text.replace(", debug", "")
    header = f"// shared {kernel.metadata.shared} threads {kernel.metadata.num_warps * 32}\n"
    with open(os.path.join(out, f"triton_{ty}.ptx"), "w") as file:
        file.write(header + text)


if __name__ == "__main__":
    for ty in ("fp16", "fp32"):
        emit(ty, sys.argv[1])
