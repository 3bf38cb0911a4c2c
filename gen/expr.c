#include "gen/expr.h"

#include "core/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *signature, *meaning;
} ops[] = {
#define EXPR_OP(id, name, signature, meaning) {name, signature, meaning},
#include "gen/expr_ops.def"
#undef EXPR_OP
};

static const char *const type_names[] = {"f32", "s32",  "u32",  "pred", "bf16",
                                         "f16", "e4m3", "e5m2", "e2m1"};

static const struct {
    const char *name;
    int bits, scale_block;
} formats[] = {
    {"f32", 32, 0},        {"bf16", 16, 0},       {"f16", 16, 0},   {"e4m3", 8, 0},
    {"e5m2", 8, 0},        {"e2m1", 4, 0},        {"nvfp4", 4, 16}, {"mxfp4", 4, 32},
    {"mxfp8_e4m3", 8, 32}, {"mxfp8_e5m2", 8, 32}, {"amax", 0, 0},   {"d", 0, 0},
};

const char *expr_op_name(enum expr_op op)
{
    return ops[op].name;
}

const char *expr_op_meaning(enum expr_op op)
{
    return ops[op].meaning;
}

const char *expr_op_signature(enum expr_op op)
{
    return ops[op].signature;
}

bool expr_op_find(const char *name, enum expr_op *op)
{
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        if (strcmp(ops[i].name, name) == 0) {
            *op = (enum expr_op)i;
            return true;
        }
    return false;
}

const char *expr_type_name(enum expr_type t)
{
    return type_names[t];
}

const char *expr_format_name(enum expr_format f)
{
    return formats[f].name;
}

int expr_bits(enum expr_format f)
{
    return formats[f].bits;
}

int expr_scale_block(enum expr_format f)
{
    return formats[f].scale_block;
}

struct expr *expr_new(struct arena *a)
{
    struct expr *e = ARENA_NEW(a, struct expr);
    e->arena = a;
    e->node_cap = 64;
    e->nodes = ARENA_ARRAY(a, struct expr_node *, (size_t)e->node_cap);
    e->table_cap = 256;
    e->table = ARENA_ARRAY(a, int, (size_t)e->table_cap);
    return e;
}

const char *expr_fault(const struct expr *e)
{
    return e->fault[0] ? e->fault : NULL;
}

bool expr_refuse(struct expr *e, const char *fmt, ...)
{
    if (e->fault[0])
        return false;
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->fault, sizeof e->fault, fmt, args);
    va_end(args);
    return false;
}

/* ---- equal nodes are one node */

static uint32_t mix(uint32_t h, uint32_t x)
{
    return (h ^ x) * 0x01000193u;
}

static uint32_t hash_node(const struct expr_node *n)
{
    uint32_t h = 0x811c9dc5u;
    h = mix(h, (uint32_t)n->op);
    h = mix(h, (uint32_t)n->type);
    h = mix(h, n->imm & 0xffff);
    h = mix(h, n->imm >> 16);
    for (int i = 0; i < n->arg_count; i++)
        h = mix(h, (uint32_t)n->args[i]->id);
    return h ^ h >> 15;
}

static bool same_node(const struct expr_node *a, const struct expr_node *b)
{
    if (a->op != b->op || a->type != b->type || a->imm != b->imm ||
        a->arg_count != b->arg_count)
        return false;
    for (int i = 0; i < a->arg_count; i++)
        if (a->args[i] != b->args[i])
            return false;
    return true;
}

static int *find_slot(struct expr *e, const struct expr_node *n)
{
    uint32_t mask = (uint32_t)e->table_cap - 1;
    uint32_t at = hash_node(n) & mask;
    while (e->table[at] && !same_node(e->nodes[e->table[at] - 1], n))
        at = (at + 1) & mask;
    return &e->table[at];
}

