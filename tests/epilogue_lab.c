#include "tests/epilogue_lab.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/run_data.h"
#include "gen/run_epilogue.h"
#include "gen/run_sums.h"
#include "tests/test.h"

enum { MOST_PROBLEMS = 256 };

struct lab {
    fp4gen_device *device;
    struct lab_problem problems[MOST_PROBLEMS];
    int count;
    int runs;
};

static void must(fp4gen_status status, const fp4gen_error *e, const char *doing)
{
    if (status != FP4GEN_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", doing, e->text);
}

static void *need(void *p)
{
    CHECK(p);
    return p;
}

struct lab *lab_open(void)
{
    struct lab *lab = need(calloc(1, sizeof *lab));
    fp4gen_error e = {0};
    must(fp4gen_open(&lab->device, FP4GEN_DRIVER_EMU, 0, "sm_100f", &e), &e, "open");
    return lab;
}

void lab_close(struct lab *lab)
{
    for (int i = 0; i < lab->count; i++)
        free(lab->problems[i].sums);
    fp4gen_close(lab->device);
    free(lab);
}

/* ---- kernels */

static const char *number(struct arena *a, int n)
{
    return arena_printf(a, "%d", n ? n : 256);
}

struct job *lab_job(const struct lab_kernel *k)
{
    struct arena *a = arena_new();
    const bool is_text = strncmp(k->epilogue, "function", 8) == 0;
    static const char *file; /* one, written again and again */
    if (is_text && !file)
        file = test_tmp_path("epilogue.lua");
    const char *path = is_text ? file : NULL;
    struct config_override set[8];
    int count = 0;
    if (is_text) {
        char *text = arena_printf(a, "gemm {\n  epilogue = %s,\n}\n", k->epilogue);
        CHECK(file_write(path, text, strlen(text)));
    } else {
        set[count++] = (struct config_override){"epilogue", k->epilogue};
    }
    set[count++] = (struct config_override){"tile.n", number(a, k->tile_n)};
    set[count++] = (struct config_override){"tile.k", number(a, k->tile_k)};
    if (k->d_type)
        set[count++] = (struct config_override){"d.type", k->d_type};
    if (k->target)
        set[count++] = (struct config_override){"target", k->target};
    const struct job_options o = {
        .path = path, .overrides = set, .override_count = count, .check = true};
    struct job *j = job_run(&o);
    if (j->diags->count && j->diags->first->code == DIAG_EPILOGUE_NO_LLVM)
        SKIP("libfp4gen-llvm.so is not built: no LLVM 22");
    if (j->diags->count && !k->is_refused) {
        struct buf b;
        buf_init(&b, a);
        diag_format(j->diags->first, NULL, &b);
        test_fail(__FILE__, __LINE__, "%s: %s", k->epilogue, b.data);
    }
    arena_free(a);
    return j;
}

/* ---- problems */

static uint64_t to_device(struct lab *lab, const void *data, size_t bytes)
{
    fp4gen_error e = {0};
    uint64_t address = 0;
    must(fp4gen_alloc(lab->device, &address, bytes ? bytes : 16, &e), &e, "alloc");
    if (bytes)
        must(fp4gen_upload(lab->device, address, data, bytes, &e), &e, "upload");
    return address;
}

static void add_sums(struct lab *lab, struct lab_problem *p, size_t ld_bytes)
{
    const struct job_options o = {.check = false};
    const fp4gen_gemm g = {.m = p->m,
                           .n = p->n,
                           .k = p->k,
                           .a = p->a,
                           .b = p->b,
                           .sfa = p->sfa,
                           .sfb = p->sfb,
                           .lda = ld_bytes,
                           .ldb = ld_bytes};
    struct job *job = NULL;
    uint8_t *bytes = NULL;
    size_t ld = 0;
    fp4gen_error e = {0};
    CHECK(sums_run(lab->device, &o, &g, &job, &bytes, &ld, &e));
    p->sums = need(malloc((size_t)p->m * p->n * sizeof *p->sums));
    for (size_t row = 0; row < p->m; row++)
        memcpy(p->sums + row * p->n, bytes + GUARD_BYTES + row * ld,
               p->n * sizeof *p->sums);
    free(bytes);
    job_free(job);
}

static const struct lab_problem *add_problem(struct lab *lab, struct lab_problem p,
                                             struct operand *a, struct operand *b)
{
    CHECK(lab->count < MOST_PROBLEMS);
    p.a = to_device(lab, a->codes, a->codes_bytes);
    p.b = to_device(lab, b->codes, b->codes_bytes);
    p.sfa = to_device(lab, a->scales, a->scales_bytes);
    p.sfb = to_device(lab, b->scales, b->scales_bytes);
    add_sums(lab, &p, a->ld_bytes);
    operand_free(a);
    operand_free(b);
    lab->problems[lab->count] = p;
    return &lab->problems[lab->count++];
}

const struct lab_problem *lab_problem(struct lab *lab, uint32_t m, uint32_t n,
                                      uint32_t k)
{
    for (int i = 0; i < lab->count; i++) {
        const struct lab_problem *p = &lab->problems[i];
        if (p->m == m && p->n == n && p->k == k && !p->is_pattern)
            return p;
    }
    const size_t ld = (k / 2 + 15) / 16 * 16;
    const uint8_t nan_pad = 0x7f;
    struct operand a, b;
    CHECK(operand_alloc(&a, m, k, ld) && operand_alloc(&b, n, k, ld));
    operand_random(&a, (uint64_t)lab->count, 0, nan_pad);
    operand_random(&b, (uint64_t)lab->count, 1, nan_pad);
    return add_problem(lab, (struct lab_problem){.m = m, .n = n, .k = k}, &a, &b);
}

/* One element of K, the others are 0. */
static void make_pattern(struct operand *o, lab_code *code)
{
    const uint8_t one = 0x38; /* UE4M3 */
    memset(o->codes, 0, o->codes_bytes);
    memset(o->scales, one, o->scales_bytes);
    for (size_t row = 0; row < o->rows; row++)
        o->codes[row * o->ld_bytes] = (uint8_t)code(row);
}

const struct lab_problem *lab_pattern(struct lab *lab, uint32_t m, uint32_t n,
                                      lab_code *row_code, lab_code *col_code)
{
    const uint32_t k = 64;
    struct operand a, b;
    CHECK(operand_alloc(&a, m, k, k / 2) && operand_alloc(&b, n, k, k / 2));
    make_pattern(&a, row_code);
    make_pattern(&b, col_code);
    return add_problem(
        lab, (struct lab_problem){.m = m, .n = n, .k = k, .is_pattern = true}, &a, &b);
}

/* ---- runs */

static struct epilogue_run view(const struct lab_run *r)
{
    return (struct epilogue_run){.e = r->job->config->expr,
                                 .image = &r->image,
                                 .args = r->args,
                                 .outs = r->outs,
                                 .m = r->problem->m,
                                 .n = r->problem->n,
                                 .acc = r->problem->sums,
                                 .alpha = r->alpha};
}

static void make_data(struct lab *lab, struct lab_run *r, const struct run_setting *set,
                      int set_count)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    const struct lab_problem *p = r->problem;
    if (!run_args_make(r->args, &r->image, p->m, p->n, (uint64_t)lab->runs, set,
                       set_count, d))
        test_fail(__FILE__, __LINE__, "%s", d->count ? d->first->text : "no memory");
    const uint64_t gap = 16 * (uint64_t)(lab->runs % 3); /* behind the rows of D */
    const struct image_output *o = &r->image.outputs[0];
    const uint64_t row =
        ((uint64_t)(p->n >> o->cols_shift) * o->bits / 8 + 15) / 16 * 16;
    CHECK(run_outputs_make(r->outs, &r->image, p->m, p->n, row + gap, POISON_BYTE));
    struct epilogue_run run = view(r);
    run.m = p->m < 4 ? p->m : 4;
    if (run.e)
        epilogue_choose_globals(&run, r->args);
    arena_free(a);
}

