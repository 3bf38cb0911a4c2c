/* The lexer and the parser of core/ptx*.c: what a text becomes, and how it is refused.
 */
#include "core/ptx.h"

#include <string.h>

#include "core/ptx_names.h"
#include "tests/test.h"

#define HEAD ".version 8.8\n.target sm_100f\n.address_size 64\n" /* three lines */

static struct ptx_module *parse(struct arena *a, struct diags *d, const char *text)
{
    return ptx_parse(a, "t.ptx", text, strlen(text), d);
}

/* The kernel `k` whose body is `body`; line 5 of the text is the body's first. */
static const struct ptx_func *kernel(struct arena *a, struct diags *d, const char *body)
{
    const char *text = arena_printf(
        a, HEAD ".visible .entry k(.param .u64 kp, .param .u32 kn) {\n%s\n}\n", body);
    const struct ptx_module *m = parse(a, d, text);
    return m ? ptx_find_func(m, "k") : NULL;
}

static void show(const struct diags *d)
{
    for (const struct diag *g = d->first; g; g = g->next)
        test_fail(g->loc.file ? g->loc.file : "-", g->loc.line, "%s", g->text);
}

static const struct ptx_func *good(struct arena *a, const char *body)
{
    struct diags *d = diags_new(a);
    const struct ptx_func *f = kernel(a, d, body);
    show(d);
    CHECK(f);
    return f;
}

/* ---- tables */

TEST(every_spelling_leads_back_to_its_own_id)
{
    for (int i = 0; i < PTX_OP_COUNT; i++) {
        const char *s = ptx_op_spelling((enum ptx_op)i);
        CHECK_EQ(ptx_find_op(s, (int)strlen(s)), i);
    }
    for (int i = 1; i < PTX_TYPE_COUNT; i++) {
        const char *s = ptx_type_spelling((enum ptx_type)i);
        CHECK_EQ(ptx_find_type(s, (int)strlen(s)), i);
        CHECK(ptx_type_bits((enum ptx_type)i) > 0);
    }
    for (int i = 1; i < PTX_MOD_COUNT; i++) {
        const char *s = ptx_mod_spelling((enum ptx_mod)i);
        CHECK_EQ(ptx_find_mod(s, (int)strlen(s)), i);
        CHECK(!ptx_find_type(s, (int)strlen(s)));
    }
    CHECK_EQ(ptx_find_op("tcgen05", 7), -1);
    CHECK_EQ(ptx_find_op("ad", 2), -1);
    CHECK_EQ(ptx_find_sreg("%tid.w", 6), -1);
}

/* ---- opcodes */

TEST(an_opcode_is_family_modifiers_types_vector_and_repeat)
{
    struct arena *a = arena_new();
    const struct ptx_func *f = good(
        a, ".reg .b32 r<9>; .reg .b64 d<4>; .reg .pred p;\n"
           "  ld.relaxed.gpu.global.L1::no_allocate.v4.b32 {r0,r1,r2,r3}, [d0];\n"
           "tcgen05.wait::ld.sync.aligned; tcgen05.wait::st.sync.aligned;\n"
           "ldmatrix.sync.aligned.x4.m8n8.trans.shared.b16 {r0,r1,r2,r3}, [r4];\n"
           "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
           "[r0], [d0, {r1, r2}], [r3];\n"
           "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
           ".f32.e2m1.e2m1.f32.ue4m3 {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1}, "
           "{r0,r1,r2,r3}, r0, {0,0}, r1, {0,0};\n"
           "fence.proxy.tensormap::generic.release.gpu;");
    CHECK_EQ(f->insn_count, 7);
    const struct ptx_insn *i = &f->insns[0];
    CHECK_EQ(i->op, PTX_LD);
    CHECK_STR(i->opcode, "ld.relaxed.gpu.global.L1::no_allocate.v4.b32");
    CHECK_EQ(i->line, 6);
    CHECK_EQ(i->col, 3);
    CHECK_EQ(i->vector, 4);
    CHECK_EQ(i->repeat, 0);
    CHECK_EQ(i->type_count, 1);
    CHECK_EQ(i->types[0], PTX_T_B32);
    CHECK_EQ(i->mod_count, 4);
    CHECK_EQ(i->mods[0], PTX_M_RELAXED);
    CHECK_EQ(i->mods[3], PTX_M_L1_NO_ALLOCATE);
    CHECK(ptx_has(i, PTX_M_GPU));
    CHECK(!ptx_has(i, PTX_M_SYS));
    CHECK_EQ(f->insns[1].op, PTX_TCGEN05_WAIT);
    CHECK(ptx_has(&f->insns[1], PTX_M_LD));
    CHECK(ptx_has(&f->insns[2], PTX_M_ST));
    CHECK_EQ(f->insns[3].repeat, 4);
    CHECK(ptx_has(&f->insns[3], PTX_M_TRANS));
    CHECK_EQ(f->insns[4].op, PTX_CP_ASYNC_BULK_TENSOR);
    CHECK(ptx_has(&f->insns[4], PTX_M_2D));
    CHECK_EQ(f->insns[5].op, PTX_MMA);
    CHECK_EQ(f->insns[5].type_count, 5);
    CHECK_EQ(f->insns[5].types[4], PTX_T_UE4M3);
    CHECK_EQ(f->insns[6].op, PTX_FENCE_PROXY);
    CHECK(ptx_has(&f->insns[6], PTX_M_TENSORMAP_GENERIC));
    arena_free(a);
}