static void grow(struct expr *e)
{
    if (e->node_count == e->node_cap) {
        struct expr_node **old = e->nodes;
        e->node_cap *= 2;
        e->nodes = ARENA_ARRAY(e->arena, struct expr_node *, (size_t)e->node_cap);
        memcpy(e->nodes, old, (size_t)e->node_count * sizeof *old);
    }
    if (e->node_count * 2 < e->table_cap)
        return;
    e->table_cap *= 2;
    e->table = ARENA_ARRAY(e->arena, int, (size_t)e->table_cap);
    for (int i = 0; i < e->node_count; i++)
        *find_slot(e, e->nodes[i]) = i + 1;
}

static const struct expr_node *intern(struct expr *e, const struct expr_node *wanted)
{
    int *slot = find_slot(e, wanted);
    if (*slot)
        return e->nodes[*slot - 1];
    if (e->node_count == EXPR_MAX_NODES) {
        expr_refuse(e, "the expression has more than %d operations", EXPR_MAX_NODES);
        return NULL;
    }
    struct expr_node *n = ARENA_NEW(e->arena, struct expr_node);
    *n = *wanted;
    n->id = e->node_count;
    n->line = e->line;
    *slot = n->id + 1;
    e->nodes[e->node_count++] = n;
    grow(e);
    return n;
}

/* ---- leaves */

static const struct expr_node *constant(struct expr *e, enum expr_type type,
                                        uint32_t bits)
{
    struct expr_node n = {.op = EXPR_CONST, .type = type, .imm = bits};
    return intern(e, &n);
}

const struct expr_node *expr_f32(struct expr *e, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return constant(e, EXPR_F32, bits);
}

const struct expr_node *expr_s32(struct expr *e, int32_t x)
{
    return constant(e, EXPR_S32, (uint32_t)x);
}

const struct expr_node *expr_u32(struct expr *e, uint32_t x)
{
    return constant(e, EXPR_U32, x);
}

const struct expr_node *expr_leaf(struct expr *e, enum expr_op op)
{
    struct expr_node n = {.op = op, .type = EXPR_U32};
    switch (op) {
    case EXPR_ACC:
        n.type = EXPR_F32;
        n.shape = EXPR_SHAPE_ELEM;
        n.columns = EXPR_TILE;
        break;
    case EXPR_ALPHA:
        n.type = EXPR_F32;
        break;
    case EXPR_ROW:
        n.shape = EXPR_SHAPE_ROW;
        break;
    case EXPR_COLUMN:
        n.shape = EXPR_SHAPE_COL;
        n.columns = EXPR_TILE;
        break;
    case EXPR_PAIR_COLUMN:
        n.shape = EXPR_SHAPE_COL;
        n.columns = EXPR_PAIRS;
        break;
    case EXPR_ROWS:
        break;
    default:
        expr_refuse(e, "%s is no leaf", expr_op_name(op));
        return NULL;
    }
    return intern(e, &n);
}

static const char *kind_name(enum expr_input_kind k)
{
    static const char *const names[] = {"a scalar", "a vector of columns",
                                        "a vector of rows", "a second tile"};
    return names[k];
}

bool expr_is_taken(const char *name)
{
    static const char *const taken[] = {"a", "b", "d",     "sfa",       "sfb", "m",
                                        "n", "k", "alpha", "alpha_ptr", "row", "col"};
    for (size_t i = 0; i < COUNT_OF(taken); i++)
        if (strcmp(name, taken[i]) == 0)
            return true;
    return false;
}

static bool is_name(const char *s)
{
    size_t chars = strlen(s);
    if (chars == 0 || chars > EXPR_NAME_CHARS || (s[0] >= '0' && s[0] <= '9'))
        return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_' ||
              (*s >= '0' && *s <= '9')))
            return false;
    return true;
}

