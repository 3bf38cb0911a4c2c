#include "tests/lower_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fp4.h"
#include "core/ptx.h"
#include "gen/expr_eval.h"
#include "gen/trace.h"
#include "tests/emu_run.h"
#include "tests/test.h"

enum { THREADS = 128 };

/* ---- from Lua */

struct expr *lower_trace_or(struct arena *a, const char *body, struct diags *d)
{
    static const struct sandbox_limits limits = {4 << 20, 256 << 10, 16 << 10, 2000000,
                                                 500};
    struct sandbox_fault fault = {0};
    struct sandbox *s = sandbox_open(&limits);
    const char *script = arena_printf(a, "return function(e) %s end", body);
    struct expr *e = NULL;
    if (sandbox_load(s, a, script, strlen(script), &fault) &&
        sandbox_call(s, a, 0, 1, &fault))
        e = trace_call(s, a, "my.lua", d);
    else
        test_fail(__FILE__, __LINE__, "%s\nline %d: %s", body, fault.line, fault.text);
    sandbox_close(s);
    if (e && !expr_resolve_d(e, EXPR_OUT_BF16))
        test_fail(__FILE__, __LINE__, "%s", expr_fault(e));
    return e;
}

struct expr *lower_trace(struct arena *a, const char *body)
{
    struct diags *d = diags_new(a);
    struct expr *e = lower_trace_or(a, body, d);
    struct buf b;
    buf_init(&b, a);
    if (!e) {
        diag_format(d->first, NULL, &b);
        test_fail(__FILE__, __LINE__, "%s\n%s", body, b.data);
    }
    return e;
}

/* ---- the kernel */

size_t lower_padded_cols(const struct lower_run *r)
{
    return align_up(r->n, (uint32_t)r->chunk);
}

size_t lower_aux_stride_bytes(const struct expr_input *in, size_t cols)
{
    return (cols * (in->type >= EXPR_TYPE_BF16 ? 2 : 4) + 15) / 16 * 16;
}

static int words_of(const struct lower_run *r, int k)
{
    const struct expr_output *o = &r->e->outputs[k];
    return lower_words(o, r->chunk) + lower_scale_words(o, r->chunk) +
           (o->format == EXPR_OUT_AMAX);
}

/* Tests share a cache beside their build, and leave the user's alone. */
static void use_own_cache(void)
{
    char path[4096];
    ssize_t chars = readlink("/proc/self/exe", path, sizeof path - 32);
    if (chars <= 0)
        return;
    path[chars] = '\0';
    snprintf(strrchr(path, '/'), 32, "/../cache");
    setenv("FP4GEN_CACHE", path, 0);
}

static const struct lowered *lowered(struct arena *a, const struct lower_run *r)
{
    use_own_cache();
    struct diags *d = diags_new(a);
    struct lower_request request = {.e = r->e,
                                    .target = target_find(r->target),
                                    .ptx_version = 88,
                                    .chunk = r->chunk,
                                    .step = r->step,
                                    .prefix = "ep"};
    const struct lowered *l = lower_epilogue(a, &request, d);
    struct buf b;
    buf_init(&b, a);
    if (!l && d->first->code == DIAG_EPILOGUE_NO_LLVM)
        SKIP("libfp4gen-llvm.so is not built: no LLVM 22");
    if (!l) {
        diag_format(d->first, NULL, &b);
        test_fail(__FILE__, __LINE__, "%s", b.data);
    }
    return l;
}

static void put_stores(const struct lower_run *r, struct buf *b)
{
    int at = 0;
    for (int k = 0; k < r->e->output_count; k++) {
        const struct expr_output *o = &r->e->outputs[k];
        for (int i = 0; i < lower_words(o, r->chunk); i++)
            buf_printf(b, "  st.global.b32 [out + %d], o%d_w%d;\n", 4 * at++, k, i);
        for (int i = 0; i < lower_scale_words(o, r->chunk); i++)
            buf_printf(b, "  st.global.b32 [out + %d], o%d_s%d;\n", 4 * at++, k, i);
        if (o->format == EXPR_OUT_AMAX)
            buf_printf(b, "  st.global.b32 [out + %d], o%d_amax;\n", 4 * at++, k);
    }
}