TEST(blanks_may_part_an_opcode)
{
    struct arena *a = arena_new();
    const struct ptx_func *f = good(
        a, ".reg .b32 r; .reg .b64 d; ld.global .u32 r, [d]; ld.global.u32 r, [d];");
    CHECK_STR(f->insns[0].opcode, "ld.global.u32");
    CHECK(f->insns[0].opcode == f->insns[1].opcode);
    arena_free(a);
}

/* ---- operands */

TEST(numbers_in_all_their_forms)
{
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {
        {"42", 42},
        {"0", 0},
        {"017", 15},
        {"0x1F", 31},
        {"0b101", 5},
        {"5U", 5},
        {"-3", -3},
        {"0xffffffffffffffff", -1},
        {"0x8000000000000000U", INT64_MIN},
        {"WARP_SZ", 0},
        {"1 + 2 * 3", 7},
        {"(1 << 4) | 3", 19},
        {"7 / 2 - 9 % 4", 2},
        {"3 > 2 ? 4 : 5", 4},
        {"~0", -1},
        {"!5", 0},
        {"-(.s64)8 >> 1", -4},
        {"1 == 1 && 2 != 2 || 4 >= 4", 1},
        {"6 ^ 3 & 1", 7},
    };
    struct arena *a = arena_new();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct ptx_func *f =
            good(a, arena_printf(a, ".reg .b64 d; mov.b64 d, %s;", rows[i].text));
        const struct ptx_operand *o = &f->insns[0].operands[1];
        if (o->kind == PTX_OPND_SREG) {
            CHECK_EQ(o->sreg, PTX_S_WARP_SZ);
            continue;
        }
        CHECK_EQ(o->kind, PTX_OPND_IMM);
        CHECK_EQ(o->imm, rows[i].value);
        CHECK(!o->is_float);
    }
    arena_free(a);
}

TEST(float_literals_take_the_width_of_their_instruction)
{
    static const struct {
        const char *insn;
        uint64_t bits;
    } rows[] = {
        {"mov.f32 f, 0f3F800000", 0x3f800000},
        {"mov.b32 f, 0F3f800000", 0x3f800000},
        {"mov.f32 f, 0d3FF0000000000000", 0x3f800000},
        {"mov.f32 f, 1.5", 0x3fc00000},
        {"mov.f32 f, -1.5e1", 0xc1700000},
        {"mov.f64 g, 0f3F800000", 0x3ff0000000000000},
        {"mov.f64 g, 1.0", 0x3ff0000000000000},
        {"mov.f64 g, 1.0 + 0.5 * 2.0", 0x4000000000000000},
        {"mov.b64 d, 0d3FF0000000000000", 0x3ff0000000000000},
        {"mov.f32 f, 0f7FC01234", 0x7fc01234}, /* a NaN keeps its payload */
        {"cvt.rn.f32.f64 f, 0f3F800000", 0x3ff0000000000000},
    };
    struct arena *a = arena_new();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct ptx_func *f =
            good(a, arena_printf(a, ".reg .f32 f; .reg .f64 g; .reg .b64 d; %s;",
                                 rows[i].insn));
        const struct ptx_operand *o = &f->insns[0].operands[1];
        CHECK(o->is_float);
        CHECK_EQ((uint64_t)o->imm, rows[i].bits);
    }
    arena_free(a);
}

TEST(addresses_have_a_base_and_an_offset)
{
    struct arena *a = arena_new();
    const struct ptx_func *f = good(
        a, ".reg .b64 d; .reg .b32 r; .shared .b32 sh[4];\n"
           "ld.global.b32 r, [d]; ld.global.b32 r, [d+8]; ld.global.b32 r, [d+-8];\n"
           "ld.shared.b32 r, [sh+4]; ld.param.b32 r, [kn]; ld.local.b32 r, [16];\n"
           "mov.b32 r, sh; mov.b64 d, sh+12; ld.global.b32 r, [d + 4 * 2 + 0x10];");
    const struct ptx_insn *i = f->insns;
    CHECK_EQ(i[0].operands[1].kind, PTX_OPND_ADDR);
    CHECK_STR(f->regs[i[0].operands[1].reg].name, "d");
    CHECK_EQ(i[0].operands[1].imm, 0);
    CHECK_EQ(i[1].operands[1].imm, 8);
    CHECK_EQ(i[2].operands[1].imm, -8);
    CHECK_EQ(i[3].operands[1].reg, -1);
    CHECK_STR(i[3].operands[1].var->name, "sh");
    CHECK_EQ(i[3].operands[1].imm, 4);
    CHECK(i[4].operands[1].var == f->params[1]);
    CHECK_EQ(i[5].operands[1].imm, 16);
    CHECK(!i[5].operands[1].var);
    CHECK_EQ(i[6].operands[1].kind, PTX_OPND_VAR);
    CHECK_EQ(i[7].operands[1].imm, 12);
    CHECK_EQ(i[8].operands[1].imm, 24);
    arena_free(a);
}

