#include "runtime/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/manifest.h"
#include "runtime/problem.h"
#include "runtime/tensor_map.h"

enum { ZEROS_BYTES = 512 /* a block of scales */ };

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
    if (!status && !k->image.op[0])
        status = fp4gen_alloc(dev, &k->zeros, ZEROS_BYTES, err);
    if (!status && k->zeros)
        status = fp4gen_fill(dev, k->zeros, 0, ZEROS_BYTES, err);
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
    if (k->zeros)
        fp4gen_free(k->module->dev, k->zeros, NULL);
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

void fp4gen_kernel_get_info(const fp4gen_kernel *k, fp4gen_kernel_info *out)
{
    if (out)
        memset(out, 0, sizeof *out);
    if (!k || !out)
        return;
    memcpy(out->name, k->image.kernel, sizeof out->name);
    memcpy(out->target, k->image.target, sizeof out->target);
    out->tile_m = k->image.tile[0];
    out->tile_n = k->image.tile[1];
    out->tile_k = k->image.tile[2];
    out->stages = k->image.stages;
    out->smem_bytes = k->image.smem_bytes;
    out->threads = k->image.threads;
    out->d_is_f32 = strcmp(k->image.outputs[0].format, "f32") == 0;
    memcpy(out->epilogue, k->image.epilogue, sizeof out->epilogue);
    out->n_multiple = k->image.n_multiple;
    out->output_count = (uint32_t)k->image.output_count;
    out->arg_count = (uint32_t)k->image.arg_count;
    for (int i = 0; i < k->image.output_count; i++) {
        const struct image_output *o = &k->image.outputs[i];
        memcpy(out->outputs[i].name, o->name, sizeof o->name);
        memcpy(out->outputs[i].format, o->format, sizeof o->format);
        out->outputs[i].bits = o->bits;
        out->outputs[i].cols_shift = o->cols_shift;
        out->outputs[i].scale_block = o->scale_block;
    }
    static const char *const kinds[] = {[ARG_SCALAR] = "scalar",
                                        [ARG_COL] = "col",
                                        [ARG_ROW] = "row",
                                        [ARG_AUX] = "aux"};
    for (int i = 0; i < k->image.arg_count; i++) {
        const struct image_arg *arg = &k->image.args[i];
        memcpy(out->args[i].name, arg->name, sizeof arg->name);
        memcpy(out->args[i].kind, kinds[arg->kind], strlen(kinds[arg->kind]) + 1);
        memcpy(out->args[i].type, arg->type, sizeof arg->type);
        out->args[i].cols_shift = arg->cols_shift;
        out->args[i].has_default = arg->has_default;
    }
}

fp4gen_status fp4gen_check(const fp4gen_kernel *k, fp4gen_gemm *g, fp4gen_error *err)
{
    struct problem p;
    if (!k || !g)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT), "fp4gen_check");
    fp4gen_status status = kernel_is_for(k, true, "fp4gen_run", err);
    if (!status)
        status = problem_make(&p, &k->image, g, false, err);
    if (!status)
        *g = p.g;
    return status;
}

static uint64_t ceil_div_u64(uint64_t x, uint64_t by)
{
    return x / by + (x % by != 0);
}

static uint64_t size_value(struct image_size s, const struct image *i,
                           const struct problem *p)
{
    const fp4gen_gemm *g = &p->g;
    uint64_t v = 1;
    switch (s.symbol) {
    case SYM_M:
        v = g->m;
        break;
    case SYM_N:
        v = g->n;
        break;
    case SYM_K:
        v = g->k;
        break;
    case SYM_K2:
        v = g->k / 2;
        break;
    case SYM_K64:
        v = ceil_div_u64(g->k, 64);
        break;
    case SYM_M128:
        v = ceil_div_u64(g->m, 128);
        break;
    case SYM_N128:
        v = ceil_div_u64(g->n, 128);
        break;
    case SYM_LDA:
        v = g->lda;
        break;
    case SYM_LDB:
        v = g->ldb;
        break;
    default:
        if (s.symbol >= SYM_LD) {
            v = p->outputs[s.symbol - SYM_LD].ld;
        } else if (s.symbol >= SYM_PIECES) {
            v = output_row_bytes(&i->outputs[s.symbol - SYM_PIECES], g->n) / 16;
            v = v ? v : 1;
        }
    }
    /* Saturates; tensor_map_check() knows what is too much. */
    return v && s.factor > UINT64_MAX / v ? UINT64_MAX : s.factor * v;
}

