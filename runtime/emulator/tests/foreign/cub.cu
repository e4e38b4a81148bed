// cub's block-wide operations, 128 threads each.
#include <cub/cub.cuh>

using Reduce = cub::BlockReduce<int, 128>;
using RakingScan = cub::BlockScan<int, 128>;
using WarpScan = cub::BlockScan<int, 128, cub::BLOCK_SCAN_WARP_SCANS>;
using RadixSort = cub::BlockRadixSort<unsigned, 128, 4>;
using MergeSort = cub::BlockMergeSort<int, 128, 2>;
using SortHistogram = cub::BlockHistogram<unsigned char, 128, 4, 64>;
using AtomicHistogram = cub::BlockHistogram<unsigned char, 128, 4, 64, cub::BLOCK_HISTO_ATOMIC>;
using Load = cub::BlockLoad<int, 128, 4, cub::BLOCK_LOAD_TRANSPOSE>;
using Store = cub::BlockStore<int, 128, 4, cub::BLOCK_STORE_TRANSPOSE>;

struct Less {
  __device__ bool operator()(int a, int b) const { return a < b; }
};

extern "C" __global__ void reduce(const int *x, int *y) {
  __shared__ Reduce::TempStorage temp;
  int sum = Reduce(temp).Sum(x[threadIdx.x + blockIdx.x * 128]);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

extern "C" __global__ void scan_raking(const int *x, int *y) {
  __shared__ RakingScan::TempStorage temp;
  int sum;
  RakingScan(temp).ExclusiveSum(x[threadIdx.x], sum);
  y[threadIdx.x] = sum;
}

extern "C" __global__ void scan_warps(const int *x, int *y) {
  __shared__ WarpScan::TempStorage temp;
  int sum;
  WarpScan(temp).InclusiveSum(x[threadIdx.x], sum);
  y[threadIdx.x] = sum;
}

extern "C" __global__ void sort_radix(const unsigned *x, unsigned *y) {
  __shared__ RadixSort::TempStorage temp;
  unsigned keys[4];
  for (int i = 0; i < 4; ++i) keys[i] = x[threadIdx.x * 4 + i];
  RadixSort(temp).Sort(keys);
  for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = keys[i];
}

extern "C" __global__ void sort_merge(const int *x, int *y) {
  __shared__ MergeSort::TempStorage temp;
  int keys[2];
  for (int i = 0; i < 2; ++i) keys[i] = x[threadIdx.x * 2 + i];
  MergeSort(temp).Sort(keys, Less());
  for (int i = 0; i < 2; ++i) y[threadIdx.x * 2 + i] = keys[i];
}

template <typename Histogram>
__device__ void histogram(const int *x, unsigned *y) {
  __shared__ typename Histogram::TempStorage temp;
  __shared__ unsigned bins[64];
  unsigned char items[4];
  for (int i = 0; i < 4; ++i) items[i] = x[threadIdx.x * 4 + i] & 63;
  Histogram(temp).Histogram(items, bins);
  __syncthreads();
  if (threadIdx.x < 64) y[threadIdx.x] = bins[threadIdx.x];
}

extern "C" __global__ void histogram_sort(const int *x, unsigned *y) { histogram<SortHistogram>(x, y); }
extern "C" __global__ void histogram_atomic(const int *x, unsigned *y) { histogram<AtomicHistogram>(x, y); }

extern "C" __global__ void transpose(const int *x, int *y) {
  __shared__ union {
    Load::TempStorage load;
    Store::TempStorage store;
  } temp;
  int items[4];
  Load(temp.load).Load(x, items);
  __syncthreads();
  Store(temp.store).Store(y, items);
}
