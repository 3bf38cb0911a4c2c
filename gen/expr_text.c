/* expr_text.c - an expression as text: canonical for the cache and for the lowering,
 * which runs in another process, and readable for people. */
#include "core/base.h"
#include "gen/expr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER "expr 1\n"

static const char *const kind_words[] = {"scalar", "col", "row", "aux"};

/* ---- canonical */

struct writer {
    const struct expr *e;
    struct buf *out;
    int *ids;    /* of nodes in the text, from 1; 0: not there */
    int *inputs; /* likewise, of inputs */
    int node_count, input_count;
};

static void write_input(struct writer *w, uint32_t index)
{
    if (w->inputs[index])
        return;
    const struct expr_input *in = &w->e->inputs[index];
    w->inputs[index] = ++w->input_count;
    buf_printf(w->out, "i %s %s %s %d\n", kind_words[in->kind], in->name,
               expr_type_name(in->type), (int)in->columns);
}

static void write_node(struct writer *w, const struct expr_node *n)
{
    uint32_t imm = n->imm;
    if (n->op == EXPR_INPUT) {
        write_input(w, imm);
        imm = (uint32_t)w->inputs[imm] - 1;
    }
    buf_printf(w->out, "n %s %s %x", expr_op_name(n->op), expr_type_name(n->type), imm);
    for (int i = 0; i < n->arg_count; i++)
        buf_printf(w->out, " %d", w->ids[n->args[i]->id] - 1);
    buf_puts(w->out, "\n");
    w->ids[n->id] = ++w->node_count;
}

static int written(const struct writer *w, const struct expr_node *n)
{
    return n ? w->ids[n->id] - 1 : -1;
}

void expr_write(const struct expr *e, struct buf *out)
{
    struct arena *a = arena_new();
    bool *marks = expr_reachable(e, a);
    struct writer w = {.e = e, .out = out};
    w.ids = ARENA_ARRAY(a, int, (size_t)e->node_count + 1);
    w.inputs = ARENA_ARRAY(a, int, EXPR_MAX_INPUTS);
    buf_puts(out, HEADER);
    for (int i = 0; i < e->node_count; i++)
        if (marks[i])
            write_node(&w, e->nodes[i]);
    for (int i = 0; i < e->output_count; i++) {
        const struct expr_output *o = &e->outputs[i];
        buf_printf(out, "o %s %d %d %d %d %d %d %d %d %d\n",
                   expr_format_name(o->format), written(&w, o->value),
                   written(&w, o->global), written(&w, o->global_ok),
                   written(&w, o->row_hash), written(&w, o->row_ok), (int)o->rounding,
                   (int)o->path, o->reciprocal, o->scale_down);
    }
    arena_free(a);
}

/* ---- and back */

static bool find_type(const char *word, enum expr_type *type)
{
    for (int i = 0; i < EXPR_TYPE_COUNT; i++)
        if (strcmp(word, expr_type_name((enum expr_type)i)) == 0) {
            *type = (enum expr_type)i;
            return true;
        }
    return false;
}

static bool read_input(struct expr *e, const char *line)
{
    struct expr_input *in = &e->inputs[e->input_count];
    char kind[8], type[8];
    int columns;
    if (e->input_count == EXPR_MAX_INPUTS ||
        sscanf(line, "i %7s %15s %7s %d", kind, in->name, type, &columns) != 4 ||
        columns < EXPR_NO_COLUMNS || columns > EXPR_PAIRS ||
        !find_type(type, &in->type))
        return false;
    in->columns = (enum expr_columns)columns;
    for (size_t i = 0; i < COUNT_OF(kind_words); i++)
        if (strcmp(kind, kind_words[i]) == 0) {
            in->kind = (enum expr_input_kind)i;
            e->input_count++;
            return true;
        }
    return false;
}

static const struct expr_node *node_at(const struct expr *e, int id)
{
    return id >= 0 && id < e->node_count ? e->nodes[id] : NULL;
}

