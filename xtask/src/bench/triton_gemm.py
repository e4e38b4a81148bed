"""Compiles one gemm in several tile sizes with Triton, without a GPU, and prints kernels per second.

    triton_gemm.py WORKERS CHIP MxNxK,...    CHIP: 80 for sm_80

C = alpha A B + beta C in f32, row-major, edges masked: what examples/gemm_fp32.ph computes. Each worker is a process
that has imported Triton and compiled once before the clock starts. PTX and cubin are made; nothing is read from a
cache.
"""

import multiprocessing
import os
import sys
import tempfile
import time

os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"
os.environ["TRITON_ALWAYS_COMPILE"] = "1"

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def gemm(A, B, C, M, N, K, alpha, beta, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr):
    rows = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)[:, None]
    columns = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)[None, :]
    inner = tl.arange(0, TILE_K)
    acc = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for k in range(0, K, TILE_K):
        left = k + inner[None, :]
        right = k + inner[:, None]
        a = tl.load(A + rows * K + left, mask=(rows < M) & (left < K), other=0.0)
        b = tl.load(B + right * N + columns, mask=(right < K) & (columns < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    inside = (rows < M) & (columns < N)
    at = C + rows * N + columns
    tl.store(at, alpha * acc + beta * tl.load(at, mask=inside), mask=inside)


def compile_tile(chip, tile):
    signature = {name: "*fp32" for name in "ABC"} | {name: "i32" for name in "MNK"}
    signature |= {"alpha": "fp32", "beta": "fp32", "TILE_M": "constexpr", "TILE_N": "constexpr", "TILE_K": "constexpr"}
    constants = dict(zip(("TILE_M", "TILE_N", "TILE_K"), tile))
    attributes = {(index,): [["tt.divisibility", 16]] for index in range(6)}
    source = ASTSource(fn=gemm, signature=signature, constexprs=constants, attrs=attributes)
    kernel = triton.compile(source, target=GPUTarget("cuda", chip, 32), options={"num_warps": 4, "num_stages": 2})
    assert kernel.asm["cubin"]


def work(chip, tiles, ready, go, done):
    with tempfile.TemporaryDirectory() as cache:
        triton.knobs.cache.dir = cache
        compile_tile(chip, (16, 16, 16))
        ready.put(None)
        go.wait()
        for tile in tiles:
            compile_tile(chip, tile)
        done.put(None)


def main():
    workers, chip = int(sys.argv[1]), int(sys.argv[2])
    tiles = [tuple(int(size) for size in tile.split("x")) for tile in sys.argv[3].split(",")]
    context = multiprocessing.get_context("spawn")
    ready, go, done = context.Queue(), context.Event(), context.Queue()
    shares = [tiles[index::workers] for index in range(workers)]
    processes = [context.Process(target=work, args=(chip, share, ready, go, done)) for share in shares]
    for process in processes:
        process.start()
    for _ in processes:
        ready.get(timeout=300)
    start = time.monotonic()
    go.set()
    for _ in processes:
        done.get(timeout=600)
    print(f"kernels_per_second {len(tiles) / (time.monotonic() - start):.3f}")
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
