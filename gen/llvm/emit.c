#include "gen/llvm/emit.h"

#include <string.h>

typedef LLVMValueRef Value;

const char *emit_block_name(enum emit_block block)
{
    static const char *const names[] = {"tile", "chunk", "tail"};
    return names[block];
}

/* ---- what crosses from the tile block to the chunks */

bool emit_is_column_free(const struct expr_node *n)
{
    return n->columns == EXPR_NO_COLUMNS;
}

/* Constants and scalar parameters need no register of their own. */
static bool is_at_hand(const struct emit *em, const struct expr_node *n)
{
    return n->op == EXPR_CONST || n->op == EXPR_ALPHA || n->op == EXPR_ROWS ||
           n->op == EXPR_ROW ||
           (n->op == EXPR_INPUT && em->e->inputs[n->imm].kind == EXPR_SCALAR);
}

static void hoist(struct emit *em, const struct expr_node *n)
{
    if (!n || !emit_is_column_free(n) || is_at_hand(em, n))
        return;
    for (int i = 0; i < em->hoist_count; i++)
        if (em->hoists[i].node == n)
            return;
    em->hoists[em->hoist_count++].node = n;
}

static void find_hoists(struct emit *em)
{
    const struct expr *e = em->e;
    em->hoists =
        ARENA_ARRAY(em->arena, struct emit_hoist,
                    (size_t)e->node_count + EXPR_MAX_INPUTS + EXPR_MAX_OUTPUTS);
    for (int i = 0; i < e->node_count; i++) {
        const struct expr_node *n = e->nodes[i];
        if (!em->reachable[i] || emit_is_column_free(n))
            continue;
        if (n->op == EXPR_INPUT && e->inputs[n->imm].kind == EXPR_AUX)
            em->hoists[em->hoist_count++].aux = (int)n->imm;
        for (int k = 0; k < n->arg_count; k++)
            hoist(em, n->args[k]);
    }
    for (int i = 0; i < e->output_count; i++) {
        hoist(em, e->outputs[i].global);
        hoist(em, e->outputs[i].global_ok);
        hoist(em, e->outputs[i].row_hash);
        hoist(em, e->outputs[i].row_ok);
        if (emit_is_doubled(em, &e->outputs[i]))
            em->hoists[em->hoist_count++].inverse = &e->outputs[i];
    }
}

const char *emit_hoist_name(struct emit *em, int i)
{
    return arena_printf(em->arena, "%s_h%d", em->prefix, i);
}

Value emit_hoisted_row(struct emit *em, int input)
{
    for (int i = 0; i < em->hoist_count; i++)
        if (!em->hoists[i].node && !em->hoists[i].inverse && em->hoists[i].aux == input)
            return emit_in(em, emit_hoist_name(em, i), em->i64);
    return NULL;
}

Value emit_hoisted_inverse(struct emit *em, const struct expr_output *o)
{
    int i = 0;
    while (em->hoists[i].inverse != o)
        i++;
    return emit_in(em, emit_hoist_name(em, i), em->f32);
}

/* ---- blocks */

static void emit_tile(struct emit *em)
{
    for (int i = 0; i < em->e->node_count; i++) {
        const struct expr_node *n = em->e->nodes[i];
        if (em->reachable[i] && emit_is_column_free(n) && !is_at_hand(em, n))
            emit_node(em, n, 0, 1);
    }
    for (int i = 0; i < em->hoist_count; i++) {
        const struct expr_node *n = em->hoists[i].node;
        Value v;
        if (n) {
            v = emit_value(em, n, 0, 1);
            if (n->type == EXPR_PRED)
                v = LLVMBuildZExt(em->at, v, em->i32, "");
        } else if (em->hoists[i].inverse) {
            Value global = emit_value(em, em->hoists[i].inverse->global, 0, 1);
            v = LLVMBuildFDiv(em->at, emit_f32(em, 1), global, "");
        } else {
            const struct expr_input *in = &em->e->inputs[em->hoists[i].aux];
            Value base = emit_in(em, emit_arg_name(em, "arg", in), em->i64);
            Value stride = emit_in(em, emit_arg_name(em, "argld", in), em->i64);
            Value row = emit_wide(em, emit_row_inside(em));
            v = LLVMBuildAdd(em->at, base, LLVMBuildMul(em->at, row, stride, ""), "");
        }
        emit_out(em, emit_hoist_name(em, i), v);
    }
}

/* Of some columns; the last ones take the rest along. */
static void emit_amax_part(struct emit *em, int k, int count, bool is_last, Value *x)
{
    const struct expr_output *o = &em->e->outputs[k];
    Value v = emit_amax(em, x, count);
    if (em->amax[k])
        v = emit_call2(em, "llvm.maxnum", em->amax[k], v);
    em->amax[k] = v;
    if (!is_last)
        return;
    v = LLVMBuildSelect(em->at, emit_value(em, o->row_ok, 0, 1), v, emit_f32(em, 0),
                        "");
    emit_out(em, arena_printf(em->arena, "o%d_amax", k), v);
}

