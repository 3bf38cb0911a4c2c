/* fuzz_config.c - damaged configs for the sandbox and the schema, through the whole
 * generator: what is accepted must come out as PTX that its own parser accepts. */
#include "gen/job.h"
#include "tests/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_name = "config";

const struct fuzz_seed *fuzz_seeds(void)
{
    static const char plain[] =
        "-- a config\ngemm {\n  name = \"x\", target = \"sm_100f\",\n"
        "  a = { type = \"e2m1\", scale = \"ue4m3\", block = 16, major = \"k\" },\n"
        "  d = { type = \"bf16\", major = \"n\" },\n"
        "  tile = { m = 128, n = 64 * 2, k = 256 }, stages = 2,\n"
        "  warps = { load = 1, mma = 1, epilogue = 4 },\n"
        "  epilogue = \"identity\", template = \"gemm_tcgen05\",\n}\n";
    static const char busy[] =
        "local n = 0\nfor i = 1, 10 do n = n + i % 3 end\n"
        "local t = {}\nt[\"n\"] = 64\nlocal ok = pcall(error, \"x\")\n"
        "gemm { tile = { n = t.n }, stages = ok and 3 or \"auto\",\n"
        "  name = (\"k\"):rep(3) .. string.format(\"%d\", n) }\n";
    static const struct fuzz_seed seeds[] = {
        {plain, sizeof plain - 1}, {busy, sizeof busy - 1}, {NULL, 0}};
    return seeds;
}

void fuzz_one(const char *text, size_t bytes)
{
    const char *path = "build/fuzz-config.lua";
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(text, 1, bytes, f) != bytes || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
    const struct job_options options = {.path = path, .check = true};
    struct job *j = job_run(&options);
    struct buf out;
    buf_init(&out, j->arena);
    for (const struct diag *g = j->diags->first; g; g = g->next)
        diag_format(g, text, &out);
    if (j->diags->count == 0 && (!j->image.ptx || !strstr(j->image.ptx, ".entry")))
        abort();
    job_free(j);
}
