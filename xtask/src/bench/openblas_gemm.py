"""The speed of numpy's f32 product of square matrices, for `cargo xtask bench host`: SIZE THREADS.

Times products one after the other as long as runtime/engine/examples/gemm.rs does, and prints the median in
GFLOP/s, and which OpenBLAS it was with which kernels.
"""

import sys
import time

import numpy
import threadpoolctl

size, threads = int(sys.argv[1]), int(sys.argv[2])
library = next(info for info in threadpoolctl.threadpool_info() if info["internal_api"] == "openblas")
if library["num_threads"] != threads:
    sys.exit(f"OpenBLAS runs {library['num_threads']} threads, not {threads}")
print(f"library OpenBLAS {library['version']}, kernels for {library['architecture']}")

random = numpy.random.default_rng(1)
a, b = (random.random((size, size), dtype=numpy.float32) - numpy.float32(0.5) for _ in range(2))
c = numpy.zeros((size, size), dtype=numpy.float32)
numpy.matmul(a, b, out=c)
seconds = []
begin = time.perf_counter()
while len(seconds) < 5 or time.perf_counter() - begin < 0.7:
    start = time.perf_counter()
    numpy.matmul(a, b, out=c)
    seconds.append(time.perf_counter() - start)
print(f"gflops {2 * size**3 / sorted(seconds)[len(seconds) // 2] / 1e9:.2f}")
