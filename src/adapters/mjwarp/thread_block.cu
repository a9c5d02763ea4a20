// What a thread block does together, on a GPU or, alone, on the CPU: the first part of a Warp function's body, which has
// the argument `tid`.

using wp::max;
using wp::min;

#ifdef __CUDA_ARCH__
#define BLOCK_SHARED __shared__
#define BLOCK_UNROLL _Pragma("unroll")
#define BLOCK_ROLLED _Pragma("unroll 1")
#define BLOCK_SYNC() __syncthreads()
#define BLOCK_SYNC_WARP() __syncwarp()
#define BLOCK_ANY(flag) __syncthreads_or(flag)
#define BLOCK_VOTE(flag) __ballot_sync(0xffffffffu, flag)
#define BLOCK_FIRST(bits) (__ffs(bits) - 1)
#define BLOCK_INVERSE(x) __fdividef(1.0f, x)
#else
#define BLOCK_SHARED
#define BLOCK_UNROLL
#define BLOCK_ROLLED
#define BLOCK_SYNC()
#define BLOCK_SYNC_WARP()
#define BLOCK_ANY(flag) (flag)
#define BLOCK_VOTE(flag) (unsigned)(flag)
#define BLOCK_FIRST(bits) 0
#define BLOCK_INVERSE(x) (1.0f / (x))
#endif

constexpr int T = WP_TILE_BLOCK_DIM;
constexpr int WARPS = (T + 31) / 32;
BLOCK_SHARED float partial[2][WARPS][2];
int flip = 0;

// Sums of one or two values over the thread block, for every thread; a barrier.
auto sum = [&](auto&... value) {
#ifdef __CUDA_ARCH__
    for (int offset = 16; offset > 0; offset /= 2) ((value += __shfl_xor_sync(0xffffffffu, value, offset)), ...);
    int k = 0;
    if (tid % 32 == 0) ((partial[flip][tid / 32][k++] = value), ...);
    BLOCK_SYNC();
    ((value = 0.0f), ...);
    for (int warp = 0; warp < WARPS; ++warp) {
        k = 0;
        ((value += partial[flip][warp][k++]), ...);
    }
    flip ^= 1;
#endif
};
