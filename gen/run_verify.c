#include "gen/run_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/run_check.h"
#include "gen/run_epilogue.h"
#include "gen/run_slack.h"
#include "gen/run_sums.h"
#include "gen/verbs.h"

#define CHECK_ALL_MACS ((uint64_t)1 << 31)
#define RANDOM_ELEMENTS 4096

/* The runtime's messages look like the generator's: the code ends the first line. */
bool run_print_error(const struct run *r, const fp4gen_error *e)
{
    size_t first = strcspn(e->text, "\n");
    if (e->status == FP4GEN_BAD_PTX && r->o->ptx_path)
        fprintf(r->err, "%s: ", r->o->ptx_path);
    fprintf(r->err, "error: %.*s [%s]\n", (int)first, e->text, e->code);
    if (e->text[first])
        fprintf(r->err, "%s\n", e->text + first + 1);
    return false;
}

bool run_no_memory(const struct run *r, const char *what)
{
    diag_add(r->diags, DIAG_RUN_MEMORY, loc_none(), what, (long long)r->gemm.m,
             (long long)r->gemm.n, (long long)r->gemm.k);
    return false;
}

struct ref_gemm run_reference(const struct run *r, float alpha)
{
    const fp4gen_gemm *g = &r->gemm;
    return (struct ref_gemm){.m = g->m,
                             .n = g->n,
                             .k = g->k,
                             .a = r->a.codes,
                             .b = r->b.codes,
                             .lda = (size_t)g->lda,
                             .ldb = (size_t)g->ldb,
                             .sfa = r->a.scales,
                             .sfb = r->b.scales,
                             .alpha = alpha};
}

/* Another launch into the same outputs, with another poison. */
static bool run_again(const struct run *r, struct run_output *again)
{
    fp4gen_error e = {0};
    if (!run_outputs_make(again, &r->image, r->gemm.m, r->gemm.n, r->outs[0].d.ld_bytes,
                          OTHER_POISON_BYTE))
        return run_no_memory(r, "the outputs");
    bool ok = true;
    for (int k = 0; ok && k < r->image.output_count; k++)
        ok = !fp4gen_upload(r->device, r->outs[k].address, again[k].bytes,
                            again[k].bytes_count, &e);
    ok = ok && !fp4gen_run(r->kernel, &r->gemm, &e) &&
         !fp4gen_sync(r->device, r->gemm.stream, &e);
    for (int k = 0; ok && k < r->image.output_count; k++)
        ok = !fp4gen_download(r->device, again[k].bytes, r->outs[k].address,
                              again[k].bytes_count, &e);
    return ok || run_print_error(r, &e);
}

/* Has each output that seems not to be written been written?  Seldom asked for. */
static bool find_unwritten(const struct run *r, struct d_touched *t)
{
    struct run_output again[IMAGE_MAX_OUTPUTS] = {0};
    bool ok = run_again(r, again);
    for (int k = 0; ok && k < r->image.output_count; k++)
        t[k] = d_check_touched_twice(&r->outs[k].d, &again[k].d);
    run_outputs_free(again, &r->image);
    return ok;
}

static bool check_touched(const struct run *r)
{
    struct d_touched all[IMAGE_MAX_OUTPUTS];
    bool ok = true, is_sure = true;
    for (int k = 0; k < r->image.output_count; k++) {
        all[k] = d_check_touched(&r->outs[k].d);
        is_sure = is_sure && !all[k].unwritten;
    }
    if (!is_sure && !find_unwritten(r, all))
        return false;
    for (int k = 0; k < r->image.output_count; k++) {
        const char *name = r->outs[k].about->name;
        const struct d_touched t = all[k];
        if (t.unwritten)
            diag_add(r->diags, DIAG_RUN_UNWRITTEN, loc_none(), t.unwritten, name, name,
                     t.first_unwritten.row, t.first_unwritten.col);
        if (t.strayed)
            diag_add(r->diags, DIAG_RUN_STRAYED, loc_none(), t.strayed, name,
                     (long long)t.first_strayed);
        ok = ok && !t.unwritten && !t.strayed;
    }
    return ok;
}

static int thread_count(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > 16 ? 16 : (int)count;
}

static uint64_t count_macs(const fp4gen_gemm *g)
{
    double macs = (double)g->m * g->n * g->k;
    return macs < 1e18 ? (uint64_t)g->m * g->n * g->k : UINT64_MAX;
}

static bool checks_all(const struct run *r)
{
    return r->o->check == RUN_CHECK_FULL || count_macs(&r->gemm) <= CHECK_ALL_MACS;
}

