/* fuzz_ptx.c - damaged PTX for the parser and the checker. */
#include "core/ptx.h"
#include "core/base.h"
#include "core/diag.h"
#include "gen/job.h"
#include "tests/fuzz.h"

#include <stdlib.h>
#include <string.h>

const char *const fuzz_name = "ptx";

const struct fuzz_seed *fuzz_seeds(void)
{
    static const char hand[] =
        ".version 8.8\n.target sm_100f\n.address_size 64\n"
        ".visible .const .align 8 .b8 bytes[4] = {1, 2, 0x3, 4};\n"
        ".extern .shared .align 1024 .b8 smem[];\n"
        ".func (.param .b32 out) twice(.param .b32 in)\n{\n"
        "  .reg .b32 x;\n  ld.param.b32 x, [in];\n  add.u32 x, x, x;\n"
        "  st.param.b32 [out], x;\n  ret;\n}\n"
        ".visible .entry k(.param .u64 p, .param .align 64 .b8 map[128])\n"
        ".reqntid 128, 1, 1\n{\n"
        "  .reg .b32 r<4>;\n  .reg .b64 rd;\n  .reg .f32 f;\n  .reg .pred p0;\n"
        "  ld.param.u64 rd, [p];\n  mov.f32 f, 0f3f800000;\n"
        "  mov.u32 r0, %tid.x;\n  setp.ne.u32 p0, r0, 0;\n"
        "LOOP:\n  @p0 bra DONE;\n  add.u32 r1, r0, 1 + 2 * (3 << 4);\n"
        "  ld.global.v2.b32 {r2, r3}, [rd + 8];\n"
        "  st.global.b32 [rd], r1;\n  bra LOOP;\nDONE:\n  ret;\n}\n";
    static struct fuzz_seed seeds[3] = {{hand, sizeof hand - 1}};
    const struct job_options options = {.check = false};
    struct job *j = job_run(&options);
    if (j->diags->count == 0)
        seeds[1] = (struct fuzz_seed){strdup(j->image.ptx), j->image.ptx_bytes};
    job_free(j);
    return seeds;
}

void fuzz_one(const char *text, size_t bytes)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    struct ptx_module *m = ptx_parse(a, "fuzz.ptx", text, bytes, d);
    if (m && d->count == 0)
        ptx_check(m, d);
    struct buf out;
    buf_init(&out, a);
    for (const struct diag *g = d->first; g; g = g->next)
        diag_format(g, text, &out);
    if (!m && d->count == 0)
        abort(); /* refused without saying why */
    arena_free(a);
}
