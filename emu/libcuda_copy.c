#include "emu/libcuda.h"

#include "emu/work.h"

/* Every form becomes a struct copy or a struct fill (work.h) and goes through
 * stream_submit().  Forms without a stream belong to the default stream. */

#define NO_STREAM NULL

/* ---- one dimension */

static CUresult copy_line(uint64_t to, enum place_kind to_kind, uint64_t from,
                          enum place_kind from_kind, size_t bytes, CUstream stream)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    struct work w = {
        .kind = WORK_COPY,
        .u.copy = {.from = {.address = from, .kind = from_kind},
                   .to = {.address = to, .kind = to_kind},
                   .width_bytes = bytes,
                   .rows = 1,
                   .slices = 1},
    };
    return leave(r == CUDA_SUCCESS ? stream_submit(c, stream, &w) : r);
}

EXPORTED CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                CUstream stream)
{
    return copy_line(to, PLACE_UNIFIED, from, PLACE_UNIFIED, bytes, stream);
}

EXPORTED CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return cuMemcpyAsync(to, from, bytes, NO_STREAM);
}

EXPORTED CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                       CUstream stream)
{
    return copy_line(to, PLACE_DEVICE, (uint64_t)(uintptr_t)from, PLACE_HOST, bytes,
                     stream);
}

EXPORTED CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    return cuMemcpyHtoDAsync_v2(to, from, bytes, NO_STREAM);
}

EXPORTED CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
                                       CUstream stream)
{
    return copy_line((uint64_t)(uintptr_t)to, PLACE_HOST, from, PLACE_DEVICE, bytes,
                     stream);
}

EXPORTED CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    return cuMemcpyDtoHAsync_v2(to, from, bytes, NO_STREAM);
}

EXPORTED CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                       CUstream stream)
{
    return copy_line(to, PLACE_DEVICE, from, PLACE_DEVICE, bytes, stream);
}

EXPORTED CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return cuMemcpyDtoDAsync_v2(to, from, bytes, NO_STREAM);
}

/* All contexts share the one device's memory. */
EXPORTED CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context,
                                    CUdeviceptr from, CUcontext from_context,
                                    size_t bytes, CUstream stream)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS && (handle_kind(to_context) != HANDLE_CONTEXT ||
                              handle_kind(from_context) != HANDLE_CONTEXT))
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (leave(r) != CUDA_SUCCESS)
        return r;
    return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

EXPORTED CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                               CUcontext from_context, size_t bytes)
{
    return cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, NO_STREAM);
}

/* ---- two and three dimensions */

struct side {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    size_t x_bytes, y, z, pitch, height;
};

/* A pitch or height of 0 says that rows or slices lie dense. */
static CUresult side_place(struct place *p, const struct side *s, size_t width_bytes,
                           size_t rows)
{
    size_t pitch = s->pitch ? s->pitch : s->x_bytes + width_bytes;
    size_t height = s->height ? s->height : s->y + rows;

    switch (s->type) {
    case CU_MEMORYTYPE_HOST:
        *p =
            (struct place){.address = (uint64_t)(uintptr_t)s->host, .kind = PLACE_HOST};
        break;
    case CU_MEMORYTYPE_DEVICE:
        *p = (struct place){.address = s->device, .kind = PLACE_DEVICE};
        break;
    case CU_MEMORYTYPE_UNIFIED:
        *p = (struct place){.address = s->device, .kind = PLACE_UNIFIED};
        break;
    case CU_MEMORYTYPE_ARRAY:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!p->address || pitch < s->x_bytes + width_bytes || height < s->y + rows)
        return CUDA_ERROR_INVALID_VALUE;
    p->address += (s->z * height + s->y) * pitch + s->x_bytes;
    p->pitch_bytes = pitch;
    p->slice_rows = height;
    return CUDA_SUCCESS;
}