static void launch(struct lab *lab, struct lab_run *r)
{
    const struct lab_problem *p = r->problem;
    fp4gen_output outputs[IMAGE_MAX_OUTPUTS];
    fp4gen_arg args[IMAGE_MAX_ARGS];
    fp4gen_error e = {0};
    for (int k = 0; k < r->image.output_count; k++) {
        struct run_output *o = &r->outs[k];
        assert(o->about);
        o->address = to_device(lab, o->bytes, o->bytes_count);
        outputs[k] = (fp4gen_output){.name = o->about->name,
                                     .address = o->address + GUARD_BYTES,
                                     .ld = o->about->bits ? o->d.ld_bytes : 0};
        if (!o->scales)
            continue;
        o->scales_address = to_device(lab, o->scales, o->scales_count);
        outputs[k].scales = o->scales_address + GUARD_BYTES;
    }
    for (int k = 0; k < r->image.arg_count; k++) {
        struct run_arg *arg = &r->args[k];
        assert(arg->about);
        const bool by_value = !arg->data && lab->runs % 2;
        if (arg->data)
            arg->address = to_device(lab, arg->data, arg->rows * arg->ld_bytes);
        else if (!by_value)
            arg->address = to_device(lab, &arg->bits, sizeof arg->bits);
        args[k] = (fp4gen_arg){.name = arg->about->name,
                               .value = by_value    ? run_arg_value(arg)
                                        : arg->data ? 0
                                                    : 1e30, /* not to be used */
                               .address = arg->address,
                               .ld = arg->about->kind == ARG_AUX ? arg->ld_bytes : 0};
    }
    const fp4gen_gemm g = {.m = p->m,
                           .n = p->n,
                           .k = p->k,
                           .a = p->a,
                           .b = p->b,
                           .sfa = p->sfa,
                           .sfb = p->sfb,
                           .lda = (p->k / 2 + 15) / 16 * 16,
                           .ldb = (p->k / 2 + 15) / 16 * 16,
                           .alpha = r->alpha,
                           .ctas = (uint32_t)(lab->runs % 4), /* 0: one a tile */
                           .outputs = outputs,
                           .output_count = (uint32_t)r->image.output_count,
                           .args = args,
                           .arg_count = (uint32_t)r->image.arg_count};
    fp4gen_kernel *kernel = NULL;
    must(fp4gen_load(&kernel, lab->device, r->image.ptx, r->image.ptx_bytes, &e), &e,
         r->image.kernel);
    must(fp4gen_run(kernel, &g, &e), &e, r->image.kernel);
    must(fp4gen_sync(lab->device, NULL, &e), &e, r->image.kernel);
    fp4gen_unload(kernel);
}

