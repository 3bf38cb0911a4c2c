#include "gen/run_state.h"

#include <string.h>

static const char *in(const struct run *r, const char *name)
{
    return run_file(&r->o->ins, name);
}

/* An operand is numbers, or codes with their scales. */
static bool read_operand(struct run *r, const char *name, const char *scales_name,
                         struct npy *x, struct npy *scales)
{
    const char *path = in(r, name), *scales_path = in(r, scales_name);
    const bool bf16 = r->o->dtype && strcmp(r->o->dtype, "bf16") == 0;
    if (!path && !scales_path)
        return true;
    if (!path) {
        diag_add(r->diags, DIAG_RUN_CODES, (struct loc){.file = scales_path}, name,
                 name);
        return false;
    }
    bool ok = npy_read_any(path, bf16, x, r->diags);
    if (scales_path)
        ok = npy_read_u8(scales_path, scales, r->diags) && ok;
    if (!ok)
        return false;
    if (x->bytes && !scales_path)
        diag_add(r->diags, DIAG_RUN_PACKED, (struct loc){.file = path}, scales_name);
    else if (!x->bytes && scales_path)
        diag_add(r->diags, DIAG_RUN_NUMBERS, (struct loc){.file = path}, scales_name);
    return !x->bytes == !scales_path;
}

static size_t elements_of_row(const struct npy *x)
{
    return x->bytes ? 2 * x->cols : x->cols;
}

bool run_read_inputs(struct run *r)
{
    const char *a = in(r, "a"), *b = in(r, "b");
    bool ok = read_operand(r, "a", "sfa", &r->a_file, &r->sfa_file);
    ok = read_operand(r, "b", "sfb", &r->b_file, &r->sfb_file) && ok;
    if (!ok)
        return false;
    const size_t a_cols = elements_of_row(&r->a_file),
                 b_cols = elements_of_row(&r->b_file);
    /* Bytes are of two codes: the last one may be there for an odd number. */
    const size_t odd = r->a_file.bytes || r->b_file.bytes;
    if (a && b && a_cols + (a_cols & odd) != b_cols + (b_cols & odd)) {
        diag_add(r->diags, DIAG_RUN_SHAPES, (struct loc){.file = b}, r->b_file.rows,
                 b_cols, a, r->a_file.rows, a_cols);
        return false;
    }
    if (r->a_file.data)
        run_note_odd(a, &r->a_file, false, r->err);
    if (r->b_file.data)
        run_note_odd(b, &r->b_file, false, r->err);
    return true;
}

/* A size is given, or comes from a file; both must agree. */
static bool choose_size(struct run *r, const char *name, int64_t given,
                        size_t from_file, const char *path, uint32_t *out)
{
    if (path && given >= 0 && (uint64_t)given != from_file) {
        diag_add(r->diags, DIAG_RUN_SIZE_FILE, (struct loc){.file = path}, name,
                 from_file, name, (long long)given);
        return false;
    }
    int64_t size = path ? (int64_t)from_file : given;
    if (size < 0) {
        diag_add(r->diags, DIAG_RUN_SIZE, loc_none(), name);
        return false;
    }
    if (size > UINT32_MAX) {
        diag_add(r->diags, DIAG_RUN_SIZE_BIG, loc_none(), name, (long long)size);
        return false;
    }
    *out = (uint32_t)size;
    return true;
}

static uint64_t align16(uint64_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* A matrix with an odd number of columns gets one more, of zeros: two FP4 values share
 * a byte. */
bool run_choose_sizes(struct run *r)
{
    const struct run_options *o = r->o;
    fp4gen_gemm *g = &r->gemm;
    const char *a = in(r, "a"), *b = in(r, "b");
    const size_t cols = elements_of_row(a ? &r->a_file : &r->b_file);
    bool ok = choose_size(r, "m", o->m, r->a_file.rows, a, &g->m);
    ok = choose_size(r, "n", o->n, r->b_file.rows, b, &g->n) && ok;
    ok = choose_size(r, "k", o->k, cols, a ? a : b, &g->k) && ok;
    if (!ok)
        return false;
    if (a || b)
        g->k += g->k % 2;
    const struct image_output *d = &r->image.outputs[0];
    g->lda = o->lda ? o->lda : align16(((uint64_t)g->k + 1) / 2);
    g->ldb = o->ldb ? o->ldb : align16(((uint64_t)g->k + 1) / 2);
    g->ldd = o->ldd ? o->ldd
                    : align16(((uint64_t)(g->n >> d->cols_shift) * d->bits + 7) / 8);
    const bool fits =
        !r->sfa_file.bytes ||
        run_scales_fit(in(r, "sfa"), &r->sfa_file, "128x4", g->m, g->k, r->diags);
    return (!r->sfb_file.bytes || run_scales_fit(in(r, "sfb"), &r->sfb_file, "128x4",
                                                 g->n, g->k, r->diags)) &&
           fits;
}

bool run_make_operands(struct run *r)
{
    const struct run_options *o = r->o;
    const fp4gen_gemm *g = &r->gemm;
    const uint8_t pad = (uint8_t)o->pad_byte;
    const enum fp4_rounding rounding =
        o->rounding && strcmp(o->rounding, "halfstep") == 0 ? FP4_HALFSTEP
                                                            : FP4_NEAREST;
    struct operand *to[] = {&r->a, &r->b};
    const struct npy *x[] = {&r->a_file, &r->b_file},
                     *scales[] = {&r->sfa_file, &r->sfb_file};
    if (!operand_alloc(&r->a, g->m, g->k, g->lda) ||
        !operand_alloc(&r->b, g->n, g->k, g->ldb))
        return run_no_memory(r, "the operands");
    for (unsigned i = 0; i < 2; i++)
        if (x[i]->bytes)
            operand_take(to[i], x[i], scales[i], pad);
        else if (x[i]->data)
            operand_quantize(to[i], x[i], rounding, pad);
        else
            operand_random(to[i], o->seed, i, pad);
    r->alpha = (float)((double)o->alpha * r->a.global * r->b.global);
    return true;
}
