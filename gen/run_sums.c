#include "gen/run_sums.h"

#include <stdlib.h>
#include <string.h>

#include "gen/run_check.h"

/* The kernel of `o` with other overrides behind its own. */
static struct job *make_kernel(const struct job_options *o)
{
    static const struct config_override plain[] = {
        {"epilogue", "identity"}, {"d.type", "f32"}, {"stages", "auto"}};
    struct config_override all[64];
    int count = 0;
    for (int i = 0; i < o->override_count; i++)
        if ((size_t)count + COUNT_OF(plain) < COUNT_OF(all))
            all[count++] = o->overrides[i];
    for (size_t i = 0; i < COUNT_OF(plain); i++)
        all[count++] = plain[i];
    struct job_options options = *o;
    options.overrides = all;
    options.override_count = count;
    return job_run(&options);
}

bool sums_run(fp4gen_device *device, const struct job_options *o, const fp4gen_gemm *g,
              struct job **job, uint8_t **out, size_t *ld_bytes, fp4gen_error *e)
{
    *job = make_kernel(o);
    *ld_bytes = ((size_t)g->n * sizeof(float) + 15) / 16 * 16;
    *out = NULL;
    if ((*job)->diags->count)
        return false;
    const size_t bytes = g->m * *ld_bytes + 2 * GUARD_BYTES;
    struct d_matrix d = {.m = g->m, .n = g->n, .ld_bytes = *ld_bytes, .is_f32 = true};
    uint8_t *host = malloc(bytes);
    fp4gen_gemm sums = *g;
    fp4gen_kernel *kernel = NULL;
    uint64_t buffer = 0;
    if (!host)
        return false;
    d_poison(&d, host, POISON_BYTE);
    sums.alpha = 1;
    sums.alpha_ptr = 0;
    sums.ldd = *ld_bytes;
    sums.d_scales = 0;
    sums.output_count = sums.arg_count = 0;
    bool ok =
        !fp4gen_load(&kernel, device, (*job)->image.ptx, (*job)->image.ptx_bytes, e) &&
        !fp4gen_alloc(device, &buffer, bytes, e) &&
        !fp4gen_upload(device, buffer, host, bytes, e);
    sums.d = buffer + GUARD_BYTES;
    ok = ok && !fp4gen_run(kernel, &sums, e) && !fp4gen_sync(device, sums.stream, e) &&
         !fp4gen_download(device, host, buffer, bytes, e);
    fp4gen_free(device, buffer, NULL);
    fp4gen_unload(kernel);
    if (ok)
        *out = host;
    else
        free(host);
    return ok;
}
