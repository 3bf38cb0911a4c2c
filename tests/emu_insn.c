#include "tests/emu_insn.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/emu_run.h"
#include "tests/test.h"

#define BLOCK 256u
#define KEPT 0x5a /* low byte of what the destination holds beforehand */

static int source_count(const struct emu_insn *i)
{
    return (int)strlen(i->types) - 1;
}

static void declare(struct buf *b, int k, char type)
{
    buf_printf(b, ".reg .%s x%d;\n",
               type == 'p'   ? "pred"
               : type == 'b' ? "b8"
               : type == 'h' ? "b16"
               : type == 'd' ? "b64"
                             : "b32",
               k);
}

static int bits_of(char type)
{
    return type == 'b' ? 8 : type == 'h' ? 16 : type == 'd' ? 64 : 32;
}

static void load(struct buf *b, int k, char type, int offset)
{
    if (type == 'p')
        buf_printf(b, "ld.global.b32 t, [a+%d]; setp.ne.b32 x%d, t, 0;\n", offset, k);
    else
        buf_printf(b, "ld.global.b%d x%d, [a+%d];\n", bits_of(type), k, offset);
}

static void substitute(struct buf *b, const char *text, bool guarded)
{
    if (guarded && !strchr(text, '@'))
        buf_puts(b, "@q ");
    for (const char *s = text; *s; s++) {
        if (*s == '@')
            buf_puts(b, guarded ? "@q " : "");
        else if (*s == '%' && s[1] >= '0' && s[1] <= '9')
            buf_printf(b, "x%c", *++s);
        else
            buf_add(b, s, 1);
    }
}

static const char *kernel_text(struct arena *arena, const struct emu_insn *i,
                               bool guarded)
{
    struct buf b;
    buf_init(&b, arena);
    buf_puts(&b, ".version 8.8\n.target sm_100a\n.address_size 64\n"
                 ".visible .entry one(.param .u64 in, .param .u64 out)\n{\n"
                 ".reg .b32 t, u, v; .reg .b64 a, o, g; .reg .pred q;\n"
                 "mov.u32 t, %tid.x; mov.u32 u, %ctaid.x; mov.u32 v, %ntid.x;\n"
                 "mad.lo.u32 t, u, v, t; rem.u32 u, t, 3; setp.ne.u32 q, u, 0;\n"
                 "ld.param.u64 a, [in]; mad.wide.u32 a, t, 32, a;\n"
                 "ld.param.u64 o, [out]; mad.wide.u32 o, t, 8, o;\n");
    for (int k = 0; i->types[k]; k++)
        declare(&b, k, i->types[k]);
    load(&b, 0, i->types[0], 0); /* any value */
    if (i->types[0] == 'p')
        buf_puts(&b, "setp.ne.b32 x0, 0, 0;\n");
    else
        buf_printf(&b,
                   "{ .reg .b64 k; mov.b64 k, %d; st.global.b64 [o], k; "
                   "ld.global.b%d x0, [o]; }\n",
                   KEPT, bits_of(i->types[0]));
    buf_puts(&b, "mov.b64 g, 0; st.global.b64 [o], g;\n");
    for (int k = 1; i->types[k]; k++)
        load(&b, k, i->types[k], (k - 1) * 8);
    substitute(&b, i->text, guarded);
    if (i->types[0] == 'p')
        buf_puts(&b, "\nselp.b32 t, 1, 0, x0; st.global.b32 [o], t;\n");
    else
        buf_printf(&b, "\nst.global.b%d [o], x0;\n", bits_of(i->types[0]));
    buf_puts(&b, "ret;\n}\n");
    return b.data;
}

