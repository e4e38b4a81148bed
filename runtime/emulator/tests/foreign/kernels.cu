// Small kernels of our own, compiled by NVIDIA's compiler to PTX (make.sh), so
// that the emulator is tested on code that it did not grow up with.
#include <cuda_fp16.h>

// out[0] += sum(x): shuffles within warps, shared memory between them, one atomic.
extern "C" __global__ void block_reduce(const float* x, float* out, int n) {
    __shared__ float partial[32];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0)
        partial[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < blockDim.x / 32 ? partial[lane] : 0.0f;
        for (int step = 16; step > 0; step /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (lane == 0)
            atomicAdd(out, sum);
    }
}

// counts[256] of bytes: a histogram in shared memory, merged by atomics.
extern "C" __global__ void histogram(const unsigned char* x, unsigned int* counts, int n) {
    __shared__ unsigned int local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[x[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        atomicAdd(&counts[i], local[i]);
}

// Steps of the Collatz sequence: lanes leave the loop at different times.
extern "C" __global__ void collatz(const unsigned int* x, unsigned int* steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned int v = x[i], count = 0;
    while (v > 1) {
        v = v % 2 == 0 ? v / 2 : 3 * v + 1;
        count++;
    }
    steps[i] = count;
}

// Half and double arithmetic: y = half(a * x + b), z = sqrt(x) / (1 + x * x) in double.
extern "C" __global__ void half_and_double(const __half2* x, __half2* y, double* z, float a, float b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    __half2 v = x[i];
    y[i] = __hfma2(v, __float2half2_rn(a), __float2half2_rn(b));
    double d = (double)__half2float(__low2half(v));
    z[i] = sqrt(fabs(d)) / (1.0 + d * d);
}

// Divisions and remainders by values known only at run time.
extern "C" __global__ void divisions(const long long* a, const long long* b, long long* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    long long x = a[i], y = b[i];
    out[6 * i + 0] = x / y;
    out[6 * i + 1] = x % y;
    out[6 * i + 2] = (long long)((unsigned long long)x / (unsigned long long)y);
    out[6 * i + 3] = (int)x / ((int)y | 1);
    out[6 * i + 4] = (long long)((unsigned int)x % ((unsigned int)y | 1u));
    out[6 * i + 5] = x / 10 + __mul64hi(x, y);
}

// Each warp counts, finds and matches: ballot, all, any, match.
extern "C" __global__ void votes(const int* x, unsigned int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = x[i];
    unsigned int ballot = __ballot_sync(0xffffffffu, v > 0);
    int all = __all_sync(0xffffffffu, v > -100), any = __any_sync(0xffffffffu, v == 7);
    unsigned int same = __match_any_sync(0xffffffffu, v);
    out[4 * i + 0] = ballot;
    out[4 * i + 1] = (all ? 2 : 0) + (any ? 1 : 0);
    out[4 * i + 2] = same;
    out[4 * i + 3] = __popc(ballot & ((1u << (threadIdx.x % 32)) - 1));
}

// C = A B, n x n, tiles of 16 x 16 in shared memory.
extern "C" __global__ void tiled_matmul(const float* a, const float* b, float* c, int n) {
    __shared__ float ta[16][16];
    __shared__ float tb[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 16) {
        ta[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        tb[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++)
            sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// The same without its second barrier: the next tile overwrites what slower
// threads still read.
extern "C" __global__ void racy_matmul(const float* a, const float* b, float* c, int n) {
    __shared__ float ta[16][16];
    __shared__ float tb[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 16) {
        ta[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        tb[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++)
            sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
    }
    c[row * n + column] = sum;
}

// The last block to finish adds up what all blocks left: fence, counter, flag.
__device__ unsigned int finished = 0;
extern "C" __global__ void last_block_sum(const float* x, float* partial, float* out, int n) {
    __shared__ float local[128];
    __shared__ bool last;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    local[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (threadIdx.x < step)
            local[threadIdx.x] += local[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = local[0];
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        float sum = 0.0f;
        for (int block = 0; block < gridDim.x; block++)
            sum += ((volatile float*)partial)[block];
        *out = sum;
    }
}

// A function that stays one, with arrays passed by value and local memory.
struct Vec4 { float v[4]; };
__device__ __noinline__ Vec4 rotate(Vec4 v, int by) {
    Vec4 r;
    for (int i = 0; i < 4; i++)
        r.v[i] = v.v[(i + by) & 3];
    return r;
}
extern "C" __global__ void calls(const float* x, float* y, int by) {
    int i = threadIdx.x;
    Vec4 v = {{x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]}};
    Vec4 r = rotate(v, by + i);
    for (int j = 0; j < 4; j++)
        y[4 * i + j] = r.v[j];
}

// A switch with enough cases for a table.
extern "C" __global__ void table(const int* x, int* y) {
    int i = threadIdx.x;
    int v = x[i], r;
    switch (v) {
        case 0: r = y[i] + 11; break;
        case 1: r = y[i] * 3; break;
        case 2: r = y[i] ^ 0x55; break;
        case 3: r = y[i] - 9; break;
        case 4: r = y[i] << 2; break;
        case 5: r = y[i] / 7; break;
        case 6: r = ~y[i]; break;
        case 7: r = y[i] | 1024; break;
        default: r = -1;
    }
    y[i] = r;
}