static uint64_t tensor_address(const char *name, const struct problem *p)
{
    const fp4gen_gemm *g = &p->g;
    const struct {
        const char *name;
        uint64_t address;
    } operands[] = {{"a", g->a}, {"b", g->b}, {"sfa", g->sfa}, {"sfb", g->sfb}};
    for (size_t i = 0; i < COUNT_OF(operands); i++)
        if (strcmp(operands[i].name, name) == 0)
            return operands[i].address;
    return p->outputs[name[1] - '0'].address; /* o0; the manifest was checked */
}

static fp4gen_status encode(const fp4gen_kernel *k, const char *name,
                            const struct problem *p, fp4gen_tensor_map *out,
                            fp4gen_error *err)
{
    const struct image_tensor *t = k->image.tensors;
    while (strcmp(t->name, name) != 0) /* the manifest was checked: it is there */
        t++;
    fp4gen_tensor_desc desc = {.name = name,
                               .type = t->type,
                               .rank = t->rank,
                               .address = tensor_address(name, p),
                               .swizzle = t->swizzle,
                               .l2_promotion = t->l2_promotion};
    for (int i = 0; i < t->rank; i++) {
        desc.dims[i] = size_value(t->dims[i], &k->image, p);
        desc.box[i] = t->box[i];
    }
    for (int i = 0; i + 1 < t->rank; i++)
        desc.strides[i] = size_value(t->strides[i], &k->image, p);
    return fp4gen_encode(k->module->dev, out, &desc, err);
}

union param {
    uint32_t u32;
    float f32;
    uint64_t u64;
};

static void set_value(union param *v, const struct image_param *q,
                      const struct problem *p)
{
    const fp4gen_gemm *g = &p->g;
    switch (q->source) {
    case FROM_OUTPUT_PTR:
        v->u64 = p->outputs[q->index].address;
        break;
    case FROM_OUTPUT_LD:
        v->u64 = p->outputs[q->index].ld;
        break;
    case FROM_OUTPUT_SCALES:
        v->u64 = p->outputs[q->index].scales;
        break;
    case FROM_ARG:
        if (q->kind == PARAM_B32)
            v->u32 = p->args[q->index].bits;
        else
            v->u64 = p->args[q->index].address;
        break;
    case FROM_ARG_PTR:
        v->u64 = p->args[q->index].address;
        break;
    case FROM_ARG_LD:
        v->u64 = p->args[q->index].ld;
        break;
    case FROM_PROBLEM:
        if (q->kind == PARAM_U32)
            v->u32 = q->name[0] == 'm' ? g->m : q->name[0] == 'n' ? g->n : g->k;
        else if (q->kind == PARAM_F32)
            v->f32 = g->alpha;
        else
            v->u64 = g->alpha_ptr;
        break;
    }
}

/* The operands of k = 0: one row of 64 zeros.  The rows that are missing arrive as
 * zeros too. */
static void use_zeros(struct problem *operands, struct problem *p, uint64_t zeros,
                      bool has_epilogue)
{
    p->g.k = 64;
    p->g.a = p->g.b = p->g.sfa = p->g.sfb = zeros;
    p->g.lda = p->g.ldb = 32;
    *operands = *p;
    operands->g.m = operands->g.n = 1;
    if (!has_epilogue) { /* 0, even if alpha is not finite */
        p->g.alpha = 0;
        p->g.alpha_ptr = 0;
    }
}

static fp4gen_status launch_gemm(const fp4gen_kernel *k, struct problem *p,
                                 fp4gen_error *err)
{
    const struct image *image = &k->image;
    const fp4gen_gemm *g = &p->g;
    fp4gen_tensor_map maps[IMAGE_MAX_TENSORS];
    union param values[IMAGE_MAX_PARAMS];
    void *params[IMAGE_MAX_PARAMS];
    int map_count = 0;
    struct problem operands = *p;
    if (p->g.k == 0)
        use_zeros(&operands, p, k->zeros, strcmp(image->epilogue, "identity") != 0);
    for (int i = 0; i < image->param_count; i++) {
        const struct image_param *q = &image->params[i];
        params[i] = &values[i];
        if (q->kind == PARAM_TENSOR_MAP) {
            const struct problem *of = q->name[0] == 'o' ? p : &operands;
            fp4gen_status s = encode(k, q->name, of, &maps[map_count], err);
            if (s)
                return s;
            params[i] = &maps[map_count++];
        } else {
            set_value(&values[i], q, p);
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
    fp4gen_status status = kernel_is_for(k, true, "fp4gen_run", err);
    if (status || g->m == 0 || g->n == 0)
        return status;
    struct problem p;
    status = problem_make(&p, &k->image, g, true, err);
    return status ? status : launch_gemm(k, &p, err);
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