static bool read_node(struct expr *e, const char *line)
{
    char name[24], type_word[8];
    unsigned imm;
    int ids[3];
    int got = sscanf(line, "n %23s %7s %x %d %d %d", name, type_word, &imm, &ids[0],
                     &ids[1], &ids[2]);
    enum expr_op op;
    enum expr_type type;
    if (got < 3 || !expr_op_find(name, &op) || !find_type(type_word, &type))
        return false;
    const struct expr_node *args[3], *n;
    const int known = e->node_count;
    for (int i = 0; i < got - 3; i++)
        args[i] = node_at(e, ids[i]);
    switch (op) {
    case EXPR_CONST:
        n = type == EXPR_S32   ? expr_s32(e, (int32_t)imm)
            : type == EXPR_U32 ? expr_u32(e, imm)
                               : NULL;
        if (type == EXPR_F32) {
            float x;
            memcpy(&x, &imm, sizeof x);
            n = expr_f32(e, x);
        }
        break;
    case EXPR_INPUT:
        n = imm < (unsigned)e->input_count ? expr_input(e, &e->inputs[imm]) : NULL;
        break;
    case EXPR_ACC:
    case EXPR_ALPHA:
    case EXPR_ROW:
    case EXPR_COLUMN:
    case EXPR_PAIR_COLUMN:
    case EXPR_ROWS:
        n = expr_leaf(e, op);
        break;
    default:
        n = expr_op(e, op, args, got - 3, imm);
        break;
    }
    return n && n->id == known && n->type == type; /* a new one */
}

static bool read_output(struct expr *e, const char *line)
{
    char word[12];
    int value, global, global_ok, row_hash, row_ok, rounding, path, reciprocal, down;
    if (e->output_count == EXPR_MAX_OUTPUTS ||
        sscanf(line, "o %11s %d %d %d %d %d %d %d %d %d", word, &value, &global,
               &global_ok, &row_hash, &row_ok, &rounding, &path, &reciprocal,
               &down) != 10 ||
        rounding < EXPR_NEAREST || rounding > EXPR_STOCHASTIC || path < EXPR_AUTO ||
        path > EXPR_INTEGER)
        return false;
    struct expr_output *o = &e->outputs[e->output_count];
    *o = (struct expr_output){.value = node_at(e, value),
                              .global = node_at(e, global),
                              .global_ok = node_at(e, global_ok),
                              .row_hash = node_at(e, row_hash),
                              .row_ok = node_at(e, row_ok),
                              .rounding = (enum expr_rounding)rounding,
                              .path = (enum expr_path)path,
                              .reciprocal = reciprocal != 0,
                              .scale_down = down != 0};
    for (int i = 0; i < EXPR_FORMAT_COUNT; i++)
        if (strcmp(word, expr_format_name((enum expr_format)i)) == 0) {
            o->format = (enum expr_format)i;
            e->output_count++;
            return o->value != NULL;
        }
    return false;
}

struct expr *expr_read(struct arena *a, const char *text)
{
    const size_t header_bytes = sizeof HEADER - 1;
    if (strncmp(text, HEADER, header_bytes) != 0)
        return NULL;
    struct expr *e = expr_new(a);
    for (const char *line = text + header_bytes; *line;) {
        const char *end = strchr(line, '\n');
        if (!end)
            return NULL;
        bool ok = line[0] == 'i'   ? read_input(e, line)
                  : line[0] == 'n' ? read_node(e, line)
                  : line[0] == 'o' ? read_output(e, line)
                                   : false;
        if (!ok)
            return NULL;
        line = end + 1;
    }
    /* Numbers that end early, words behind the last one: there is one way to write. */
    struct buf again;
    buf_init(&again, a);
    expr_write(e, &again);
    return strcmp(again.data, text) == 0 ? e : NULL;
}

/* ---- for people */

struct printer {
    const struct expr *e;
    struct buf *out;
    const char *prefix;
    int *uses;  /* of a node, as people see it: through calls */
    int *names; /* "t1" and so on of nodes with a line of their own; 0: none */
    bool *seen;
    int name_count;
};

