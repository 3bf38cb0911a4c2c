/* fuzz_manifest.c - damaged kernels for the runtime's reader. */
#include "gen/job.h"
#include "runtime/manifest.h"
#include "tests/fuzz.h"

#include <stdlib.h>
#include <string.h>

const char *const fuzz_name = "manifest";

const struct fuzz_seed *fuzz_seeds(void)
{
    static const char hand[] =
        "// fp4gen-manifest 3\n// generator: fp4gen 0.1.0\n// config: c\n"
        "// tensor: a type=16u4_align8b dims=k,m strides=lda box=256,128 swizzle=128b "
        "l2=256b\n// param: a tensor-map\n// end-manifest\n";
    static struct fuzz_seed seeds[4] = {{hand, sizeof hand - 1}};
    const struct job_options options = {.check = false};
    struct job *j = job_run(&options);
    if (j->diags->count == 0)
        seeds[1] = (struct fuzz_seed){strdup(j->image.ptx), j->image.ptx_bytes};
    job_free(j);
    const struct config_override set[] = {{"epilogue", "swiglu_amax"}};
    const struct job_options with_epilogue = {.overrides = set, .override_count = 1};
    j = job_run(&with_epilogue);
    if (j->diags->count == 0 && seeds[1].text)
        seeds[2] = (struct fuzz_seed){strdup(j->image.ptx), j->image.ptx_bytes};
    job_free(j);
    return seeds;
}

void fuzz_one(const char *text, size_t bytes)
{
    struct image image = {0};
    fp4gen_error err = {0};
    if (manifest_read(&image, text, bytes, &err) != FP4GEN_OK && !err.text[0])
        abort(); /* refused without saying why */
}
