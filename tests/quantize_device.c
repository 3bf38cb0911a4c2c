#include "tests/quantize_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fp4.h"
#include "tests/test.h"

enum { MOST_FIELDS = 16 };

static void fail_with(const struct diags *d)
{
    struct arena *a = arena_new();
    struct buf b;
    buf_init(&b, a);
    diag_format(d->first, NULL, &b);
    test_fail(__FILE__, __LINE__, "%s", b.data);
}

struct quantize_device quantize_open(const char *words)
{
    struct arena *a = arena_new();
    struct config_override fields[MOST_FIELDS];
    struct job_options o = {.overrides = fields, .check = true};
    for (char *w = strtok(arena_strdup(a, words), " "); w; w = strtok(NULL, " ")) {
        char *equals = strchr(w, '=');
        if (!o.path) {
            o.path = w;
            continue;
        }
        CHECK(equals != NULL);
        *equals = '\0';
        fields[o.override_count++] = (struct config_override){w, equals + 1};
    }
    struct quantize_device q = {.job = job_run(&o)};
    if (q.job->diags->count && q.job->diags->first->code == DIAG_EPILOGUE_NO_LLVM)
        SKIP("libfp4gen-llvm.so is not built: no LLVM 22");
    if (q.job->diags->count)
        fail_with(q.job->diags);
    fp4gen_error err = {0};
    unsetenv("FP4GEN_EMU_LIB"); /* it is found in ../lib */
    fp4gen_open(&q.dev, FP4GEN_DRIVER_EMU, -1, q.job->image.target, &err);
    CHECK_STR(err.text, "");
    fp4gen_load(&q.kernel, q.dev, q.job->image.ptx, q.job->image.ptx_bytes, &err);
    CHECK_STR(err.text, "");
    arena_free(a);
    return q;
}

void quantize_close(struct quantize_device *q)
{
    fp4gen_unload(q->kernel);
    fp4gen_close(q->dev);
    job_free(q->job);
}

struct quantize_data quantize_problem(const struct quantize_device *q, size_t m,
                                      size_t k, size_t more_stride, uint64_t seed)
{
    const struct image *i = &q->job->image;
    const size_t width = strcmp(i->x_form, "plain") == 0 ? 1 : 2;
    const size_t elem_bytes = strcmp(i->x_type, "f32") == 0 ? 4 : 2;
    struct quantize_data d = {.image = i, .m = m, .k = k, .global = 1};
    d.ldx = (k * width * elem_bytes + 15) / 16 * 16 + 16 * more_stride;
    d.ldc = ((k + 1) / 2 + 15) / 16 * 16 + 16 * more_stride;
    if (strcmp(i->layout, "linear") == 0)
        d.lds = (k + 15) / 16 + more_stride;
    if (strcmp(i->from_layout, "linear") == 0)
        d.ldf = (k + 15) / 16 + more_stride;
    if (!quantize_data_make(&d, seed))
        test_fail(__FILE__, __LINE__, "no memory");
    if (i->rounding[0])
        d.global = nvfp4_global_scale(quantize_amax(&d));
    return d;
}

/* The address of an array on the device; its guards lie round it. */
static uint64_t upload(fp4gen_device *dev, const uint8_t *array, size_t bytes)
{
    uint64_t address = 0;
    if (!array)
        return 0;
    bytes += 2 * QUANTIZE_GUARD_BYTES;
    CHECK_EQ(fp4gen_alloc(dev, &address, bytes, NULL), FP4GEN_OK);
    array -= QUANTIZE_GUARD_BYTES;
    CHECK_EQ(fp4gen_upload(dev, address, array, bytes, NULL), FP4GEN_OK);
    return address + QUANTIZE_GUARD_BYTES;
}

static void download(fp4gen_device *dev, uint8_t *array, size_t bytes, uint64_t address)
{
    if (!array)
        return;
    address -= QUANTIZE_GUARD_BYTES;
    CHECK_EQ(fp4gen_download(dev, array - QUANTIZE_GUARD_BYTES, address,
                             bytes + 2 * QUANTIZE_GUARD_BYTES, NULL),
             FP4GEN_OK);
    CHECK_EQ(fp4gen_free(dev, address, NULL), FP4GEN_OK);
}

void quantize_run(struct quantize_device *q, struct quantize_data *d,
                  enum quantize_global global)
{
    fp4gen_error err = {0};
    float globals[8] = {0}; /* [0] is read, [1] amax, [2] what was taken */
    uint64_t scalars = 0;
    fp4gen_quantize_args a = {.m = (uint32_t)d->m,
                              .k = (uint32_t)d->k,
                              .ldx = d->x ? d->ldx : 0,
                              .ldc = d->codes ? d->ldc : 0,
                              .lds = d->lds,
                              .ldf = d->ldf,
                              .global = d->global,
                              .seed = d->seed};
    a.x = upload(q->dev, d->x, d->x_bytes);
    a.codes = upload(q->dev, d->codes, d->codes_bytes);
    a.scales = upload(q->dev, d->scales, d->scales_bytes);
    a.from = upload(q->dev, d->from, d->from_bytes);
    globals[0] = d->global;
    CHECK_EQ(fp4gen_alloc(q->dev, &scalars, sizeof globals, NULL), FP4GEN_OK);
    CHECK_EQ(fp4gen_upload(q->dev, scalars, globals, sizeof globals, NULL), FP4GEN_OK);
    if (global == GLOBAL_BY_POINTER) {
        a.global_ptr = scalars;
        a.global = -1; /* must not be used */
    }
    if (global == GLOBAL_BY_AMAX) {
        a.amax_ptr = scalars + 4;
        a.global = -1;
    }
    bool to_codes = d->image->rounding[0] != '\0';
    if (to_codes)
        a.global_out = scalars + 8;
    fp4gen_quantize(q->kernel, &a, &err);
    CHECK_STR(err.text, "");
    fp4gen_sync(q->dev, NULL, &err);
    CHECK_STR(err.text, "");
    CHECK_EQ(fp4gen_download(q->dev, globals, scalars, sizeof globals, NULL),
             FP4GEN_OK);
    CHECK_EQ(fp4gen_free(q->dev, scalars, NULL), FP4GEN_OK);
    if (global == GLOBAL_BY_AMAX)
        d->global = globals[2];
    else if (to_codes && d->m && d->k)
        CHECK(memcmp(&globals[2], &d->global, sizeof d->global) == 0);
    download(q->dev, d->x, d->x_bytes, a.x);
    download(q->dev, d->codes, d->codes_bytes, a.codes);
    download(q->dev, d->scales, d->scales_bytes, a.scales);
    download(q->dev, d->from, d->from_bytes, a.from);
}

void quantize_check(struct quantize_device *q, struct quantize_data *d,
                    enum quantize_global global)
{
    quantize_run(q, d, global);
    struct quantize_verdict v = quantize_compare(d, 1);
    if (v.wrong)
        test_fail(__FILE__, __LINE__,
                  "%s, %zu x %zu: %llu wrong, the first is the %s of [%zu][%zu]: 0x%x, "
                  "expected 0x%x",
                  d->image->kernel, d->m, d->k, (unsigned long long)v.wrong, v.what,
                  v.row, v.col, v.got, v.want);
    if (v.strayed)
        test_fail(__FILE__, __LINE__,
                  "%s, %zu x %zu: %llu bytes strayed, byte %lld of %s",
                  d->image->kernel, d->m, d->k, (unsigned long long)v.strayed,
                  (long long)v.stray_at, v.strayed_in);
}
