// Kernels for sm_80: asynchronous copies and the tensor cores.
#include <cuda_pipeline_primitives.h>
#include <mma.h>

// y[i] = 2 x[i] over tiles of 256 floats, copied two tiles ahead.
extern "C" __global__ void async_pipeline(const float4* x, float4* y, int tiles) {
    __shared__ float4 stage[3][64];
    int t = threadIdx.x;
    for (int s = 0; s < 2; s++) {
        if (s < tiles)
            __pipeline_memcpy_async(&stage[s][t], &x[s * 64 + t], 16);
        __pipeline_commit();
    }
    for (int tile = 0; tile < tiles; tile++) {
        __pipeline_wait_prior(1);
        __syncthreads();
        if (tile + 2 < tiles)
            __pipeline_memcpy_async(&stage[(tile + 2) % 3][t], &x[(tile + 2) * 64 + t], 16);
        __pipeline_commit();
        // Read what another thread copied.
        float4 v = stage[tile % 3][63 - t];
        y[tile * 64 + t] = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
    }
}

// C = A B of 16 x 16 tiles on the tensor cores, one warp a tile.
extern "C" __global__ void wmma_matmul(const half* a, const half* b, float* c, int n) {
    using namespace nvcuda::wmma;
    int row = blockIdx.y * 16, column = blockIdx.x * 16;
    fragment<matrix_a, 16, 16, 16, half, row_major> fa;
    fragment<matrix_b, 16, 16, 16, half, col_major> fb;
    fragment<accumulator, 16, 16, 16, float> fc;
    fill_fragment(fc, 0.0f);
    for (int k = 0; k < n; k += 16) {
        load_matrix_sync(fa, a + row * n + k, n);
        load_matrix_sync(fb, b + column * n + k, n);
        mma_sync(fc, fa, fb, fc);
    }
    store_matrix_sync(c + row * n + column, fc, n, mem_row_major);
}