enum precedence {
    LOOSEST,
    OF_OR,
    OF_XOR,
    OF_AND,
    OF_SHIFT,
    OF_SUM,
    OF_PRODUCT,
    OF_SIGN,
};

static const struct {
    enum expr_op op;
    const char *sign;
    enum precedence precedence;
} infix[] = {
    {EXPR_ADD, " + ", OF_SUM},     {EXPR_SUB, " - ", OF_SUM},
    {EXPR_MUL, " * ", OF_PRODUCT}, {EXPR_DIV, " / ", OF_PRODUCT},
    {EXPR_AND, " & ", OF_AND},     {EXPR_OR, " | ", OF_OR},
    {EXPR_XOR, " ~ ", OF_XOR},     {EXPR_SHL, " << ", OF_SHIFT},
    {EXPR_SHR, " >> ", OF_SHIFT},
};

static int shown_args(const struct expr_node *n, const struct expr_node *const **args)
{
    *args = n->call.name ? n->call.args : n->args;
    return n->call.name ? n->call.arg_count : n->arg_count;
}

static void count_uses(struct printer *p, const struct expr_node *n)
{
    p->uses[n->id]++;
    if (p->seen[n->id])
        return;
    p->seen[n->id] = true;
    const struct expr_node *const *args;
    int count = shown_args(n, &args);
    for (int i = 0; i < count; i++)
        count_uses(p, args[i]);
}

static void print_constant(struct buf *out, const struct expr_node *n)
{
    if (n->type == EXPR_S32) {
        buf_printf(out, "%d", (int)n->imm);
    } else if (n->type == EXPR_U32) {
        buf_printf(out, n->imm > 9999 ? "0x%x" : "%u", n->imm);
    } else {
        float x;
        memcpy(&x, &n->imm, sizeof x);
        buf_printf(out, "%.9g", (double)x);
    }
}

static void print_node(struct printer *p, const struct expr_node *n,
                       enum precedence around);

static void print_call(struct printer *p, const char *name,
                       const struct expr_node *const *args, int count)
{
    buf_puts(p->out, name);
    if (count == 0)
        return;
    for (int i = 0; i < count; i++) {
        buf_puts(p->out, i ? ", " : "(");
        print_node(p, args[i], LOOSEST);
    }
    buf_puts(p->out, ")");
}

static void print_infix(struct printer *p, const struct expr_node *n, size_t row,
                        enum precedence around)
{
    enum precedence own = infix[row].precedence;
    if (own < around)
        buf_puts(p->out, "(");
    print_node(p, n->args[0], own);
    buf_puts(p->out, infix[row].sign);
    print_node(p, n->args[1], own + 1 > OF_SIGN ? OF_SIGN : (enum precedence)(own + 1));
    if (own < around)
        buf_puts(p->out, ")");
}

static void print_body(struct printer *p, const struct expr_node *n,
                       enum precedence around)
{
    if (n->call.name) {
        print_call(p, n->call.name, n->call.args, n->call.arg_count);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(infix); i++)
        if (infix[i].op == n->op) {
            print_infix(p, n, i, around);
            return;
        }
    switch (n->op) {
    case EXPR_CONST:
        print_constant(p->out, n);
        break;
    case EXPR_INPUT:
        buf_puts(p->out, p->e->inputs[n->imm].name);
        break;
    case EXPR_NEG:
        buf_puts(p->out, "-");
        print_node(p, n->args[0], OF_SIGN);
        break;
    case EXPR_WIDEN:
        print_node(p, n->args[0], around);
        break;
    case EXPR_SPLIT:
        buf_printf(p->out, "half %u of groups of %u in (", n->imm % 2, n->imm / 2);
        print_node(p, n->args[0], LOOSEST);
        buf_puts(p->out, ")");
        break;
    case EXPR_JOIN:
    case EXPR_BLOCK_AMAX:
    case EXPR_BLOCK_MAX:
    case EXPR_BLOCK_MIN:
        print_call(p, n->op == EXPR_JOIN ? "interleave" : expr_op_name(n->op), n->args,
                   n->arg_count);
        p->out->data[--p->out->bytes] = '\0'; /* the parenthesis */
        buf_printf(p->out, ", %u)", n->imm);
        break;
    default:
        print_call(p, expr_op_name(n->op), n->args, n->arg_count);
        break;
    }
}

