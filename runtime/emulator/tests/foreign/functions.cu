// Function tables, recursion, printf and the grid barrier of cooperative groups, as
// NVIDIA's compiler writes them.
#include <cooperative_groups.h>
#include <cstdio>

namespace cg = cooperative_groups;

typedef int (*Operation)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int multiply(int a, int b) { return a * b; }
__device__ Operation table[2] = {add, multiply};

__device__ __noinline__ int fibonacci(int n) {
  if (n < 2) return n;
  return fibonacci(n - 1) + fibonacci(n - 2) * 1;
}

// Each call hands the address of a variable of its own to the next.
__device__ __noinline__ void walk(int depth, int *sum) {
  int here = depth;
  if (depth == 0) {
    *sum += 1;
    return;
  }
  walk(depth - 1, &here);
  walk(depth - 1, &here);
  *sum += here;
}

__device__ __noinline__ void endless(int *p) {
  int here = *p + 1;
  endless(&here);
  *p = here + 1;
}

extern "C" __global__ void tables(int *out, const int *in) {
  int t = threadIdx.x;
  out[t] = table[in[t] & 1](in[t], 3);
}

extern "C" __global__ void recursion(int *out) {
  int t = threadIdx.x;
  out[t] = fibonacci(t % 9);
  int sum = 0;
  walk(t % 4, &sum);
  out[t + 32] = sum;
}

extern "C" __global__ void overflow(int *out) { endless(out); }

extern "C" __global__ void print(const int *in) {
  int t = threadIdx.x;
  if (t < 2)
    printf("t %d half %5.2f|%-6s|%c %lld %#x %u%% %e %g\n", t, in[t] * 0.5, "str", 'a' + t, (long long)in[t] << 33,
           in[t], -1, in[t] * 1e-3, in[t] * 0.25);
}

extern "C" __global__ void grid_sum(int *out, int *counter) {
  cg::grid_group grid = cg::this_grid();
  for (int round = 0; round < 2; ++round) {
    if (threadIdx.x == 0) atomicAdd(counter, 1);
    grid.sync();
    if (threadIdx.x == 0) out[2 * blockIdx.x + round] = *(volatile int *)counter;
    grid.sync();
  }
}