TEST(tensor_pair_vector_sink_and_negated_operands)
{
    struct arena *a = arena_new();
    const struct ptx_func *f =
        good(a, ".reg .b64 d; .reg .b32 r<4>; .reg .pred p<3>;\n"
                "cp.async.bulk.prefetch.tensor.3d.L2.global [d+64, {r1, 7, r2}];\n"
                "elect.sync _|p1, -1; setp.eq.and.u32 p0|p1, r0, 1, !p2;\n"
                "mov.b64 {r0, _}, d; @!p1 mov.b32 r0, %laneid;");
    const struct ptx_operand *t = &f->insns[0].operands[0];
    CHECK_EQ(t->kind, PTX_OPND_TENSOR);
    CHECK_EQ(t->item_count, 4);
    CHECK_EQ(t->items[0].kind, PTX_OPND_REG);
    CHECK_EQ(t->items[0].imm, 64);
    CHECK_EQ(t->items[2].imm, 7);
    const struct ptx_operand *e = f->insns[1].operands;
    CHECK_EQ(e->kind, PTX_OPND_PAIR);
    CHECK_EQ(e->items[0].kind, PTX_OPND_SINK);
    CHECK_EQ(e->items[1].kind, PTX_OPND_REG);
    CHECK_EQ(f->insns[2].operands[0].kind, PTX_OPND_PAIR);
    CHECK(f->insns[2].operands[3].negated);
    CHECK_EQ(f->insns[3].operands[0].kind, PTX_OPND_VECTOR);
    CHECK_EQ(f->insns[3].operands[0].items[1].kind, PTX_OPND_SINK);
    CHECK_STR(f->regs[f->insns[4].guard].name, "p1");
    CHECK(f->insns[4].guard_negated);
    CHECK_EQ(f->insns[4].operands[1].sreg, PTX_S_LANEID);
    CHECK_EQ(f->insns[3].guard, -1);
    arena_free(a);
}

TEST(a_list_may_have_128_registers)
{
    struct arena *a = arena_new();
    struct buf b;
    buf_init(&b, a);
    buf_puts(&b, ".reg .b32 %r<129>; .reg .b32 t;\n"
                 "tcgen05.ld.sync.aligned.32x32b.x128.b32 {");
    for (int i = 0; i < 128; i++)
        buf_printf(&b, "%s%%r%d", i ? ", " : "", i + 1);
    buf_puts(&b, "}, [t];");
    const struct ptx_func *f = good(a, b.data);
    CHECK_EQ(f->insns[0].operands[0].item_count, 128);
    CHECK_EQ(f->insns[0].repeat, 128);
    CHECK_STR(f->regs[f->insns[0].operands[0].items[127].reg].name, "%r128");
    arena_free(a);
}

/* ---- scopes */

TEST(labels_and_registers_are_those_of_the_innermost_scope)
{
    struct arena *a = arena_new();
    const struct ptx_func *f = good(a, ".reg .b32 r; .reg .pred p;\n"
                                       "{ .reg .b32 r; W: mov.b32 r, 1; bra W; }\n"
                                       "{ .reg .f32 r; mov.b32 r, 1; W: bra W; }\n"
                                       "W: { bra W; bra E; } mov.b32 r, 2; E:");
    CHECK_EQ(f->reg_count, 4);
    CHECK_EQ(f->insns[1].operands[0].target, 0);
    CHECK_EQ(f->insns[3].operands[0].target, 3);
    CHECK_EQ(f->insns[4].operands[0].target, 4);
    CHECK_EQ(f->insns[5].operands[0].target, f->insn_count);
    CHECK_EQ(f->regs[f->insns[0].operands[0].reg].line, 6);
    CHECK_EQ(f->regs[f->insns[2].operands[0].reg].type, PTX_T_F32);
    CHECK_EQ(f->insns[6].operands[0].reg, 0);
    arena_free(a);
}

/* A label defined later in the inner scope hides the outer one that came before. */
TEST(a_later_label_of_the_inner_scope_hides_an_outer_one)
{
    struct arena *a = arena_new();
    const struct ptx_func *f = good(a, "L: { bra L; L: exit; } bra L;");
    CHECK_EQ(f->insns[0].operands[0].target, 1);
    CHECK_EQ(f->insns[2].operands[0].target, 0);
    arena_free(a);
}

TEST(an_inner_label_is_not_seen_outside)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    CHECK(!kernel(a, d, "{ L: exit; }\n  bra L;"));
    CHECK_DIAG(d, "ptx-no-label", 6);
    CHECK_EQ(d->first->loc.col, 7);
    arena_free(a);
}

