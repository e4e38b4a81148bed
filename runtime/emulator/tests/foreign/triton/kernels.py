"""Triton kernels as people write them, ahead of time and without a GPU:
python kernels.py OUT. What each computes is checked in tests/triton.rs.
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
def softmax(x, y, n, stride, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * stride + c, mask=c < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * stride + c, e / tl.sum(e, 0), mask=c < n)


@triton.jit
def layernorm(x, y, n, stride, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * stride + c, mask=c < n, other=0.0)
    d = tl.where(c < n, v - tl.sum(v, 0) / n, 0.0)
    variance = tl.sum(d * d, 0) / n
    tl.store(y + row * stride + c, d * tl.rsqrt(variance + 1e-5), mask=c < n)


@triton.jit
def sort(x, y, B: tl.constexpr):
    c = tl.arange(0, B)
    tl.store(y + c, tl.sort(tl.load(x + c)))


@triton.jit
def scan(x, y, B: tl.constexpr):
    c = tl.arange(0, B)
    tl.store(y + c, tl.cumsum(tl.load(x + c), 0))


@triton.jit
def argmax(x, y, B: tl.constexpr):
    row = tl.program_id(0)
    tl.store(y + row, tl.argmax(tl.load(x + row * B + tl.arange(0, B)), 0))


@triton.jit
def histogram(x, y, B: tl.constexpr, N: tl.constexpr):
    h = tl.histogram(tl.load(x + tl.arange(0, B)), N)
    tl.store(y + tl.arange(0, N), h)


@triton.jit
def atomics(x, y, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(y + c % 7, tl.load(x + c))


@triton.jit
def gather(x, i, y, B: tl.constexpr):
    c = tl.arange(0, B)
    tl.store(y + c, tl.gather(tl.load(x + c), tl.load(i + c), 0))


@triton.jit
def dropout(x, y, p, seed, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + c)
    tl.store(y + c, tl.where(tl.rand(seed, c) > p, v / (1 - p), 0.0))


@triton.jit
def matmul(a, b, c, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * sam + rk[None, :]
    pb = b + rk[:, None] * sbk + rn[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK
        pb += BK * sbk
    tl.store(c + rm[:, None] * scm + rn[None, :], acc)


@triton.jit
def tensors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(da.load([m, k]), db.load([k, n]), acc)
    dc.store([m, n], acc.to(tl.float16))


@triton.jit
def flash(q, k, v, o, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    rn = tl.arange(0, BN)
    query = tl.load(q + rm[:, None] * D + rd[None, :])
    m = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for s in range(0, N, BN):
        key = tl.load(k + (s + rn)[None, :] * D + rd[:, None])
        score = tl.dot(query, key) * 0.125
        score = tl.where(rm[:, None] >= (s + rn)[None, :], score, -float("inf"))
        new = tl.maximum(m, tl.max(score, 1))
        p = tl.exp(score - new[:, None])
        scale = tl.exp(m - new)
        total = total * scale + tl.sum(p, 1)
        value = tl.load(v + (s + rn)[:, None] * D + rd[None, :])
        acc = acc * scale[:, None] + tl.dot(p.to(tl.float16), value)
        m = new
    tl.store(o + rm[:, None] * D + rd[None, :], acc / total[:, None])


KERNELS = [
    (softmax, "x=*fp32 y=*fp32 n=i32 stride=i32", dict(B=1024), [90]),
    (layernorm, "x=*fp32 y=*fp32 n=i32 stride=i32", dict(B=1024), [90]),
    (sort, "x=*fp32 y=*fp32", dict(B=256), [90]),
    (scan, "x=*i32 y=*i32", dict(B=1024), [90]),
    (argmax, "x=*fp32 y=*i32", dict(B=512), [90]),
    (histogram, "x=*i32 y=*i32", dict(B=512, N=64), [90]),
    (atomics, "x=*fp32 y=*fp32", dict(B=256), [90]),
    (gather, "x=*fp32 i=*i32 y=*fp32", dict(B=256), [90]),
    (dropout, "x=*fp32 y=*fp32 p=fp32 seed=i32", dict(B=256), [90]),
    (matmul, "a=*fp16 b=*fp16 c=*fp32 K=i32 sam=i32 sbk=i32 scm=i32", dict(BM=64, BN=64, BK=64), [80, 90, 120]),
    (tensors, "a=*fp16 b=*fp16 c=*fp16 M=i32 N=i32 K=i32", dict(BM=64, BN=64, BK=64), [90, 120]),
    (flash, "q=*fp16 k=*fp16 v=*fp16 o=*fp32 N=i32", dict(D=64, BM=64, BN=64), [80, 90, 120]),
]


def emit(fn, arguments, constants, chip, out):
    signature = dict(argument.split("=") for argument in arguments.split())
    # Pointers and sizes are multiples of 16.
    aligned = [i for i, ty in enumerate(signature.values()) if ty[0] == "*" or ty == "i32"]
    attrs = {(i,): [["tt.divisibility", 16]] for i in aligned}
    signature.update({name: "constexpr" for name in constants})
    source = ASTSource(fn=fn, signature=signature, constexprs=constants, attrs=attrs)
    kernel = triton.compile(source, target=GPUTarget("cuda", chip, 32), options={"num_warps": 4, "num_stages": 3})
    text = kernel.asm["ptx"]
    # Debug sections and the path of this file are no part of the code.
    text = re.sub(r'\.file\s+(\d+)\s+".*/([^/"]*)"', r'.file \1 "\2"', text)
    text = re.sub(r"\n\s*\.section.*?\n\s*\}\s*(?=\n)", "\n", text, flags=re.S)
    text = text.replace(", debug", "")
    header = f"// shared {kernel.metadata.shared} threads {kernel.metadata.num_warps * 32}\n"
    with open(os.path.join(out, f"{fn.__name__}_{chip}.ptx"), "w") as file:
        file.write(header + text)


if __name__ == "__main__":
    for fn, arguments, constants, chips in KERNELS:
        for chip in chips:
            emit(fn, arguments, constants, chip, sys.argv[1])