/* Index, or -1 after a fault. */
static int add_input(struct expr *e, const struct expr_input *in)
{
    for (int i = 0; i < e->input_count; i++) {
        struct expr_input *had = &e->inputs[i];
        if (strcmp(had->name, in->name) != 0)
            continue;
        if (had->kind != in->kind || had->type != in->type ||
            had->columns != in->columns || had->has_default != in->has_default ||
            had->default_bits != in->default_bits) {
            expr_refuse(e, "'%s' is already %s of %s, with other options", in->name,
                        kind_name(had->kind), expr_type_name(had->type));
            return -1;
        }
        return i;
    }
    if (!is_name(in->name)) {
        expr_refuse(e,
                    "'%s' is no name: a letter, then letters, digits and _, %d at most",
                    in->name, EXPR_NAME_CHARS);
        return -1;
    }
    if (expr_is_taken(in->name)) {
        expr_refuse(e, "'%s' is a parameter of the kernel already", in->name);
        return -1;
    }
    if (e->input_count == EXPR_MAX_INPUTS) {
        expr_refuse(e, "more than %d parameters", EXPR_MAX_INPUTS);
        return -1;
    }
    e->inputs[e->input_count] = *in;
    e->inputs[e->input_count].line = e->line;
    return e->input_count++;
}

const struct expr_node *expr_input(struct expr *e, const struct expr_input *in)
{
    int at = add_input(e, in);
    if (at < 0)
        return NULL;
    static const enum expr_shape shapes[] = {
        [EXPR_SCALAR] = EXPR_SHAPE_UNIFORM,
        [EXPR_VEC_COL] = EXPR_SHAPE_COL,
        [EXPR_VEC_ROW] = EXPR_SHAPE_ROW,
        [EXPR_AUX] = EXPR_SHAPE_ELEM,
    };
    struct expr_node n = {.op = EXPR_INPUT,
                          .type = in->type >= EXPR_TYPE_BF16 ? EXPR_F32 : in->type,
                          .shape = shapes[in->kind],
                          .columns = in->columns,
                          .imm = (uint32_t)at};
    return intern(e, &n);
}

/* ---- types and shapes */

static bool letter_takes(char letter, enum expr_type t)
{
    switch (letter) {
    case 'f':
        return t == EXPR_F32;
    case 's':
        return t == EXPR_S32;
    case 'u':
        return t == EXPR_U32;
    case 'p':
        return t == EXPR_PRED;
    case 'n':
        return t == EXPR_F32 || t == EXPR_S32 || t == EXPR_U32;
    case 'i':
        return t == EXPR_S32 || t == EXPR_U32;
    case 'l':
        return t == EXPR_S32 || t == EXPR_U32 || t == EXPR_PRED;
    case 'v':
        return t <= EXPR_PRED;
    case 'w':
        return t >= EXPR_TYPE_BF16;
    default:
        return false;
    }
}

static const char *letter_text(char letter)
{
    switch (letter) {
    case 'f':
        return "f32";
    case 's':
        return "s32";
    case 'u':
        return "u32";
    case 'p':
        return "a predicate";
    case 'n':
        return "f32, s32 or u32";
    case 'i':
        return "s32 or u32";
    case 'l':
        return "s32, u32 or a predicate";
    case 'w':
        return "a narrow type";
    default:
        return "f32, s32, u32 or a predicate";
    }
}

/* Checks n's arguments and sets its type. */
static bool fit_types(struct expr *e, struct expr_node *n)
{
    const char *signature = ops[n->op].signature;
    int wanted = (int)(strchr(signature, ':') - signature);
    if (n->arg_count != wanted)
        return expr_refuse(e, "%s takes %d values, not %d", ops[n->op].name, wanted,
                           n->arg_count);
    enum expr_type shared = EXPR_F32; /* of the letter that stands for one type */
    bool is_shared = false;
    for (int i = 0; i < n->arg_count; i++) {
        char letter = signature[i];
        if (n->args[i]->type >= EXPR_TYPE_BF16 && strchr("fnv", letter)) {
            n->args[i] = expr_op1(e, EXPR_WIDEN, n->args[i]);
            if (!n->args[i])
                return false;
        }
        enum expr_type t = n->args[i]->type;
        if (!letter_takes(letter, t))
            return expr_refuse(e, "%s: value %d is %s, but must be %s", ops[n->op].name,
                               i + 1, type_names[t], letter_text(letter));
        if (!strchr("nilv", letter))
            continue;
        if (is_shared && shared != t)
            return expr_refuse(e, "%s of %s and %s: convert one of them",
                               ops[n->op].name, type_names[shared], type_names[t]);
        shared = t;
        is_shared = true;
    }
    static const char letters[] = "fsupBHEFQ"; /* in the order of enum expr_type */
    const char *at = strchr(letters, signature[wanted + 1]);
    n->type = at ? (enum expr_type)(at - letters) : shared;
    return true;
}