TEST(register_ranges_and_lists)
{
    struct arena *a = arena_new();
    const struct ptx_func *f =
        good(a, ".reg .b32 %r<3>, x, $y; .reg .pred %p<12>; mov.pred %p11, 1;");
    CHECK_EQ(f->reg_count, 17);
    CHECK_STR(f->regs[2].name, "%r2");
    CHECK_STR(f->regs[16].name, "%p11");
    CHECK_EQ(f->insns[0].operands[0].reg, 16);
    arena_free(a);
}

/* ---- functions */

TEST(parameters_lie_at_aligned_offsets)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    const struct ptx_module *m =
        parse(a, d,
              HEAD ".visible .entry k(.param .u8 a, .param .u32 b,\n"
                   "  .param .align 64 .b8 map[128], .param .u16 c,\n"
                   "  .param .u64 .ptr .global .align 16 p, .param .v4 .f32 v)\n"
                   ".reqntid 192, 1, 1 .minnctapersm 2 .maxnreg 128\n"
                   ".reqnctapercluster 2, 1, 1 .explicitcluster\n"
                   "{ ret; }\n"
                   ".entry other(.param .u64 x) .maxntid 256 { ret; }\n"
                   ".entry none() .maxntid 8, 4, 2 { ret; } .entry bare { ret; }\n");
    show(d);
    const struct ptx_func *f = ptx_find_func(m, "k");
    static const uint32_t offsets[] = {0, 4, 64, 192, 200, 208};
    CHECK_EQ(f->param_count, 6);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(f->params[i]->offset_bytes, offsets[i]);
    CHECK_EQ(f->param_bytes, 224);
    CHECK_EQ(f->params[2]->bytes, 128);
    CHECK_EQ(f->params[2]->align_bytes, 64);
    CHECK_EQ(f->params[2]->space, PTX_PARAM);
    CHECK(f->is_entry && f->has_body && f->explicit_cluster);
    CHECK_EQ(f->reqntid[0], 192);
    CHECK_EQ(f->reqntid[2], 1);
    CHECK_EQ(f->minnctapersm, 2);
    CHECK_EQ(f->maxnreg, 128);
    CHECK_EQ(f->reqnctapercluster[0], 2);
    CHECK_EQ(f->maxntid[0], 0);
    CHECK_EQ(f->line, 4);
    CHECK_EQ(ptx_find_func(m, "other")->maxntid[0], 256);
    CHECK_EQ(ptx_find_func(m, "other")->maxntid[1], 1);
    CHECK_EQ(ptx_find_func(m, "none")->maxntid[2], 2);
    CHECK_EQ(ptx_find_func(m, "bare")->param_count, 0);
    CHECK(!ptx_find_func(m, "nobody"));
    arena_free(a);
}

TEST(calls_name_results_callee_and_arguments)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    const struct ptx_module *m = parse(
        a, d,
        HEAD
        ".extern .func (.param .b32 r0) vprintf(.param .b64 p0, .param .b64 p1);\n"
        ".func (.reg .b32 out) twice(.reg .b32 in) { add.u32 out, in, in; ret; }\n"
        ".func nothing;\n"
        ".func nothing { ret; }\n"
        ".entry k() {\n"
        "  .reg .b32 x; .reg .b64 f;\n"
        "  { .param .b64 a0; .param .b64 a1; .param .b32 ret0;\n"
        "    st.param.b64 [a0+0], f; st.param.b64 [a1], f;\n"
        "    call.uni (ret0), vprintf, (a0, a1);\n"
        "    ld.param.b32 x, [ret0]; }\n"
        "  call (x), twice, (x);\n"
        "  call nothing;\n"
        "  mov.u64 f, twice;\n"
        "  proto: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b64 _);\n"
        "  call (x), f, (f, f), proto;\n"
        "}\n");
    show(d);
    const struct ptx_func *v = ptx_find_func(m, "vprintf"), *k = ptx_find_func(m, "k"),
                          *t = ptx_find_func(m, "twice");
    CHECK(!v->has_body && !v->is_entry);
    CHECK_EQ(v->return_count, 1);
    CHECK_EQ(v->params[1]->offset_bytes, 8);
    CHECK_EQ(t->params[0]->space, PTX_REG);
    CHECK_EQ(t->params[0]->reg, t->insns[0].operands[1].reg);
    CHECK_EQ(t->returns[0]->reg, t->insns[0].operands[0].reg);
    CHECK(ptx_find_func(m, "nothing")->has_body);
    CHECK_EQ(m->func_count, 4);
    const struct ptx_operand *o = k->insns[2].operands;
    CHECK_EQ(k->insns[2].operand_count, 3);
    CHECK_EQ(o[0].kind, PTX_OPND_VECTOR);
    CHECK_STR(o[0].items[0].var->name, "ret0");
    CHECK_EQ(o[0].items[0].var->space, PTX_PARAM);
    CHECK_EQ(o[1].kind, PTX_OPND_FUNC);
    CHECK_STR(o[1].name, "vprintf");
    CHECK_EQ(o[2].item_count, 2);
    CHECK_EQ(k->var_count, 3);
    CHECK_EQ(k->insns[4].operands[0].items[0].kind, PTX_OPND_REG);
    CHECK_EQ(k->insns[5].operands[0].item_count, 0);
    CHECK_EQ(k->insns[5].operands[2].item_count, 0);
    CHECK_EQ(k->insns[6].operands[1].kind, PTX_OPND_FUNC);
    CHECK_EQ(k->insns[7].operand_count, 4);
    CHECK_EQ(k->insns[7].operands[1].kind, PTX_OPND_REG);
    arena_free(a);
}