static void print_node(struct printer *p, const struct expr_node *n,
                       enum precedence around)
{
    if (p->names[n->id])
        buf_printf(p->out, "t%d", p->names[n->id]);
    else
        print_body(p, n, around);
}

/* Lines of their own for what is used twice, arguments first. */
static void print_shared(struct printer *p, const struct expr_node *n)
{
    if (!p->seen[n->id])
        return;
    p->seen[n->id] = false;
    const struct expr_node *const *args;
    int count = shown_args(n, &args);
    for (int i = 0; i < count; i++)
        print_shared(p, args[i]);
    if (p->uses[n->id] < 2 || count == 0)
        return;
    buf_printf(p->out, "%st%d = ", p->prefix, p->name_count + 1);
    print_body(p, n, LOOSEST);
    buf_puts(p->out, "\n");
    p->names[n->id] = ++p->name_count;
}

static void print_output(struct printer *p, const struct expr_output *o)
{
    static const char *const roundings[] = {"nearest", "halfstep", "stochastic"};
    static const char *const paths[] = {"auto", "hardware", "integer"};
    buf_printf(p->out, "%s%s = ", p->prefix, o->name);
    if (expr_scale_block(o->format) == 0 && o->format != EXPR_OUT_AMAX) {
        print_node(p, o->value, LOOSEST);
        buf_puts(p->out, "\n");
        return;
    }
    buf_printf(p->out, "%s(", expr_format_name(o->format));
    print_node(p, o->value, LOOSEST);
    if (o->format == EXPR_OUT_NVFP4) {
        buf_puts(p->out, ", global = ");
        print_node(p, o->global, LOOSEST);
        buf_printf(p->out, ", division = %s", o->reciprocal ? "reciprocal" : "exact");
    }
    if (expr_bits(o->format) == 4)
        buf_printf(p->out, ", rounding = %s", roundings[o->rounding]);
    if (o->format != EXPR_OUT_AMAX)
        buf_printf(p->out, ", path = %s", paths[o->path]);
    if (o->scale_down)
        buf_puts(p->out, ", scale = down");
    buf_puts(p->out, ")\n");
}

void expr_print(const struct expr *e, const char *prefix, struct buf *out)
{
    struct arena *a = arena_new();
    const size_t count = (size_t)e->node_count + 1;
    struct printer p = {.e = e, .out = out, .prefix = prefix};
    p.uses = ARENA_ARRAY(a, int, count);
    p.names = ARENA_ARRAY(a, int, count);
    p.seen = ARENA_ARRAY(a, bool, count);
    for (int i = 0; i < e->output_count; i++) {
        count_uses(&p, e->outputs[i].value);
        if (e->outputs[i].global)
            count_uses(&p, e->outputs[i].global);
    }
    for (int i = 0; i < e->output_count; i++) {
        print_shared(&p, e->outputs[i].value);
        if (e->outputs[i].global)
            print_shared(&p, e->outputs[i].global);
    }
    for (int i = 0; i < e->output_count; i++)
        print_output(&p, &e->outputs[i]);
    arena_free(a);
}

void expr_print_default(const struct expr_input *in, struct buf *out)
{
    float x;
    memcpy(&x, &in->default_bits, sizeof x);
    int digits = 6; /* as few as are read as the same number, 9 at most */
    char text[32];
    do
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
    while (strtof(text, NULL) != x && digits++ < 9);
    if (in->type == EXPR_F32)
        buf_puts(out, text);
    else if (in->type == EXPR_S32)
        buf_printf(out, "%d", (int)in->default_bits);
    else
        buf_printf(out, "%u", in->default_bits);
}