/* The product itself, in bf16 or f32. */
static bool check_product(struct run *r, const struct d_matrix *d, float alpha)
{
    const fp4gen_gemm *g = &r->gemm;
    const struct ref_gemm ref = run_reference(r, alpha);
    const char *type = d->is_f32 ? "f32" : "bf16";
    const bool all = checks_all(r);
    struct d_compared c;
    bool ok = all ? d_compare_all(d, &ref, thread_count(), &c)
                  : d_compare_part(d, &ref, r->image.tile[0], r->image.tile[1],
                                   RANDOM_ELEMENTS, r->o->seed, &c);
    if (!ok)
        return run_no_memory(r, "the reference");
    fprintf(r->out,
            "%s %u x %u %s: worst error %.3g of the bound (half an ulp of %s + "
            "(K/64 + 1) 2^-23 sum |a b sa sb|)\n",
            d == &r->outs[0].d ? "D" : "sums", g->m, g->n, type, c.worst, type);
    if (!all)
        fprintf(r->out,
                "compared: first and last rows and columns of all tiles and %d random "
                "elements, %llu of %llu; --check=full compares all\n",
                RANDOM_ELEMENTS, (unsigned long long)c.elements,
                (unsigned long long)g->m * g->n);
    if (c.wrong == 0)
        return true;
    diag_add(r->diags, DIAG_RUN_WRONG, loc_none(), (unsigned long long)c.wrong,
             (unsigned long long)c.elements, c.at.row, c.at.col, c.got, c.want,
             c.worst);
    return false;
}

static bool report_epilogue(struct run *r, const struct epilogue_compared *c,
                            bool bounded)
{
    /* Where an approximation is rounded, or decides something, on the way to the output
     * there is no bound: then it may be others now and then. */
    const double most = bounded ? 0 : 0.02;
    fprintf(r->out, "outputs: %llu of %llu elements and scales as evaluated",
            (unsigned long long)(c->elements - c->wrong - c->near),
            (unsigned long long)c->elements);
    if (c->near)
        fprintf(r->out, ", %llu others within the bounds of approximations",
                (unsigned long long)c->near);
    fprintf(r->out, "\n");
    if ((double)c->wrong <= most * (double)c->elements)
        return true;
    diag_add(r->diags, DIAG_RUN_EPILOGUE, loc_none(), (unsigned long long)c->wrong,
             (unsigned long long)c->elements, c->is_scale ? "scale " : "",
             r->image.outputs[c->output].name, c->row, c->col, c->got,
             c->by_reference ? "reference" : "expression", c->want);
    return false;
}

/* The config whose kernel without epilogue makes the sums: the same one, or that of a
 * PTX with the same tile. */
static struct job_options sums_config(struct run *r)
{
    if (r->job)
        return r->o->job;
    static const char *const fields[] = {"tile.m", "tile.n", "tile.k"};
    struct config_override *set = ARENA_ARRAY(r->arena, struct config_override, 4);
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        set[i] = (struct config_override){
            fields[i], arena_printf(r->arena, "%u", r->image.tile[i])};
    set[3] = (struct config_override){"target", r->image.target};
    return (struct job_options){.overrides = set, .override_count = 4};
}

/* Sums by a kernel without epilogue, these against the reference, and outputs against
 * what the expression makes of the sums. */
static bool check_epilogue(struct run *r)
{
    const fp4gen_gemm *g = &r->gemm;
    struct job *job = NULL;
    uint8_t *bytes = NULL;
    fp4gen_error e = {0};
    struct d_matrix sums = {.m = g->m, .n = g->n, .is_f32 = true};
    const struct job_options config = sums_config(r);
    if (!sums_run(r->device, &config, g, &job, &bytes, &sums.ld_bytes, &e)) {
        print_diags(job->diags, r->err);
        if (e.status)
            run_print_error(r, &e);
        else if (!job->diags->count)
            run_no_memory(r, "the sums");
        job_free(job);
        return false;
    }
    job_free(job);
    sums.bytes = bytes;
    float *acc = malloc((size_t)g->m * g->n * sizeof *acc + 1);
    bool ok = acc != NULL || run_no_memory(r, "the sums");
    for (size_t row = 0; ok && row < g->m; row++)
        memcpy(acc + row * g->n, bytes + GUARD_BYTES + row * sums.ld_bytes,
               g->n * sizeof *acc);
    ok = ok && check_product(r, &sums, 1);
    if (ok) {
        const struct epilogue_run run = {.e = r->expr,
                                         .image = &r->image,
                                         .args = r->args,
                                         .outs = r->outs,
                                         .m = g->m,
                                         .n = g->n,
                                         .acc = acc,
                                         .alpha = r->alpha};
        const size_t some_rows = 61; /* prime: rows of all warps and tiles */
        struct epilogue_compared c;
        epilogue_compare(&run, 0, checks_all(r) ? 1 : some_rows, &c);
        ok = report_epilogue(r, &c, slack_is_small(r->expr));
    }
    free(acc);
    free(bytes);
    return ok;
}

static bool check_values(struct run *r)
{
    if (strcmp(r->image.epilogue, "identity") == 0)
        return check_product(r, &r->outs[0].d, r->alpha);
    return check_epilogue(r);
}

void run_print_loss(const struct run *r)
{
    const bool all = count_macs(&r->gemm) <= CHECK_ALL_MACS;
    struct d_loss l = d_measure_loss(&r->outs[0].d, &r->a_file, &r->b_file, r->o->alpha,
                                     all ? 0 : RANDOM_ELEMENTS, r->o->seed);
    fprintf(r->out,
            "against the unquantised product: relative error %.4g, largest difference "
            "%.4g (%llu of %llu elements)\n",
            l.relative, l.worst, (unsigned long long)l.elements,
            (unsigned long long)r->gemm.m * r->gemm.n);
}

bool run_verify(struct run *r)
{
    bool is_trusted = r->o->watch && r->o->watch->is_trusted;
    return check_touched(r) && (!r->o->check || is_trusted || check_values(r));
}
