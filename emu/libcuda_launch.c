#include "emu/libcuda.h"

#include "emu/launch.h"
#include "emu/work.h"

static CUresult submit_launch(const CUlaunchConfig *config, CUfunction f, void **params,
                              void **extra)
{
    struct CUctx_st *c;
    struct work w = {.kind = WORK_KERNEL};
    CUresult r = enter_context(&c);
    if (r != CUDA_SUCCESS)
        return leave(r);
    if (!config)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (handle_kind(f) != HANDLE_FUNCTION)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    r = launch_prepare(&w.u.launch, config, f, params, extra);
    return leave(r == CUDA_SUCCESS ? stream_submit(c, config->hStream, &w) : r);
}

EXPORTED CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f,
                                   void **params, void **extra)
{
    return submit_launch(config, f, params, extra);
}

EXPORTED CUresult cuLaunchKernel(CUfunction f, unsigned int grid_x, unsigned int grid_y,
                                 unsigned int grid_z, unsigned int block_x,
                                 unsigned int block_y, unsigned int block_z,
                                 unsigned int smem_bytes, CUstream stream,
                                 void **params, void **extra)
{
    const CUlaunchConfig config = {.gridDimX = grid_x,
                                   .gridDimY = grid_y,
                                   .gridDimZ = grid_z,
                                   .blockDimX = block_x,
                                   .blockDimY = block_y,
                                   .blockDimZ = block_z,
                                   .sharedMemBytes = smem_bytes,
                                   .hStream = stream};
    return submit_launch(&config, f, params, extra);
}

EXPORTED CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int grid_x,
                                            unsigned int grid_y, unsigned int grid_z,
                                            unsigned int block_x, unsigned int block_y,
                                            unsigned int block_z,
                                            unsigned int smem_bytes, CUstream stream,
                                            void **params)
{
    CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                     .value.cooperative = 1};
    const CUlaunchConfig config = {.gridDimX = grid_x,
                                   .gridDimY = grid_y,
                                   .gridDimZ = grid_z,
                                   .blockDimX = block_x,
                                   .blockDimY = block_y,
                                   .blockDimZ = block_z,
                                   .sharedMemBytes = smem_bytes,
                                   .hStream = stream,
                                   .attrs = &cooperative,
                                   .numAttrs = 1};
    return submit_launch(&config, f, params, NULL);
}

EXPORTED CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    struct CUctx_st *c;
    struct work w = {.kind = WORK_CALL, .u.call = {function, data}};
    CUresult r = enter_context(&c);
    return leave(r == CUDA_SUCCESS ? stream_submit(c, stream, &w) : r);
}

/* ---- occupancy: how much would fit, by the rules of launch.h */

static CUresult check_occupancy(const void *out, CUfunction f, int threads)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && (!out || threads <= 0))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && handle_kind(f) != HANDLE_FUNCTION)
        r = CUDA_ERROR_INVALID_HANDLE;
    return r;
}

EXPORTED CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, CUfunction f, int threads, size_t smem_bytes, unsigned int flags)
{
    CUresult r = check_occupancy(blocks, f, threads);
    if (r == CUDA_SUCCESS && flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *blocks = threads > function_max_threads(f)
                      ? 0
                      : launch_blocks_per_sm(f, threads, smem_bytes);
    return leave(r);
}

EXPORTED CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f,
                                                              int threads,
                                                              size_t smem_bytes)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, threads,
                                                                smem_bytes, 0);
}

/* The block size that keeps most threads on an SM; the larger one of equals. */
EXPORTED CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(
    int *min_grid, int *block, CUfunction f, CUoccupancyB2DSize smem_of,
    size_t smem_bytes, int limit, unsigned int flags)
{
    CUresult r = check_occupancy(block, f, 1);
    if (r == CUDA_SUCCESS &&
        (!min_grid || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    int most = function_max_threads(f), best = 0, best_blocks = 0;
    if (limit > 0 && limit < most)
        most = limit;
    for (int threads = most; threads > 0;
         threads = threads % WARP_LANES ? threads / WARP_LANES * WARP_LANES
                                        : threads - WARP_LANES) {
        size_t smem = smem_bytes;
        if (smem_of) {
            unlock_for_callback();
            smem = smem_of(threads);
            lock_after_callback();
        }
        int blocks = launch_blocks_per_sm(f, threads, smem);
        if (blocks * threads > best * best_blocks) {
            best = threads;
            best_blocks = blocks;
        }
    }
    *block = best;
    *min_grid = best_blocks * shown_device()->sm_count;
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block,
                                                   CUfunction f,
                                                   CUoccupancyB2DSize smem_of,
                                                   size_t smem_bytes, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block, f, smem_of,
                                                     smem_bytes, limit, 0);
}

EXPORTED CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction f,
                                                          int blocks, int threads)
{
    CUresult r = check_occupancy(bytes, f, threads);
    if (r == CUDA_SUCCESS && blocks <= 0)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    const struct device *d = shown_device();
    size_t most = device_target(d)->smem_bytes;
    size_t share = (size_t)(d->smem_per_sm_bytes / blocks) / 128 * 128;
    size_t taken = f->kernel->static_smem_bytes + 1024;
    size_t left = share > taken ? share - taken : 0;
    if (most < f->kernel->static_smem_bytes)
        most = 0;
    else
        most -= f->kernel->static_smem_bytes;
    *bytes = left < most ? left : most;
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction f,
                                                     const CUlaunchConfig *config)
{
    CUresult r = check_occupancy(size, f, 1);
    if (r == CUDA_SUCCESS && !config)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *size = f->nonportable_cluster ? shown_device()->max_cluster : 8;
    return leave(r);
}

EXPORTED CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction f,
                                               const CUlaunchConfig *config)
{
    struct launch l;
    CUresult r = check_occupancy(clusters, f, 1);
    if (r == CUDA_SUCCESS && !config)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = launch_check(&l, config, f);
    if (r == CUDA_SUCCESS) {
        int threads = (int)(l.block[0] * l.block[1] * l.block[2]);
        int ctas = (int)(l.cluster[0] * l.cluster[1] * l.cluster[2]);
        *clusters = launch_blocks_per_sm(f, threads, l.dyn_smem_bytes) *
                    shown_device()->sm_count / ctas;
    }
    return leave(r);
}