static const char *columns_text(enum expr_columns c)
{
    return c == EXPR_PAIRS ? "the columns of pairs (N/2)"
                           : "the columns of the tile (N)";
}

static bool fit_columns(struct expr *e, const struct expr_node *n,
                        enum expr_columns *columns)
{
    *columns = EXPR_NO_COLUMNS;
    for (int i = 0; i < n->arg_count; i++) {
        enum expr_columns c = n->args[i]->columns;
        if (c == EXPR_NO_COLUMNS)
            continue;
        if (*columns != EXPR_NO_COLUMNS && *columns != c)
            return expr_refuse(e, "%s: one value has %s, the other %s", ops[n->op].name,
                               columns_text(*columns), columns_text(c));
        *columns = c;
    }
    return true;
}

static bool fit_shapes(struct expr *e, struct expr_node *n)
{
    if (!fit_columns(e, n, &n->columns))
        return false;
    bool by_row = false, by_col = false, by_elem = false;
    for (int i = 0; i < n->arg_count; i++) {
        const struct expr_node *arg = n->args[i];
        by_row = by_row || arg->shape == EXPR_SHAPE_ROW;
        by_col = by_col || arg->shape == EXPR_SHAPE_COL;
        by_elem = by_elem || arg->shape == EXPR_SHAPE_ELEM;
        if (arg->shape == EXPR_SHAPE_BLOCK && (n->block == 0 || arg->block < n->block))
            n->block = arg->block;
    }
    if (by_elem || (by_col && (by_row || n->block)))
        n->shape = EXPR_SHAPE_ELEM;
    else if (n->block)
        n->shape = EXPR_SHAPE_BLOCK;
    else
        n->shape = by_col   ? EXPR_SHAPE_COL
                   : by_row ? EXPR_SHAPE_ROW
                            : EXPR_SHAPE_UNIFORM;
    if (n->shape != EXPR_SHAPE_BLOCK)
        n->block = 0;
    return true;
}

const char *expr_shape_text(enum expr_shape shape)
{
    static const char *const texts[] = {
        [EXPR_SHAPE_UNIFORM] = "for all of the matrix",
        [EXPR_SHAPE_ROW] = "for each row",
        [EXPR_SHAPE_COL] = "for each column",
        [EXPR_SHAPE_BLOCK] = "for each block of columns",
        [EXPR_SHAPE_ELEM] = "for each element",
    };
    return texts[shape];
}

static bool fit_group(struct expr *e, struct expr_node *n)
{
    bool splits = n->op == EXPR_SPLIT;
    uint32_t group = splits ? n->imm / 2 : n->imm;
    if (group < 1 || group > 32 || (group & (group - 1)))
        return expr_refuse(
            e,
            "groups of %u columns: a thread holds 16, 32 or 64 columns at "
            "a time, so groups are of 1, 2, 4, 8, 16 or 32",
            group);
    for (int i = 0; i < n->arg_count; i++) {
        const struct expr_node *x = n->args[i];
        if (x->shape != EXPR_SHAPE_ELEM && x->shape != EXPR_SHAPE_COL)
            return expr_refuse(e,
                               "%s: the value is one %s; it must be one of each "
                               "element or column, as e.acc and e.bias are",
                               splits ? "interleaved" : "interleave",
                               expr_shape_text(x->shape));
        if (x->columns != (splits ? EXPR_TILE : EXPR_PAIRS))
            return expr_refuse(e, "%s: the value has %s",
                               splits ? "interleaved" : "interleave",
                               columns_text(x->columns));
    }
    if (!fit_shapes(e, n))
        return false;
    n->columns = splits ? EXPR_PAIRS : EXPR_TILE;
    return true;
}

