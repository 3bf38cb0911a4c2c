#include "runtime/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/manifest.h"
#include "runtime/tensor_map.h"

#define MAX_SIZE                                                                       \
    0x7fffff00u /* TMA coordinates are signed, and tiles reach past the end */
#define MAX_STRIDE ((uint64_t)1 << 40)

static fp4gen_status load_kernel(fp4gen_kernel *k, fp4gen_device *dev, const char *text,
                                 size_t bytes, fp4gen_error *err)
{
    fp4gen_status status = manifest_read(&k->image, text, bytes, err);
    k->image.ptx = NULL; /* the text goes */
    if (!status)
        status = fp4gen_module_load(&k->module, dev, text, bytes, err);
    if (!status)
        status = module_function(k->module, k->image.kernel, k->image.smem_bytes,
                                 &k->function, err);
    if (!status && k->image.rounding[0]) {
        char name[sizeof k->image.kernel + 8];
        snprintf(name, sizeof name, "%s_amax", k->image.kernel);
        status = module_function(k->module, name, 0, &k->amax, err);
    }
    int count = device_query(dev, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    k->sm_count = count > 0 ? (uint32_t)count : 1;
    return status;
}

fp4gen_status fp4gen_load(fp4gen_kernel **out, fp4gen_device *dev, const char *ptx,
                          size_t ptx_bytes, fp4gen_error *err)
{
    if (!out || !dev || !ptx)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT), "fp4gen_load");
    *out = NULL;
    fp4gen_kernel *k = calloc(1, sizeof *k);
    char *text = copy_text(ptx, ptx_bytes);
    if (!k || !text) {
        free(k);
        free(text);
        return fail(err, FP4GEN_OUT_OF_MEMORY, ERROR(HOST_MEMORY), "fp4gen_load");
    }
    fp4gen_status status = load_kernel(k, dev, text, ptx_bytes, err);
    free(text);
    if (status) {
        fp4gen_unload(k);
        return status;
    }
    *out = k;
    return FP4GEN_OK;
}

void fp4gen_unload(fp4gen_kernel *k)
{
    if (!k)
        return;
    fp4gen_module_unload(k->module);
    free(k);
}

fp4gen_status kernel_is_for(const fp4gen_kernel *k, bool gemm, const char *function,
                            fp4gen_error *err)
{
    const char *op = k->image.op[0] ? k->image.op : "gemm";
    if ((strcmp(op, "gemm") == 0) == gemm)
        return FP4GEN_OK;
    return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(KERNEL_OP), k->image.kernel, op,
                function);
}

static bool d_is_f32(const fp4gen_kernel *k)
{
    return strcmp(k->image.d_type, "f32") == 0;
}

void fp4gen_kernel_get_info(const fp4gen_kernel *k, fp4gen_kernel_info *out)
{
    memset(out, 0, sizeof *out);
    memcpy(out->name, k->image.kernel, sizeof out->name);
    memcpy(out->target, k->image.target, sizeof out->target);
    out->tile_m = k->image.tile[0];
    out->tile_n = k->image.tile[1];
    out->tile_k = k->image.tile[2];
    out->stages = k->image.stages;
    out->smem_bytes = k->image.smem_bytes;
    out->threads = k->image.threads;
    out->d_is_f32 = d_is_f32(k);
}

static uint64_t ceil_div_u64(uint64_t x, uint64_t by)
{
    return x / by + (x % by != 0);
}

/* Fills in a stride that was left 0, and refuses one that no tensor map takes. */
static fp4gen_status check_stride(const char *name, uint64_t row_bytes,
                                  uint64_t *stride, fp4gen_error *err)
{
    const fp4gen_status bad = FP4GEN_BAD_ARGUMENT;
    uint64_t padded = ceil_div_u64(row_bytes, 16) * 16;
    if (*stride == 0 && row_bytes % 16 != 0)
        return fail(err, bad, ERROR(GEMM_DENSE), name, U64(row_bytes), name,
                    U64(padded));
    if (*stride == 0)
        *stride = row_bytes;
    if (*stride % 16 != 0)
        return fail(err, bad, ERROR(GEMM_STRIDE), name, U64(*stride),
                    U64(ceil_div_u64(*stride, 16) * 16));
    if (*stride < row_bytes)
        return fail(err, bad, ERROR(GEMM_STRIDE_SHORT), name, U64(*stride),
                    U64(row_bytes));
    if (*stride >= MAX_STRIDE)
        return fail(err, bad, ERROR(GEMM_STRIDE_LONG), name, U64(*stride));
    return FP4GEN_OK;
}

static fp4gen_status check_address(const char *name, uint64_t address, uint64_t unit,
                                   fp4gen_error *err)
{
    if (address == 0)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ADDRESS), name);
    if (address % unit != 0)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(GEMM_ADDRESS), name, U64(address),
                    U64(unit));
    return FP4GEN_OK;
}