TEST(branch_targets_become_labels)
{
    struct arena *a = arena_new();
    const struct ptx_func *f = good(a, ".reg .b32 r;\n"
                                       "ts: .branchtargets A, B, A;\n"
                                       "brx.idx r, ts;\n"
                                       "A: exit; B: ret;");
    const struct ptx_operand *o = &f->insns[0].operands[1];
    CHECK_EQ(o->kind, PTX_OPND_VECTOR);
    CHECK_EQ(o->item_count, 3);
    CHECK_EQ(o->items[0].kind, PTX_OPND_LABEL);
    CHECK_EQ(o->items[0].target, 1);
    CHECK_EQ(o->items[1].target, 2);
    arena_free(a);
}

/* ---- variables */

TEST(variables_and_their_initialisers)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    const struct ptx_module *m =
        parse(a, d,
              HEAD ".extern .shared .align 1024 .b8 dyn[];\n"
                   ".visible .const .align 8 .b8 bytes[6] = {1, 0x22, 'x'};\n");
    CHECK(!m);
    CHECK_DIAG(d, "ptx-token", 5);
    d = diags_new(a);
    m = parse(a, d,
              HEAD ".extern .shared .align 1024 .b8 dyn[];\n"
                   ".visible .const .align 8 .b8 bytes[6] = {1, 0x22, 255};\n"
                   ".global .u16 grid[2][3] = {{1, 2, 3}, {4, 5}};\n"
                   ".global .f32 third = 0f3EAAAAAB; .global .f64 g[2] = {-1.5, 2.0};\n"
                   ".global .u64 where[3] = {bytes, generic(bytes)+0, dyn};\n");
    CHECK(!m);
    CHECK_DIAG(d, "ptx-syntax", 8); /* generic(bytes+0) is how it is spelled */
    d = diags_new(a);
    m = parse(a, d,
              HEAD ".extern .shared .align 1024 .b8 dyn[];\n"
                   ".visible .const .align 8 .b8 bytes[6] = {1, 0x22, 255};\n"
                   ".global .u16 grid[2][3] = {{1, 2, 3}, {4, 5}};\n"
                   ".global .f32 third = 0f3EAAAAAB; .global .f64 g[2] = {-1.5, 2.0};\n"
                   ".global .u64 where[3] = {bytes+2, generic(bytes), f};\n"
                   ".func f { ret; }\n");
    CHECK(!m); /* f is not declared yet */
    CHECK_DIAG(d, "ptx-undeclared", 8);
    d = diags_new(a);
    m = parse(
        a, d,
        HEAD
        ".extern .shared .align 1024 .b8 dyn[];\n"
        ".visible .const .align 8 .b8 bytes[6] = {1, 0x22, 255};\n"
        ".global .u16 grid[2][3] = {{1, 2, 3}, {4, 5}};\n"
        ".global .f32 third = 0f3EAAAAAB; .global .f64 g[2] = {-1.5, 2.0};\n"
        ".func f;\n"
        ".global .u64 where[3] = {bytes+2, generic(bytes), f};\n"
        ".global .v2 .b32 vec[2] = {{1, 2}, {3, 4}}; .global .b32 n[] = {7, 8, 9};\n"
        ".extern .global .b32 later; .global .b32 later = 5;\n");
    show(d);
    CHECK_EQ(m->var_count, 9);
    const struct ptx_var *v = m->vars[0];
    CHECK(v->is_extern);
    CHECK_EQ(v->space, PTX_SHARED);
    CHECK_EQ(v->align_bytes, 1024);
    CHECK_EQ(v->bytes, 0);
    CHECK(!v->init);
    v = m->vars[1];
    CHECK(v->is_visible);
    CHECK_EQ(v->space, PTX_CONST);
    CHECK_EQ(v->bytes, 6);
    CHECK_EQ(v->align_bytes, 8);
    CHECK(memcmp(v->init, "\x01\x22\xff\0\0\0", 6) == 0);
    v = m->vars[2];
    CHECK_EQ(v->bytes, 12);
    CHECK_EQ(v->align_bytes, 2);
    CHECK(memcmp(v->init, "\1\0\2\0\3\0\4\0\5\0\0\0", 12) == 0);
    CHECK(memcmp(m->vars[3]->init, "\xab\xaa\xaa\x3e", 4) == 0);
    double g[2];
    memcpy(g, m->vars[4]->init, sizeof g);
    CHECK(g[0] == -1.5 && g[1] == 2.0);
    v = m->vars[5];
    CHECK_EQ(v->reloc_count, 3);
    CHECK(v->relocs[0].var == m->vars[1]);
    CHECK_EQ(v->relocs[0].addend, 2);
    CHECK(!v->relocs[0].generic && v->relocs[1].generic);
    CHECK_EQ(v->relocs[1].offset_bytes, 8);
    CHECK_STR(v->relocs[2].func, "f");
    CHECK_EQ(m->vars[6]->bytes, 16);
    CHECK_EQ(m->vars[6]->align_bytes, 8);
    CHECK_EQ(m->vars[6]->init[12], 4);
    CHECK_EQ(m->vars[7]->bytes, 12);
    CHECK_EQ(m->vars[7]->init[8], 9);
    CHECK(!m->vars[8]->is_extern);
    CHECK_EQ(m->vars[8]->init[0], 5);
    arena_free(a);
}