static bool fit_reduction(struct expr *e, struct expr_node *n)
{
    if (n->imm != 16 && n->imm != 32)
        return expr_refuse(e, "%s over %u columns: only 16 or 32 are allowed",
                           ops[n->op].name, n->imm);
    if (n->args[0]->shape != EXPR_SHAPE_ELEM)
        return expr_refuse(e, "%s: the value is not one of each element",
                           ops[n->op].name);
    n->shape = EXPR_SHAPE_BLOCK;
    n->columns = n->args[0]->columns;
    n->block = (int)n->imm;
    return true;
}

const struct expr_node *expr_op(struct expr *e, enum expr_op op,
                                const struct expr_node *const *args, int arg_count,
                                uint32_t imm)
{
    struct expr_node n = {.op = op, .arg_count = arg_count, .imm = imm};
    bool ok = arg_count <= (int)COUNT_OF(n.args);
    for (int i = 0; ok && i < arg_count; i++) {
        n.args[i] = args[i];
        ok = args[i] != NULL;
    }
    if (!ok) {
        expr_refuse(e, "%s: a value is missing", ops[op].name);
        return NULL;
    }
    if (!fit_types(e, &n))
        return NULL;
    switch (op) {
    case EXPR_SPLIT:
    case EXPR_JOIN:
        ok = fit_group(e, &n);
        break;
    case EXPR_BLOCK_AMAX:
    case EXPR_BLOCK_MAX:
    case EXPR_BLOCK_MIN:
        ok = fit_reduction(e, &n);
        break;
    default:
        ok = fit_shapes(e, &n);
        break;
    }
    return ok ? intern(e, &n) : NULL;
}

const struct expr_node *expr_op1(struct expr *e, enum expr_op op,
                                 const struct expr_node *a)
{
    return expr_op(e, op, &a, 1, 0);
}

const struct expr_node *expr_op2(struct expr *e, enum expr_op op,
                                 const struct expr_node *a, const struct expr_node *b)
{
    const struct expr_node *args[] = {a, b};
    return expr_op(e, op, args, 2, 0);
}

const struct expr_node *expr_op3(struct expr *e, enum expr_op op,
                                 const struct expr_node *a, const struct expr_node *b,
                                 const struct expr_node *c)
{
    const struct expr_node *args[] = {a, b, c};
    return expr_op(e, op, args, 3, 0);
}

const struct expr_node *expr_split(struct expr *e, const struct expr_node *x, int group,
                                   int half)
{
    uint32_t imm = (uint32_t)group * 2 + (uint32_t)(half != 0);
    return expr_op(e, EXPR_SPLIT, &x, 1, imm);
}

const struct expr_node *expr_product(struct expr *e)
{
    const struct expr_node *x =
        expr_op2(e, EXPR_MUL, expr_leaf(e, EXPR_ACC), expr_leaf(e, EXPR_ALPHA));
    return expr_named(e, x, "acc", NULL, 0);
}

const struct expr_node *expr_named(struct expr *e, const struct expr_node *x,
                                   const char *name,
                                   const struct expr_node *const *args, int arg_count)
{
    if (!x || x->call.name || arg_count > (int)COUNT_OF(x->call.args))
        return x;
    for (int i = 0; i < arg_count; i++)
        if (args[i] == x) /* an identity needs no name */
            return x;
    struct expr_call *call = &e->nodes[x->id]->call;
    call->name = arena_strdup(e->arena, name);
    call->arg_count = arg_count;
    for (int i = 0; i < arg_count; i++)
        call->args[i] = args[i];
    return x;
}