fp4gen_status fp4gen_check(const fp4gen_kernel *k, fp4gen_gemm *g, fp4gen_error *err)
{
    if (!k || !g)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT), "fp4gen_check");
    fp4gen_status s = kernel_is_for(k, true, "fp4gen_run", err);
    if (s)
        return s;
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {{"m", g->m}, {"n", g->n}, {"k", g->k}};
    for (int i = 0; i < 3; i++)
        if (sizes[i].value > MAX_SIZE)
            return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(GEMM_SIZE), sizes[i].name,
                        sizes[i].value, MAX_SIZE);
    if (g->k % 2 != 0)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(GEMM_ODD_K), g->k, g->k + 1);
    s = check_stride("d", (uint64_t)g->n * (d_is_f32(k) ? 4 : 2), &g->ldd, err);
    if (!s)
        s = check_stride("a", g->k / 2, &g->lda, err);
    if (!s)
        s = check_stride("b", g->k / 2, &g->ldb, err);
    return s;
}

/* D alone is needed when k is 0. */
static fp4gen_status check_addresses(const fp4gen_gemm *g, fp4gen_error *err)
{
    fp4gen_status s = check_address("d", g->d, 16, err);
    if (s || g->k == 0)
        return s;
    s = check_address("a", g->a, 16, err);
    if (!s)
        s = check_address("b", g->b, 16, err);
    if (!s)
        s = check_address("sfa", g->sfa, 16, err);
    if (!s)
        s = check_address("sfb", g->sfb, 16, err);
    if (!s && g->alpha_ptr)
        s = check_address("alpha_ptr", g->alpha_ptr, 4, err);
    return s;
}

static fp4gen_status zero_d(const fp4gen_kernel *k, const fp4gen_gemm *g,
                            fp4gen_error *err)
{
    const fp4gen_device *dev = k->module->dev;
    fp4gen_status status = device_enter(dev, err);
    if (status)
        return status;
    CUresult r = dev->driver.cuMemsetD2D8Async(g->d, g->ldd, 0,
                                               (size_t)g->n * (d_is_f32(k) ? 4 : 2),
                                               g->m, (CUstream)g->stream);
    device_leave(dev);
    if (r)
        return fail_cuda(&dev->driver, err, FP4GEN_LAUNCH_FAILED, r, "zeroing d", NULL);
    return FP4GEN_OK;
}

static uint64_t size_value(struct image_size s, const fp4gen_gemm *g)
{
    const uint64_t value[] = {
        [SYM_ONE] = 1,
        [SYM_M] = g->m,
        [SYM_N] = g->n,
        [SYM_K] = g->k,
        [SYM_K2] = g->k / 2,
        [SYM_N8] = g->n < 8 ? 8 : g->n / 8 * 8,
        [SYM_N4] = g->n < 4 ? 4 : g->n / 4 * 4,
        [SYM_K64] = ceil_div_u64(g->k, 64),
        [SYM_M128] = ceil_div_u64(g->m, 128),
        [SYM_N128] = ceil_div_u64(g->n, 128),
        [SYM_LDA] = g->lda,
        [SYM_LDB] = g->ldb,
        [SYM_LDD] = g->ldd,
    };
    uint64_t v = value[s.symbol];
    /* Saturates; tensor_map_check() knows what is too much. */
    return v && s.factor > UINT64_MAX / v ? UINT64_MAX : s.factor * v;
}

static uint64_t tensor_address(const char *name, const fp4gen_gemm *g)
{
    const struct {
        const char *name;
        uint64_t address;
    } tensors[] = {
        {"a", g->a}, {"b", g->b}, {"sfa", g->sfa}, {"sfb", g->sfb}, {"d", g->d}};
    for (size_t i = 0; i < COUNT_OF(tensors); i++)
        if (strcmp(tensors[i].name, name) == 0)
            return tensors[i].address;
    return 0;
}

static fp4gen_status encode(const fp4gen_kernel *k, const char *name,
                            const fp4gen_gemm *g, fp4gen_tensor_map *out,
                            fp4gen_error *err)
{
    const struct image_tensor *t = k->image.tensors;
    while (strcmp(t->name, name) != 0) /* the manifest was checked: it is there */
        t++;
    fp4gen_tensor_desc desc = {.name = name,
                               .type = t->type,
                               .rank = t->rank,
                               .address = tensor_address(name, g),
                               .swizzle = t->swizzle,
                               .l2_promotion = t->l2_promotion};
    for (int i = 0; i < t->rank; i++) {
        desc.dims[i] = size_value(t->dims[i], g);
        desc.box[i] = t->box[i];
    }
    for (int i = 0; i + 1 < t->rank; i++)
        desc.strides[i] = size_value(t->strides[i], g);
    return fp4gen_encode(k->module->dev, out, &desc, err);
}