TEST(variables_inside_a_function_are_its_own)
{
    struct arena *a = arena_new();
    const struct ptx_func *f =
        good(a, ".local .align 16 .b8 __local_depot0[48]; .shared .b64 bars[4];\n"
                "{ .shared .b32 bars; }");
    CHECK_EQ(f->var_count, 3);
    CHECK_EQ(f->vars[0]->space, PTX_LOCAL);
    CHECK_EQ(f->vars[0]->bytes, 48);
    CHECK_EQ(f->vars[1]->bytes, 32);
    arena_free(a);
}

/* ---- what compilers add */

TEST(debug_information_comments_and_pragmas_are_skipped)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    const struct ptx_module *m =
        parse(a, d,
              "// a comment\n/* another\n one */\n"
              ".version 8.8\n.target sm_100f, debug\n.address_size 64\n"
              "\t.file\t1 \"/src/x.cu\", 123, 456\n"
              ".pragma \"nounroll\";\n"
              ".visible .entry k()\n{\n"
              "  .loc 1 23 5\n"
              "  .loc\t1 24 9, function_name $L__info_string0, inlined_at 1 30 3\n"
              "  exit; // tail\n"
              "  .pragma \"used_bytes_mask 4\";\n"
              "$L__tmp0:\n  ret;\n}\n"
              "  .section\t.debug_str\n  {\n$L__info_string0:\n.b8 95,90,0 // _Z\n  }\n"
              "  .section .debug_loc { }\n");
    show(d);
    CHECK_EQ(ptx_find_func(m, "k")->insn_count, 2);
    CHECK_STR(m->target_name, "sm_100f");
    CHECK_EQ(m->version, 88);
    CHECK_EQ(ptx_find_func(m, "k")->insns[0].line, 13);
    arena_free(a);
}

/* ---- errors */