const char *lower_kernel(struct arena *a, struct lower_run *r)
{
    const struct lowered *l = r->lowered = lowered(a, r);
    const struct expr *e = r->e;
    r->words_per_chunk = 0;
    for (int k = 0; k < e->output_count; k++)
        r->words_per_chunk += (uint32_t)words_of(r, k);
    r->chunks = ceil_div(r->n, (uint32_t)r->chunk);
    struct buf b;
    buf_init(&b, a);
    buf_printf(
        &b,
        ".version 8.8\n.target %s\n.address_size 64\n"
        ".visible .entry epilogue(.param .u64 p_acc, .param .u64 p_out, "
        ".param .u32 p_rows, .param .u32 p_m, .param .u32 p_n, .param .f32 p_alpha",
        r->target);
    for (int i = 0; i < e->input_count; i++) {
        const struct expr_input *in = &e->inputs[i];
        buf_printf(&b, ", .param .%s p_%s", in->kind == EXPR_SCALAR ? "b32" : "u64",
                   in->name);
        if (in->kind == EXPR_AUX)
            buf_printf(&b, ", .param .u64 pld_%s", in->name);
    }
    buf_printf(&b,
               ")\n{\n  .reg .b32 row, rows, col, m, n, alpha, x, v<%d>;\n"
               "  .reg .b64 acc, out, wide;\n  .reg .pred p;\n%s",
               r->chunk, l->decls);
    for (int i = 0; i < e->input_count; i++) {
        const struct expr_input *in = &e->inputs[i];
        buf_printf(&b, "  ld.param.%s arg_%s, [p_%s];\n",
                   in->kind == EXPR_SCALAR ? "b32" : "b64", in->name, in->name);
        if (in->kind == EXPR_AUX)
            buf_printf(&b, "  ld.param.b64 argld_%s, [pld_%s];\n", in->name, in->name);
    }
    buf_printf(&b,
               "  ld.param.b64 acc, [p_acc];\n  ld.param.b64 out, [p_out];\n"
               "  ld.param.b32 rows, [p_rows];\n  ld.param.b32 m, [p_m];\n"
               "  ld.param.b32 n, [p_n];\n  ld.param.b32 alpha, [p_alpha];\n"
               "  mov.u32 row, %%ctaid.x;\n  mov.u32 x, %%tid.x;\n"
               "  mad.lo.u32 row, row, %d, x;\n"
               "  setp.ge.u32 p, row, rows;\n  @p ret;\n"
               "  mul.wide.u32 wide, row, %zu;\n  add.u64 acc, acc, wide;\n"
               "  mul.wide.u32 wide, row, %u;\n  add.u64 out, out, wide;\n"
               "%s  mov.u32 col, 0;\nNEXT:\n",
               THREADS, 4 * lower_padded_cols(r), 4 * r->chunks * r->words_per_chunk,
               l->tile.text);
    for (int i = 0; i < r->chunk; i++)
        buf_printf(&b, "  ld.global.b32 v%d, [acc + %d];\n", i, 4 * i);
    buf_printf(&b,
               "  add.u32 x, col, %d;\n  setp.gt.u32 p, x, n;\n  @p bra TAIL;\n"
               "%s  bra STORE;\nTAIL:\n%sSTORE:\n",
               r->chunk, l->chunk.text, l->tail.text);
    put_stores(r, &b);
    buf_printf(&b,
               "  add.u64 acc, acc, %d;\n  add.u64 out, out, %u;\n"
               "  add.u32 col, col, %d;\n  setp.lt.u32 p, col, n;\n  @p bra NEXT;\n"
               "  ret;\n}\n",
               4 * r->chunk, 4 * r->words_per_chunk, r->chunk);
    return b.data;
}

/* ---- running */

static size_t input_bytes(const struct lower_run *r, const struct expr_input *in)
{
    size_t cols = in->columns == EXPR_PAIRS ? r->n / 2 : r->n;
    size_t elem_bytes = in->type >= EXPR_TYPE_BF16 ? 2 : 4;
    if (in->kind == EXPR_AUX)
        return r->m * lower_aux_stride_bytes(in, cols);
    return elem_bytes * (in->kind == EXPR_VEC_ROW ? r->m : cols);
}