union param {
    uint32_t u32;
    float f32;
    uint64_t u64;
};

static fp4gen_status launch_gemm(const fp4gen_kernel *k, const fp4gen_gemm *g,
                                 fp4gen_error *err)
{
    const struct image *image = &k->image;
    fp4gen_tensor_map maps[IMAGE_MAX_TENSORS];
    union param values[IMAGE_MAX_PARAMS];
    void *params[IMAGE_MAX_PARAMS];
    int map_count = 0;
    for (int i = 0; i < image->param_count; i++) {
        const struct image_param *p = &image->params[i];
        params[i] = &values[i];
        switch (p->kind) {
        case PARAM_TENSOR_MAP: {
            fp4gen_status s = encode(k, p->name, g, &maps[map_count], err);
            if (s)
                return s;
            params[i] = &maps[map_count++];
            break;
        }
        case PARAM_U32:
            values[i].u32 = p->name[0] == 'm' ? g->m : p->name[0] == 'n' ? g->n : g->k;
            break;
        case PARAM_F32:
            values[i].f32 = g->alpha;
            break;
        case PARAM_U64:
            values[i].u64 = g->ldd;
            break;
        case PARAM_PTR:
            values[i].u64 = p->name[0] == 'd' ? g->d : g->alpha_ptr;
            break;
        }
    }
    const uint32_t cluster = image->cluster[0] * image->cluster[1] * image->cluster[2];
    uint64_t tiles =
        ceil_div_u64(g->m, image->tile[0]) * ceil_div_u64(g->n, image->tile[1]);
    uint64_t ctas = g->ctas ? g->ctas : k->sm_count;
    if (ctas > tiles)
        ctas = tiles;
    ctas = ceil_div_u64(ctas, cluster) * cluster;
    fp4gen_launch launch = {.entry = image->kernel,
                            .grid = {(uint32_t)ctas, 1, 1},
                            .block = {image->threads, 1, 1},
                            .smem_bytes = image->smem_bytes,
                            .params = params,
                            .stream = g->stream};
    if (cluster > 1)
        memcpy(launch.cluster, image->cluster, sizeof launch.cluster);
    return module_launch(k->module, k->function, &launch, err);
}

fp4gen_status fp4gen_run(fp4gen_kernel *k, const fp4gen_gemm *g, fp4gen_error *err)
{
    if (!k || !g)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT), "fp4gen_run");
    if (g->m == 0 || g->n == 0)
        return FP4GEN_OK;
    fp4gen_gemm full = *g;
    fp4gen_status status = fp4gen_check(k, &full, err);
    if (!status)
        status = check_addresses(&full, err);
    if (status)
        return status;
    return full.k == 0 ? zero_d(k, &full, err) : launch_gemm(k, &full, err);
}

fp4gen_status kernel_timed(fp4gen_kernel *k, kernel_work *work, const void *args,
                           void *on_stream, float *milliseconds, fp4gen_error *err)
{
    const fp4gen_device *dev = k->module->dev;
    const struct driver *d = &dev->driver;
    const CUstream stream = (CUstream)on_stream;
    CUevent begin = NULL, end = NULL;
    *milliseconds = 0;
    fp4gen_status status = device_enter(dev, err);
    if (status)
        return status;
    CUresult r = d->cuEventCreate(&begin, CU_EVENT_DEFAULT);
    if (!r)
        r = d->cuEventCreate(&end, CU_EVENT_DEFAULT);
    if (!r)
        r = d->cuEventRecord(begin, stream);
    if (!r)
        status = work(k, args, err);
    if (!r && !status)
        r = d->cuEventRecord(end, stream);
    if (!r && !status)
        r = d->cuEventSynchronize(end);
    if (!r && !status)
        r = d->cuEventElapsedTime(milliseconds, begin, end);
    if (begin)
        d->cuEventDestroy_v2(begin);
    if (end)
        d->cuEventDestroy_v2(end);
    device_leave(dev);
    if (r)
        return fail_cuda(d, err, FP4GEN_LAUNCH_FAILED, r, "running", k->image.kernel);
    return status;
}

static fp4gen_status run_gemm(fp4gen_kernel *k, const void *gemm, fp4gen_error *err)
{
    return fp4gen_run(k, gemm, err);
}

fp4gen_status fp4gen_run_timed(fp4gen_kernel *k, const fp4gen_gemm *g,
                               float *milliseconds, fp4gen_error *err)
{
    if (!k || !g || !milliseconds)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT), "fp4gen_run_timed");
    return kernel_timed(k, run_gemm, g, g->stream, milliseconds, err);
}