TEST(each_refusal_names_its_place)
{
    static const struct {
        const char *body, *code;
        int line, col;
    } rows[] = {
        {"  frob.b32 r, r;", "ptx-op", 5, 3},
        {"  add.q32 r, r, r;", "ptx-part", 5, 7},
        {"  add.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn r, r, r;", "ptx-long", 5, 3},
        {"  add.u32.u32.u32.u32.u32.u32 r, r, r;", "ptx-long", 5, 3},
        {"  add.u32 r r, r;", "ptx-syntax", 5, 13},
        {"  add.u32 r, , r;", "ptx-syntax", 5, 14},
        {"  add.u32 r, r, zz;", "ptx-undeclared", 5, 17},
        {"  mov.u32 r, %tid.q;", "ptx-undeclared", 5, 14},
        {"  .reg .b32 r;", "ptx-twice", 5, 13},
        {"L: exit;\nL: exit;", "ptx-twice", 6, 1},
        {"  .reg .b32 %laneid;", "ptx-sreg-name", 5, 13},
        {"  .reg .v4 .b32 w;", "ptx-reg-vector", 5, 8},
        {"  .reg .e4m3 w;", "ptx-syntax", 5, 8},
        {"  bra nowhere;", "ptx-no-label", 5, 7},
        {"  bra 5;", "ptx-syntax", 5, 7},
        {"L: exit; brx.idx r, L;", "ptx-label-kind", 5, 21},
        {"  ld.global.u32 r, [d-4];", "ptx-minus", 5, 22},
        {"  ld.global.u32 r, [%laneid];", "ptx-address", 5, 21},
        {"  ld.global.u32 r, [d;", "ptx-syntax", 5, 22},
        {"  call (r), r2d2, (r);", "ptx-undeclared", 5, 13},
        {"  call (r), kn, (r);", "ptx-callee", 5, 13},
        {"  mov.u32 r, 0x;", "ptx-token", 5, 14},
        {"  mov.u32 r, 09;", "ptx-token", 5, 14},
        {"  mov.u32 r, 12ab;", "ptx-token", 5, 14},
        {"  mov.u32 r, 99999999999999999999;", "ptx-token", 5, 14},
        {"  mov.f32 r, 0f3F8;", "ptx-token", 5, 14},
        {"  mov.f32 r, -0f3F800000;", "ptx-syntax", 5, 15},
        {"  mov.b64 d, 0f3F800000;", "ptx-constant", 5, 14},
        {"  mov.u32 r, 1 / 0;", "ptx-constant", 5, 16},
        {"  mov.u32 r, #;", "ptx-token", 5, 14},
        {"  mov.u32 r, \x01;", "ptx-token", 5, 14},
        {"  .shared .b32 n[];", "ptx-no-size", 5, 16},
        {"  .shared .b32 n[0];", "ptx-constant", 5, 18},
        {"  .shared .pred n;", "ptx-constant", 5, 11},
        {"  .shared .align 3 .b8 n[4];", "ptx-constant", 5, 18},
        {"  .shared .b32 n = 5;", "ptx-syntax", 5, 18},
        {"  .global .b32 n[2] = {1,2,3};", "ptx-init", 5, 28},
        {"  .global .f32 n = 5;", "ptx-constant", 5, 20},
        {"  .reg .b32 big<2000000>;", "ptx-too-large", 5, 17},
        {"  .shared .b8 big[2000000000];", "ptx-too-large", 5, 19},
        {"  @r2d2 exit;", "ptx-undeclared", 5, 4},
        {"  @r ;", "ptx-syntax", 5, 6},
        {"  ;", "ptx-syntax", 5, 3},
        {"  .frob 5;", "ptx-syntax", 5, 3},
        {"  5;", "ptx-syntax", 5, 3},
        {"  exit exit;", "ptx-undeclared", 5, 8},
    };
    struct arena *a = arena_new();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct diags *d = diags_new(a);
        const char *body = arena_printf(a, "%s\n.reg .u32 zzz;", rows[i].body);
        const char *text = arena_printf(
            a,
            ".version 8.8\n.target sm_100f\n.visible .entry k(.param .u32 kn)"
            "\n{ .reg .b32 r; .reg .b64 d;\n%s\n}\n",
            body);
        if (parse(a, d, text))
            test_fail(__FILE__, __LINE__, "accepted: %s", rows[i].body);
        if (d->count != 1 ||
            strcmp(diag_code_name(d->first->code), rows[i].code) != 0 ||
            d->first->loc.line != rows[i].line || d->first->loc.col != rows[i].col)
            test_fail(__FILE__, __LINE__, "%s: %d messages, %s at %d:%d: %s",
                      rows[i].body, d->count, diag_code_name(d->first->code),
                      d->first->loc.line, d->first->loc.col, d->first->text);
        CHECK_STR(d->first->loc.file, "t.ptx");
    }
    arena_free(a);
}

TEST(modules_that_are_none)
{
    static const struct {
        const char *text, *code;
        int line;
    } rows[] = {
        {"", "ptx-not-ptx", 1},
        {"hello\n", "ptx-not-ptx", 1},
        {"\x7f"
         "ELF",
         "ptx-not-ptx", 1},
        {".version 8.8\n", "ptx-cut", 2},
        {".version eight\n", "ptx-syntax", 1},
        {".version 8.8\n.address_size 64\n", "ptx-syntax", 2},
        {HEAD ".address_size 32\n", "ptx-address-size", 4},
        {HEAD ".version 8.8\n", "ptx-syntax", 4},
        {HEAD "add.u32 r, r, r;\n", "ptx-syntax", 4},
        {HEAD ".entry k() { ret; }\n.entry k() { ret; }\n", "ptx-twice", 5},
        {HEAD ".entry k(.param .u32) { ret; }\n", "ptx-syntax", 4},
        {HEAD ".entry k(.param .u32 a, .param .u32 a) { ret; }\n", "ptx-twice", 4},
        {HEAD ".entry k() .reqntid 0 { ret; }\n", "ptx-constant", 4},
        {HEAD ".entry k() .reqntid 1,1,1,1 { ret; }\n", "ptx-syntax", 4},
        {HEAD ".visible .reg .b32 r;\n", "ptx-syntax", 4},
        {HEAD ".section .debug_str { .b8 1\n", "ptx-cut", 4},
        {HEAD "/* open\n", "ptx-token", 4},
    };
    struct arena *a = arena_new();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct diags *d = diags_new(a);
        CHECK(!parse(a, d, rows[i].text));
        CHECK_DIAG(d, rows[i].code, rows[i].line);
        CHECK_EQ(d->count, 1);
    }
    arena_free(a);
}

TEST(one_error_per_statement_and_then_on)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    CHECK(!kernel(a, d,
                  ".reg .b32 r;\n"
                  "mov.u32 r, q1;\n"
                  "mov.u32 r, 5;\n"
                  "mov.b64 {r, q2}, r; frob;\n"
                  "{ mov.u32 r q3; }\n"
                  "mov.u32 r, q4;"));
    CHECK_EQ(d->count, 5);
    CHECK_DIAG(d, "ptx-undeclared", 6);
    CHECK_DIAG(d, "ptx-undeclared", 8);
    CHECK_DIAG(d, "ptx-op", 8);
    CHECK_DIAG(d, "ptx-syntax", 9);
    CHECK_DIAG(d, "ptx-undeclared", 10);
    arena_free(a);
}