static void launch(const struct emu_insn *insn, size_t count,
                   const uint64_t operands[][EMU_INSN_SOURCES], uint64_t *results,
                   bool guarded, uint64_t seed)
{
    struct arena *arena = arena_new();
    size_t padded = (count + BLOCK - 1) / BLOCK * BLOCK;
    struct emu_run r = {.ptx = kernel_text(arena, insn, guarded),
                        .threads = BLOCK,
                        .perturb = seed != 0,
                        .seed = seed};
    r.grid[0] = (uint32_t)(padded / BLOCK);
    uint64_t in = emu_alloc(&r, padded * sizeof operands[0]);
    uint64_t out = emu_alloc(&r, padded * sizeof *results);
    memcpy(emu_bytes(in), operands, count * sizeof operands[0]);
    /* Threads beyond the last set repeat it: divisors must not be 0 there. */
    for (size_t i = count; i < padded; i++)
        memcpy(emu_bytes(in) + i * sizeof operands[0], operands[count - 1],
               sizeof operands[0]);
    emu_param(&r, &in, 8);
    emu_param(&r, &out, 8);
    EMU_FINE(&r);
    memcpy(results, emu_bytes(out), count * sizeof *results);
    emu_done(&r);
    arena_free(arena);
}

void emu_insn_run_perturbed(const struct emu_insn *insn, uint64_t seed, size_t count,
                            const uint64_t operands[][EMU_INSN_SOURCES],
                            uint64_t *results)
{
    uint64_t *guarded = calloc(count, sizeof *guarded);
    if (!guarded)
        abort();
    launch(insn, count, operands, results, false, seed);
    launch(insn, count, operands, guarded, true, seed);
    uint64_t kept = insn->types[0] == 'p' ? 0 : KEPT;
    for (size_t i = 0; i < count; i++) {
        uint64_t want = i % 3 ? results[i] : kept;
        if (guarded[i] != want)
            test_fail(__FILE__, __LINE__,
                      "%s: under a guard, set %zu gives 0x%llx, not 0x%llx", insn->text,
                      i, (unsigned long long)guarded[i], (unsigned long long)want);
    }
    free(guarded);
}

void emu_insn_run(const struct emu_insn *insn, size_t count,
                  const uint64_t operands[][EMU_INSN_SOURCES], uint64_t *results)
{
    emu_insn_run_perturbed(insn, 0, count, operands, results);
}

size_t emu_insn_product(const struct emu_insn *insn, const uint64_t *values,
                        size_t value_count, const uint64_t *last, size_t last_count,
                        uint64_t (**operands)[EMU_INSN_SOURCES])
{
    int sources = source_count(insn);
    size_t count = 1, each[EMU_INSN_SOURCES];
    for (int k = 0; k < sources; k++) {
        bool is_last = last && k == sources - 1;
        each[k] = insn->types[k + 1] == 'p' ? 2 : is_last ? last_count : value_count;
        count *= each[k];
    }
    *operands = calloc(count, sizeof **operands);
    if (!*operands)
        abort();
    for (size_t i = 0; i < count; i++) {
        size_t rest = i;
        for (int k = 0; k < sources; k++) {
            size_t pick = rest % each[k];
            rest /= each[k];
            bool is_last = last && k == sources - 1;
            (*operands)[i][k] = insn->types[k + 1] == 'p' ? pick
                                : is_last                 ? last[pick]
                                                          : values[pick];
        }
    }
    return count;
}

void emu_insn_check(const char *file, int line, const struct emu_insn *insn,
                    const uint64_t *values, size_t value_count, const uint64_t *last,
                    size_t last_count, emu_want *want)
{
    uint64_t(*operands)[EMU_INSN_SOURCES];
    size_t count =
        emu_insn_product(insn, values, value_count, last, last_count, &operands);
    uint64_t *results = calloc(count, sizeof *results);
    if (!results)
        abort();
    emu_insn_run(insn, count, (const uint64_t(*)[EMU_INSN_SOURCES])operands, results);
    for (size_t i = 0; i < count; i++) {
        uint64_t cut[EMU_INSN_SOURCES] = {0};
        for (int k = 0; k < source_count(insn); k++) {
            int bits = bits_of(insn->types[k + 1]);
            cut[k] = bits == 64 ? operands[i][k]
                                : operands[i][k] & (((uint64_t)1 << bits) - 1);
        }
        uint64_t w = want(cut);
        if (results[i] != w)
            test_fail(file, line,
                      "%s with 0x%llx 0x%llx 0x%llx gives 0x%llx, not 0x%llx",
                      insn->text, (unsigned long long)cut[0],
                      (unsigned long long)cut[1], (unsigned long long)cut[2],
                      (unsigned long long)results[i], (unsigned long long)w);
    }
    free(results);
    free(operands);
}