static void emit_plain_output(struct emit *em, int k, int first, int count)
{
    const struct expr_output *o = &em->e->outputs[k];
    const struct expr_node *n = o->value;
    Value *x = ARENA_ARRAY(em->arena, Value, (size_t)count);
    Value *words = ARENA_ARRAY(em->arena, Value, (size_t)count);
    bool narrow = n->type >= EXPR_TYPE_BF16;
    for (int i = 0; i < count; i++)
        x[i] = emit_value(em, narrow ? n->args[0] : n, first + i, 1);
    if (o->format == EXPR_OUT_AMAX) {
        for (int i = 0; i < count; i++)
            x[i] = emit_masked(em, n->columns, first + i, x[i]);
        emit_amax_part(em, k, count, first + count == emit_cols(em, n->columns), x);
        return;
    }
    const int bits = expr_bits(o->format), first_word = first * bits / 32;
    if (narrow)
        emit_pack(em, n->type, (enum expr_path)n->imm, count, x, words);
    else
        memcpy(words, x, (size_t)count * sizeof *x);
    for (int i = 0; i < count * bits / 32; i++)
        emit_out(em, arena_printf(em->arena, "o%d_w%d", k, first_word + i), words[i]);
}

void emit_output(struct emit *em, int k, int first, int count)
{
    enum expr_format f = em->e->outputs[k].format;
    if (f == EXPR_OUT_NVFP4)
        emit_nvfp4(em, k, first, count);
    else if (expr_scale_block(f))
        emit_mx(em, k, first, count);
    else
        emit_plain_output(em, k, first, count);
}

static void find_levels(struct emit *em)
{
    const struct expr *e = em->e;
    int *levels = ARENA_ARRAY(em->arena, int, (size_t)e->node_count + 1);
    for (int i = 0; i < e->node_count; i++) {
        const struct expr_node *n = e->nodes[i];
        bool regroups = n->op == EXPR_SPLIT || n->op == EXPR_JOIN ||
                        n->op == EXPR_BLOCK_AMAX || n->op == EXPR_BLOCK_MAX ||
                        n->op == EXPR_BLOCK_MIN;
        for (int k = 0; k < n->arg_count; k++)
            if (levels[n->args[k]->id] + regroups > levels[i])
                levels[i] = levels[n->args[k]->id] + regroups;
        if (levels[i] >= em->level_count)
            em->level_count = levels[i] + 1;
    }
    em->levels = levels;
}

/* Columns that are computed together: enough to hide what an instruction takes, few so
 * that what is between the first and the last one does not need all registers. */
enum { GROUP_COLS = 8 };

/* One level, in groups of columns; blocks as a whole with the first group. */
static void emit_level(struct emit *em, int level)
{
    for (int first = 0; first < em->chunk; first += GROUP_COLS)
        for (int i = 0; i < em->e->node_count; i++) {
            const struct expr_node *n = em->e->nodes[i];
            if (!em->reachable[i] || emit_is_column_free(n) || n->op == EXPR_INPUT ||
                em->levels[i] != level || first >= emit_cols(em, n->columns))
                continue;
            if (n->shape != EXPR_SHAPE_BLOCK)
                emit_node(em, n, first, GROUP_COLS);
            else if (first == 0)
                emit_node(em, n, 0, emit_count(em, n));
        }
}

/* Loads first: they take longest. */
static void emit_chunk(struct emit *em)
{
    for (int i = 0; i < em->e->node_count; i++) {
        const struct expr_node *n = em->e->nodes[i];
        if (em->reachable[i] && !emit_is_column_free(n) && n->op == EXPR_INPUT)
            emit_node(em, n, 0, emit_count(em, n));
    }
    for (int level = 0; level < em->level_count; level++)
        emit_level(em, level);
    for (int k = 0; k < em->e->output_count; k++)
        emit_output(em, k, 0, emit_cols(em, em->e->outputs[k].value->columns));
}

void emit_function(struct emit *em, enum emit_block block)
{
    em->block = block;
    em->ins = NULL;
    em->values = ARENA_ARRAY(em->arena, Value *, (size_t)em->e->node_count + 1);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(em->context), NULL, 0, 0);
    em->function = LLVMAddFunction(em->module, emit_block_name(block), type);
    LLVMBasicBlockRef entry =
        LLVMAppendBasicBlockInContext(em->context, em->function, "");
    LLVMBasicBlockRef body =
        LLVMAppendBasicBlockInContext(em->context, em->function, "");
    LLVMPositionBuilderAtEnd(em->entry, entry);
    LLVMPositionBuilderBefore(em->entry, LLVMBuildBr(em->entry, body));
    LLVMPositionBuilderAtEnd(em->at, body);
    memset(em->amax, 0, sizeof em->amax);
    em->made = em->order = NULL;
    if (block == EMIT_TILE)
        emit_tile(em);
    else if (em->step)
        emit_steps(em);
    else
        emit_chunk(em);
    LLVMBuildRetVoid(em->at);
}

void emit_open(struct emit *em)
{
    em->reachable = expr_reachable(em->e, em->arena);
    em->packed_f32 = em->target->features & FEAT_SM_100;
    em->context = LLVMContextCreate();
    em->module = LLVMModuleCreateWithNameInContext("epilogue", em->context);
    em->at = LLVMCreateBuilderInContext(em->context);
    em->entry = LLVMCreateBuilderInContext(em->context);
    em->i1 = LLVMInt1TypeInContext(em->context);
    em->i16 = LLVMInt16TypeInContext(em->context);
    em->i32 = LLVMInt32TypeInContext(em->context);
    em->i64 = LLVMInt64TypeInContext(em->context);
    em->f32 = LLVMFloatTypeInContext(em->context);
    em->f32x2 = LLVMVectorType(em->f32, 2);
    em->pointer = LLVMPointerTypeInContext(em->context, 1); /* global memory */
    find_hoists(em);
    find_levels(em);
}

void emit_close(struct emit *em)
{
    LLVMDisposeBuilder(em->entry);
    LLVMDisposeBuilder(em->at);
    LLVMDisposeModule(em->module);
    LLVMContextDispose(em->context);
}