static void put_params(struct emu_run *k, const struct lower_run *r, uint64_t acc,
                       uint64_t out)
{
    emu_param(k, &acc, 8);
    emu_param(k, &out, 8);
    emu_param(k, &r->rows, 4);
    emu_param(k, &r->m, 4);
    emu_param(k, &r->n, 4);
    emu_param(k, &r->alpha, 4);
    for (int i = 0; i < r->e->input_count; i++) {
        const struct expr_input *in = &r->e->inputs[i];
        if (in->kind == EXPR_SCALAR) {
            emu_param(k, &r->scalars[i], 4);
            continue;
        }
        size_t bytes = input_bytes(r, in); /* exactly: what is beside it is reported */
        uint64_t address = emu_alloc(k, bytes);
        memcpy(emu_bytes(address), r->vectors[i], bytes);
        emu_param(k, &address, 8);
        if (in->kind == EXPR_AUX) {
            uint64_t stride =
                lower_aux_stride_bytes(in, in->columns == EXPR_PAIRS ? r->n / 2 : r->n);
            emu_param(k, &stride, 8);
        }
    }
}

void lower_run(struct arena *a, struct lower_run *r)
{
    struct emu_run k = {.ptx = lower_kernel(a, r), .threads = THREADS};
    k.grid[0] = ceil_div(r->rows, THREADS);
    size_t acc_bytes = 4 * lower_padded_cols(r) * r->rows;
    size_t out_bytes = 4 * (size_t)r->rows * r->chunks * r->words_per_chunk;
    uint64_t acc = emu_alloc(&k, acc_bytes), out = emu_alloc(&k, out_bytes);
    memcpy(emu_bytes(acc), r->acc, acc_bytes);
    memset(emu_bytes(out), 0xee, out_bytes);
    put_params(&k, r, acc, out);
    if (!emu_launch(&k))
        test_fail(__FILE__, __LINE__, "%s%s\n%s", emu_report(&k), emu_refusal(&k),
                  k.ptx);
    r->words = ARENA_ARRAY(a, uint32_t, out_bytes / 4);
    memcpy(r->words, emu_bytes(out), out_bytes);
    emu_done(&k);
}

/* Word 0 of output k in a chunk. */
static const uint32_t *words_at(const struct lower_run *r, int k, uint32_t row,
                                uint32_t chunk)
{
    const uint32_t *w =
        r->words + ((size_t)row * r->chunks + chunk) * r->words_per_chunk;
    for (int i = 0; i < k; i++)
        w += words_of(r, i);
    return w;
}

void lower_codes(const struct lower_run *r, int k, uint32_t row, uint32_t *codes,
                 uint8_t *scales)
{
    const struct expr_output *o = &r->e->outputs[k];
    const int bits = expr_bits(o->format), block = expr_scale_block(o->format);
    const int cols = expr_out_cols(o, r->chunk);
    for (uint32_t c = 0; c < r->chunks; c++) {
        const uint32_t *w = words_at(r, k, row, c);
        for (int i = 0; i < cols; i++) {
            uint32_t word = w[i * bits / 32] >> (i * bits % 32);
            *codes++ = bits == 32 ? word : word & ((1u << bits) - 1);
        }
        for (int b = 0; block && b < cols / block; b++)
            *scales++ = (uint8_t)(w[lower_words(o, r->chunk) + b / 4] >> (8 * (b % 4)));
    }
}

/* ---- comparing */

static uint32_t widened(const struct expr_input *in, const void *data, size_t i)
{
    uint32_t bits;
    if (in->type < EXPR_TYPE_BF16) {
        memcpy(&bits, (const uint8_t *)data + 4 * i, 4);
        return bits;
    }
    uint16_t half;
    memcpy(&half, (const uint8_t *)data + 2 * i, 2);
    float x = in->type == EXPR_TYPE_BF16 ? bf16_decode(half) : f16_decode(half);
    memcpy(&bits, &x, 4);
    return bits;
}

/* What row `row` sees of the inputs; rows from m on see row m - 1, columns the last. */
static void fill_args(struct arena *a, const struct lower_run *r, uint32_t row,
                      struct expr_arg *args)
{
    uint32_t inside = row < r->m ? row : r->m - 1;
    for (int i = 0; i < r->e->input_count; i++) {
        const struct expr_input *in = &r->e->inputs[i];
        args[i].value = in->kind == EXPR_VEC_ROW ? widened(in, r->vectors[i], inside)
                                                 : r->scalars[i];
        if (in->kind != EXPR_VEC_COL && in->kind != EXPR_AUX)
            continue;
        bool pairs = in->columns == EXPR_PAIRS;
        size_t cols = pairs ? r->n / 2 : r->n;
        size_t padded = lower_padded_cols(r) / (pairs ? 2 : 1);
        const uint8_t *data = r->vectors[i];
        if (in->kind == EXPR_AUX)
            data += inside * lower_aux_stride_bytes(in, cols);
        uint32_t *values = ARENA_ARRAY(a, uint32_t, padded);
        for (size_t c = 0; c < padded; c++)
            values[c] = widened(in, data, c < cols ? c : cols - 1);
        args[i].values = values;
    }
}