TEST(twenty_errors_are_enough)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    struct buf b;
    buf_init(&b, a);
    for (int i = 0; i < 100; i++)
        buf_puts(&b, "frob;\n");
    CHECK(!kernel(a, d, b.data));
    CHECK_EQ(d->count, 20);
    arena_free(a);
}

TEST(one_brace_too_many_is_one_error)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    CHECK(!parse(a, d,
                 HEAD ".entry k() { .reg .b32 r; } mov.u32 r, 1;\nmov.u32 r, 2;\n"
                      "mov.u32 r, 3; }\n.entry l() { ret; }\n"));
    CHECK_EQ(d->count, 1);
    CHECK_DIAG(d, "ptx-syntax", 4);
    arena_free(a);
}

static const char WHOLE[] =
    HEAD ".extern .shared .align 1024 .b8 sm[];\n"
         ".visible .entry cut(.param .u64 p)\n.reqntid 128, 1, 1\n{\n"
         "  .reg .b32 r<4>; .reg .b64 d; .reg .pred p0;\n"
         "  ld.param.u64 d, [p];\n  mov.u32 r0, %tid.x;\n  mov.b32 r1, sm;\n"
         "LOOP:\n  setp.ne.u32 p0, r0, 0x10;\n  @!p0 bra LOOP;\n"
         "  st.global.v2.b32 [d+8], {r0, r1};\n  ret;\n}\n";

/* Wherever a text was cut off, that is said; never is half a kernel taken for one. */
TEST(a_truncated_text_is_told_as_such)
{
    struct arena *a = arena_new();
    size_t whole = sizeof WHOLE - 1;
    size_t body = (size_t)(strchr(WHOLE, '{') - WHOLE) + 1;
    for (size_t bytes = 0; bytes < whole; bytes++) {
        struct diags *d = diags_new(a);
        bool ok = ptx_parse(a, NULL, WHOLE, bytes, d) != NULL;
        CHECK_EQ(ok, d->count == 0);
        if (bytes >= body && bytes < whole - 1) {
            CHECK(!ok);
            CHECK(d->count <= 2); /* the word that was cut may be wrong besides */
            bool told = false;
            for (const struct diag *g = d->first; g; g = g->next)
                told = told || strstr(g->text, "'cut', which begins at line 5");
            CHECK(told);
        }
    }
    struct diags *d = diags_new(a);
    CHECK(ptx_parse(a, NULL, WHOLE, whole, d));
    arena_free(a);
}

TEST(deep_nesting_ends_in_a_message)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    struct buf b;
    buf_init(&b, a);
    buf_puts(&b, ".reg .b32 r; mov.u32 r, ");
    for (int i = 0; i < 100000; i++)
        buf_puts(&b, "(");
    buf_puts(&b, "1;");
    CHECK(!kernel(a, d, b.data));
    CHECK_DIAG(d, "ptx-depth", 5);
    arena_free(a);
}

TEST(nested_blocks_may_be_deep)
{
    struct arena *a = arena_new();
    struct buf b;
    buf_init(&b, a);
    for (int i = 0; i < 20000; i++)
        buf_puts(&b, "{");
    buf_puts(&b, "bra L;");
    for (int i = 0; i < 20000; i++)
        buf_puts(&b, "}");
    buf_puts(&b, "L: ret;");
    CHECK_EQ(good(a, b.data)->insns[0].operands[0].target, 1);
    arena_free(a);
}

/* A kernel of 3000 instructions, in the mix that our templates emit. */
TEST(a_large_kernel_parses)
{
    struct arena *a = arena_new();
    struct buf b;
    buf_init(&b, a);
    buf_puts(&b,
             ".reg .b32 r<600>; .reg .b64 d<40>; .reg .pred p<8>; .reg .f32 f<256>;\n");
    for (int i = 0; i < 500; i++)
        buf_printf(
            &b,
            "L%d:\n  mbarrier.try_wait.parity.shared::cta.b64 p%d, [r%d + 8], r3;\n"
            "  @!p%d bra L%d;\n  add.s64 d%d, d3, %d;\n"
            "  mul.rn.f32 f%d, f%d, 0f3F800000;\n"
            "  { .reg .b16 h; cvt.rn.bf16.f32 h, f%d; mov.b32 r%d, {h, h}; }\n",
            i, i % 8, i, i % 8, i, i % 40, i, i % 256, (i * 7) % 256, i % 256, i);
    const struct ptx_func *f = good(a, b.data);
    CHECK_EQ(f->insn_count, 3000);
    for (int i = 0; i < 500; i++)
        CHECK_EQ(f->insns[i * 6 + 1].operands[0].target, i * 6);
    arena_free(a);
}