static void fetch(struct lab *lab, struct lab_run *r)
{
    fp4gen_error e = {0};
    for (int k = 0; k < r->image.output_count; k++) {
        struct run_output *o = &r->outs[k];
        must(fp4gen_download(lab->device, o->bytes, o->address, o->bytes_count, &e), &e,
             "download");
        if (o->scales)
            must(fp4gen_download(lab->device, o->scales, o->scales_address,
                                 o->scales_count, &e),
                 &e, "download");
        fp4gen_free(lab->device, o->address, NULL);
        fp4gen_free(lab->device, o->scales_address, NULL);
    }
    for (int k = 0; k < r->image.arg_count; k++)
        fp4gen_free(lab->device, r->args[k].address, NULL);
}

struct lab_run *lab_run_with(struct lab *lab, const struct job *j,
                             const struct lab_problem *p, float alpha,
                             const struct run_setting *set, int set_count)
{
    struct lab_run *r = need(calloc(1, sizeof *r));
    r->job = j;
    r->image = j->image;
    r->problem = p;
    r->alpha = alpha;
    make_data(lab, r, set, set_count);
    launch(lab, r);
    fetch(lab, r);
    lab->runs++;
    return r;
}

struct lab_run *lab_run(struct lab *lab, const struct job *j,
                        const struct lab_problem *p, float alpha)
{
    return lab_run_with(lab, j, p, alpha, NULL, 0);
}

void lab_check(const struct lab_run *r)
{
    const struct epilogue_run run = view(r);
    struct epilogue_compared c;
    char name[200];
    snprintf(name, sizeof name, "%s m=%u n=%u k=%u", r->image.kernel, run.m, run.n,
             r->problem->k);
    for (int k = 0; k < r->image.output_count; k++) {
        struct d_touched t = d_check_touched(&r->outs[k].d);
        if (t.unwritten || t.strayed)
            test_fail(__FILE__, __LINE__,
                      "%s: %s has %zu elements unwritten, the first "
                      "[%zu][%zu], and %zu bytes strayed, the first at %lld",
                      name, r->image.outputs[k].name, t.unwritten,
                      t.first_unwritten.row, t.first_unwritten.col, t.strayed,
                      (long long)t.first_strayed);
    }
    epilogue_compare(&run, 0, 1, &c);
    CHECK(c.elements > 0);
    if (c.wrong)
        test_fail(__FILE__, __LINE__,
                  "%s: %llu of %llu are wrong, the first %s%s[%zu][%zu]: 0x%x, the %s "
                  "gives 0x%x",
                  name, (unsigned long long)c.wrong, (unsigned long long)c.elements,
                  c.is_scale ? "scale " : "", r->image.outputs[c.output].name, c.row,
                  c.col, c.got, c.by_reference ? "reference" : "expression", c.want);
}

void lab_run_free(struct lab_run *r)
{
    run_args_free(r->args, &r->image);
    run_outputs_free(r->outs, &r->image);
    free(r);
}