static bool is_nan32(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

static void compare_row(struct arena *a, const struct lower_run *r, uint32_t row)
{
    size_t padded = lower_padded_cols(r);
    struct expr_arg args[EXPR_MAX_INPUTS];
    struct expr_values want[EXPR_MAX_OUTPUTS];
    fill_args(a, r, row, args);
    struct expr_row input = {.cols = (int)padded,
                             .row = row,
                             .m = r->m,
                             .n = r->n,
                             .alpha = r->alpha,
                             .acc = r->acc + row * padded,
                             .args = args};
    expr_eval(a, r->e, &input, want);
    uint32_t *codes = ARENA_ARRAY(a, uint32_t, padded);
    uint8_t *scales = ARENA_ARRAY(a, uint8_t, padded);
    for (int k = 0; k < r->e->output_count; k++) {
        const struct expr_output *o = &r->e->outputs[k];
        int block = expr_scale_block(o->format);
        if (o->format == EXPR_OUT_AMAX) {
            float got = 0;
            for (uint32_t c = 0; c < r->chunks; c++) {
                float x;
                memcpy(&x, words_at(r, k, row, c), 4);
                got = x > got ? x : got;
            }
            if (memcmp(&got, &want[k].amax, 4) != 0)
                test_fail(__FILE__, __LINE__, "amax of row %u: %a, expected %a", row,
                          (double)got, (double)want[k].amax);
            continue;
        }
        lower_codes(r, k, row, codes, scales);
        int cols = expr_out_cols(o, (int)padded);
        for (int i = 0; block && i < cols / block; i++)
            if (scales[i] != want[k].scales[i])
                test_fail(__FILE__, __LINE__,
                          "%s: row %u, block %d: scale 0x%02x, expected 0x%02x",
                          r->target, row, i, scales[i], want[k].scales[i]);
        for (int i = 0; i < cols; i++)
            if (codes[i] != want[k].codes[i] &&
                !(o->format == EXPR_OUT_F32 && is_nan32(codes[i]) &&
                  is_nan32(want[k].codes[i])))
                test_fail(
                    __FILE__, __LINE__,
                    "%s: output %d, row %u, column %d: 0x%x, expected 0x%x; acc %a",
                    r->target, k, row, i, codes[i], want[k].codes[i],
                    (double)input.acc[cols == (int)padded ? i : 0]);
    }
}

void lower_run_check(struct arena *a, struct lower_run *r)
{
    lower_run(a, r);
    for (uint32_t row = 0; row < r->rows; row++) {
        struct arena *scratch = arena_new();
        compare_row(scratch, r, row);
        arena_free(scratch);
    }
}

/* ---- the assembler */

static const char *find_ptxas(struct arena *a)
{
    const char *home = getenv("CUDA_HOME");
    const char *guesses[] = {home ? arena_printf(a, "%s/bin/ptxas", home) : "",
                             "/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"};
    for (size_t i = 0; i < COUNT_OF(guesses); i++)
        if (*guesses[i] && access(guesses[i], X_OK) == 0)
            return guesses[i];
    return NULL;
}

/* Our own checker has its say first. */
static void check_text(struct arena *a, const char *text)
{
    struct diags *d = diags_new(a);
    struct ptx_module *m = ptx_parse(a, "epilogue.ptx", text, strlen(text), d);
    if (m && ptx_check(m, d))
        return;
    struct buf b;
    buf_init(&b, a);
    diag_format(d->first, text, &b);
    test_fail(__FILE__, __LINE__, "%s", b.data);
}

bool lower_assemble(struct arena *a, const char *text, const char *target)
{
    check_text(a, text);
    const char *ptxas = find_ptxas(a);
    if (!ptxas)
        return false;
    static const char *path; /* one file, written again and again */
    path = path ? path : test_tmp_path("epilogue.ptx");
    if (!file_write(path, text, strlen(text)))
        test_fail(__FILE__, __LINE__, "cannot write %s", path);
    const char *command =
        arena_printf(a, "%s -arch=%s -o /dev/null %s", ptxas, target, path);
    if (system(command) != 0)
        test_fail(__FILE__, __LINE__, "ptxas refuses, for %s:\n%s", target, text);
    return true;
}
