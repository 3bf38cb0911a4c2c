/* device_gemm.c - generate, load, copy, launch, copy back. */
#include "tests/device_gemm.h"
#include "gen/job.h"
#include "runtime/fp4gen.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

struct device_gemm {
    struct job *job;
    fp4gen_device *dev;
    fp4gen_kernel *kernel;
};

static void must(fp4gen_status status, const fp4gen_error *err)
{
    if (status != FP4GEN_OK)
        test_fail(__FILE__, __LINE__, "%s", err->text);
}

struct device_gemm *device_gemm_open(const char *tile_n, const char *tile_k)
{
    const struct config_override set[] = {
        {"tile.n", tile_n}, {"tile.k", tile_k}, {"d.type", "f32"}};
    const struct job_options o = {
        .overrides = set, .override_count = (int)COUNT_OF(set), .check = true};
    struct device_gemm *d = malloc(sizeof *d);
    CHECK(d);
    d->job = job_run(&o);
    if (d->job->diags->count)
        test_fail(__FILE__, __LINE__, "%s", d->job->diags->first->text);
    const struct image *image = &d->job->image;
    fp4gen_error err;
    must(fp4gen_open(&d->dev, FP4GEN_DRIVER_EMU, 0, image->target, &err), &err);
    must(fp4gen_load(&d->kernel, d->dev, image->ptx, image->ptx_bytes, &err), &err);
    return d;
}

void device_gemm_close(struct device_gemm *d)
{
    fp4gen_unload(d->kernel);
    fp4gen_close(d->dev);
    job_free(d->job);
    free(d);
}

static uint64_t to_device(struct device_gemm *d, const void *data, size_t bytes)
{
    fp4gen_error err;
    uint64_t address;
    must(fp4gen_alloc(d->dev, &address, bytes, &err), &err);
    must(fp4gen_upload(d->dev, address, data, bytes, &err), &err);
    return address;
}

void device_gemm_run(struct device_gemm *d, const struct ref_gemm *g,
                     bool alpha_on_device, float *out)
{
    float alpha = (float)g->alpha;
    size_t d_bytes = g->m * g->n * sizeof *out;
    uint64_t at[6] = {
        to_device(d, g->a, g->m * g->lda),
        to_device(d, g->b, g->n * g->ldb),
        to_device(d, g->sfa, ref_sf_bytes(g->m, g->k)),
        to_device(d, g->sfb, ref_sf_bytes(g->n, g->k)),
        to_device(d, &alpha, sizeof alpha),
        to_device(d, out, d_bytes),
    };
    const fp4gen_gemm call = {
        .m = (uint32_t)g->m,
        .n = (uint32_t)g->n,
        .k = (uint32_t)g->k,
        .a = at[0],
        .b = at[1],
        .sfa = at[2],
        .sfb = at[3],
        .alpha = alpha_on_device ? -1 : alpha,
        .alpha_ptr = alpha_on_device ? at[4] : 0,
        .d = at[5],
        .lda = g->lda,
        .ldb = g->ldb,
    };
    fp4gen_error err;
    must(fp4gen_run(d->kernel, &call, &err), &err);
    must(fp4gen_sync(d->dev, NULL, &err), &err);
    must(fp4gen_download(d->dev, out, at[5], d_bytes, &err), &err);
    for (size_t i = 0; i < COUNT_OF(at); i++)
        must(fp4gen_free(d->dev, at[i], &err), &err);
}