CUresult copy_from_3d(struct copy *out, const CUDA_MEMCPY3D *d)
{
    if (!d)
        return CUDA_ERROR_INVALID_VALUE;
    struct side from = {d->srcMemoryType, d->srcHost, d->srcDevice, d->srcXInBytes,
                        d->srcY,          d->srcZ,    d->srcPitch,  d->srcHeight};
    struct side to = {d->dstMemoryType, d->dstHost, d->dstDevice, d->dstXInBytes,
                      d->dstY,          d->dstZ,    d->dstPitch,  d->dstHeight};
    *out = (struct copy){
        .width_bytes = d->WidthInBytes, .rows = d->Height, .slices = d->Depth};
    CUresult r = side_place(&out->from, &from, d->WidthInBytes, d->Height);
    return r == CUDA_SUCCESS ? side_place(&out->to, &to, d->WidthInBytes, d->Height)
                             : r;
}

EXPORTED CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *d, CUstream stream)
{
    struct CUctx_st *c;
    struct work w = {.kind = WORK_COPY};
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS)
        r = copy_from_3d(&w.u.copy, d);
    return leave(r == CUDA_SUCCESS ? stream_submit(c, stream, &w) : r);
}

EXPORTED CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *d)
{
    return cuMemcpy3DAsync_v2(d, NO_STREAM);
}

EXPORTED CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *d, CUstream stream)
{
    if (!d)
        return cuMemcpy3DAsync_v2(NULL, stream);
    CUDA_MEMCPY3D deep = {
        .srcXInBytes = d->srcXInBytes,
        .srcY = d->srcY,
        .srcMemoryType = d->srcMemoryType,
        .srcHost = d->srcHost,
        .srcDevice = d->srcDevice,
        .srcPitch = d->srcPitch,
        .dstXInBytes = d->dstXInBytes,
        .dstY = d->dstY,
        .dstMemoryType = d->dstMemoryType,
        .dstHost = d->dstHost,
        .dstDevice = d->dstDevice,
        .dstPitch = d->dstPitch,
        .WidthInBytes = d->WidthInBytes,
        .Height = d->Height,
        .Depth = 1,
    };
    return cuMemcpy3DAsync_v2(&deep, stream);
}

EXPORTED CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *d)
{
    return cuMemcpy2DAsync_v2(d, NO_STREAM);
}

EXPORTED CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *d)
{
    return cuMemcpy2DAsync_v2(d, NO_STREAM);
}

/* ---- fills */

static CUresult fill(CUdeviceptr to, size_t pitch, int element_bytes, unsigned value,
                     size_t width, size_t rows, CUstream stream)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    struct work w = {
        .kind = WORK_FILL,
        .u.fill = {.address = to,
                   .pitch_bytes = pitch,
                   .value = value,
                   .element_bytes = element_bytes,
                   .width_elems = width,
                   .rows = rows},
    };
    return leave(r == CUDA_SUCCESS ? stream_submit(c, stream, &w) : r);
}

EXPORTED CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s)
{
    return fill(to, 0, 1, v, n, 1, s);
}

EXPORTED CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short v, size_t n,
                                   CUstream s)
{
    return fill(to, 0, 2, v, n, 1, s);
}

EXPORTED CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int v, size_t n, CUstream s)
{
    return fill(to, 0, 4, v, n, 1, s);
}

EXPORTED CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char v,
                                    size_t width, size_t height, CUstream s)
{
    return fill(to, pitch, 1, v, width, height, s);
}

EXPORTED CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short v,
                                     size_t width, size_t height, CUstream s)
{
    return fill(to, pitch, 2, v, width, height, s);
}

EXPORTED CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int v,
                                     size_t width, size_t height, CUstream s)
{
    return fill(to, pitch, 4, v, width, height, s);
}

EXPORTED CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char v, size_t n)
{
    return cuMemsetD8Async(to, v, n, NO_STREAM);
}

EXPORTED CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short v, size_t n)
{
    return cuMemsetD16Async(to, v, n, NO_STREAM);
}

EXPORTED CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int v, size_t n)
{
    return cuMemsetD32Async(to, v, n, NO_STREAM);
}

EXPORTED CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char v,
                                  size_t width, size_t height)
{
    return cuMemsetD2D8Async(to, pitch, v, width, height, NO_STREAM);
}

EXPORTED CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short v,
                                   size_t width, size_t height)
{
    return cuMemsetD2D16Async(to, pitch, v, width, height, NO_STREAM);
}

EXPORTED CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int v,
                                   size_t width, size_t height)
{
    return cuMemsetD2D32Async(to, pitch, v, width, height, NO_STREAM);
}
