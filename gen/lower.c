#include "gen/lower.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/lower_cache.h"
#include "gen/lower_worker.h"

/* ---- what can be said before LLVM is asked */

static const struct {
    enum expr_type type;
    uint32_t feature;
    const char *conversion;
} hardware[] = {
    {EXPR_TYPE_E4M3, FEAT_SM_89, "cvt.rn.satfinite.e4m3x2.f32"},
    {EXPR_TYPE_E5M2, FEAT_SM_89, "cvt.rn.satfinite.e5m2x2.f32"},
    {EXPR_TYPE_E2M1, FEAT_CVT_E2M1, "cvt.rn.satfinite.e2m1x2.f32"},
};

static enum expr_type element_type(enum expr_format f)
{
    switch (f) {
    case EXPR_OUT_MXFP8_E4M3:
        return EXPR_TYPE_E4M3;
    case EXPR_OUT_MXFP8_E5M2:
        return EXPR_TYPE_E5M2;
    case EXPR_OUT_NVFP4:
    case EXPR_OUT_MXFP4:
        return EXPR_TYPE_E2M1;
    default:
        return EXPR_TYPE_COUNT;
    }
}

static struct loc at_line(const struct lower_request *r, int line)
{
    struct loc loc = r->loc;
    if (line > 0) {
        loc.line = line;
        loc.col = 0;
    }
    return loc;
}

static bool check_conversion(const struct lower_request *r, enum expr_type t,
                             enum expr_path path, int line, struct diags *d)
{
    for (size_t i = 0; i < COUNT_OF(hardware); i++)
        if (hardware[i].type == t && path == EXPR_HARDWARE &&
            !(r->target->features & hardware[i].feature)) {
            diag_add(d, DIAG_EPILOGUE_PATH, at_line(r, line), hardware[i].conversion,
                     r->target->name);
            return false;
        }
    return true;
}

static bool check_paths(const struct lower_request *r, struct diags *d)
{
    bool ok = true;
    for (int i = 0; i < r->e->output_count; i++) {
        const struct expr_output *o = &r->e->outputs[i];
        ok = ok && check_conversion(r, element_type(o->format), o->path, o->line, d);
    }
    bool *marks = expr_reachable(r->e, d->arena);
    for (int i = 0; ok && i < r->e->node_count; i++) {
        const struct expr_node *n = r->e->nodes[i];
        if (marks[i] && n->type >= EXPR_TYPE_E4M3)
            ok = check_conversion(r, n->type, (enum expr_path)n->imm, n->line, d);
    }
    return ok;
}

static bool check_chunk(const struct lower_request *r, struct diags *d)
{
    int need = expr_chunk_multiple(r->e);
    if (need <= r->chunk)
        return true;
    diag_add(d, DIAG_EPILOGUE_CHUNK, r->loc, need, r->chunk);
    return false;
}

/* ---- the request */

/* Changes with the library: an entry made by another one is not found. */
static uint64_t library_hash(struct arena *a)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *hashed_path;
    static uint64_t hash;
    const char *path = worker_library(a);
    pthread_mutex_lock(&lock);
    if (!hashed_path || strcmp(hashed_path, path) != 0) {
        size_t bytes = 0;
        const char *data = file_read(a, path, &bytes);
        static char kept[4096];
        snprintf(kept, sizeof kept, "%s", path);
        hashed_path = kept;
        hash = data ? hash_bytes(data, bytes) : 0;
    }
    uint64_t result = hash;
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- the reply */

struct reader {
    const char *at, *end;
    bool ok;
};

static const char *take(struct arena *a, struct reader *in, size_t bytes)
{
    if (!in->ok || bytes > (size_t)(in->end - in->at)) {
        in->ok = false;
        return "";
    }
    const char *text = arena_strndup(a, in->at, bytes);
    in->at += bytes;
    return text;
}

static void read_block(struct arena *a, struct reader *in, const struct expr *e,
                       const char *name, struct lower_block *b)
{
    char found[8];
    size_t regs_bytes, body_bytes;
    int used = 0;
    if (!in->ok ||
        sscanf(in->at, "block %7s insns %d rare %d words %d regs %zu body %zu%n", found,
               &b->insns, &b->rare_insns, &b->live_words, &regs_bytes, &body_bytes,
               &used) != 6 ||
        strcmp(found, name) != 0 || in->at[used] != '\n') {
        in->ok = false;
        return;
    }
    in->at += used + 1;
    const char *regs = take(a, in, regs_bytes), *body = take(a, in, body_bytes);
    if (!*body) {
        b->text = "";
        return;
    }
    struct buf text;
    buf_init(&text, a);
    buf_printf(&text, "{ // epilogue, %s\n", name);
    expr_print(e, "  //   ", &text);
    buf_printf(&text, "%s%s}\n", regs, body);
    b->text = text.data;
}

/* "hoists 32 64 ..." */
static void read_hoists(struct reader *in, const char *prefix, struct lowered *l,
                        struct buf *decls)
{
    int used = 0, bits, i = 0;
    sscanf(in->at, "hoists%n", &used);
    in->ok = used > 0;
    in->at += used;
    while (in->ok && *in->at == ' ' && sscanf(in->at, " %d%n", &bits, &used) == 1) {
        buf_printf(decls, "  .reg .b%-6d%s_h%d;\n", bits, prefix, i++);
        l->tile_words += bits / 32;
        in->at += used;
    }
    in->ok = in->ok && *in->at == '\n';
    in->at++;
}

int lower_size(const struct expr *e, int chunk)
{
    struct arena *a = arena_new();
    bool *marks = expr_reachable(e, a);
    int values = 0, row_values = 0;
    for (int i = 0; i < e->node_count; i++) {
        const struct expr_node *n = e->nodes[i];
        bool is_free = n->arg_count == 0 || n->op == EXPR_SPLIT || n->op == EXPR_JOIN ||
                       n->op == EXPR_NEG || n->op == EXPR_ABS || n->op == EXPR_WIDEN ||
                       n->type >= EXPR_TYPE_BF16;
        if (!marks[i] || is_free)
            continue;
        if (n->columns == EXPR_NO_COLUMNS) {
            row_values++;
            continue;
        }
        int cols = n->columns == EXPR_PAIRS ? chunk / 2 : chunk;
        values += n->shape == EXPR_SHAPE_BLOCK ? cols / n->block : cols;
    }
    arena_free(a);
    values /= 2; /* an instruction computes two at best */
    return values > row_values ? values : row_values;
}

int lower_words(const struct expr_output *o, int chunk)
{
    return expr_out_cols(o, chunk) * expr_bits(o->format) / 32;
}

int lower_scale_words(const struct expr_output *o, int chunk)
{
    int block = expr_scale_block(o->format);
    return block ? (expr_out_cols(o, chunk) / block + 3) / 4 : 0;
}

static void declare(const struct lower_request *r, struct buf *decls)
{
    for (int i = 0; i < r->e->input_count; i++) {
        const struct expr_input *in = &r->e->inputs[i];
        bool scalar = in->kind == EXPR_SCALAR;
        buf_printf(decls, "  .reg .%-6s arg_%s", scalar ? "b32" : "b64", in->name);
        if (in->kind == EXPR_AUX)
            buf_printf(decls, ", argld_%s", in->name);
        buf_puts(decls, ";\n");
    }
    for (int i = 0; i < r->e->output_count; i++) {
        const struct expr_output *o = &r->e->outputs[i];
        int words = lower_words(o, r->chunk), scales = lower_scale_words(o, r->chunk);
        if (words)
            buf_printf(decls, "  .reg .b32    o%d_w<%d>;\n", i, words);
        if (scales)
            buf_printf(decls, "  .reg .b32    o%d_s<%d>;\n", i, scales);
        if (o->format == EXPR_OUT_AMAX)
            buf_printf(decls, "  .reg .b32    o%d_amax;\n", i);
    }
}

/* NULL: damaged. */
static const struct lowered *read_reply(struct arena *a, const struct lower_request *r,
                                        const char *reply, size_t bytes)
{
    struct lowered *l = ARENA_NEW(a, struct lowered);
    struct reader in = {reply, reply + bytes, true};
    struct buf decls;
    buf_init(&decls, a);
    declare(r, &decls);
    read_hoists(&in, r->prefix, l, &decls);
    read_block(a, &in, r->e, "tile", &l->tile);
    read_block(a, &in, r->e, "chunk", &l->chunk);
    read_block(a, &in, r->e, "tail", &l->tail);
    l->decls = decls.data;
    l->chunk_cols = r->chunk;
    return in.ok ? l : NULL;
}

/* An entry that cannot be read is as none: the next answer takes its place. */
static const struct lowered *find_kept(struct arena *a, const struct lower_request *r,
                                       const char *key)
{
    size_t bytes;
    const char *reply = lower_cache_find(a, key, &bytes);
    return reply ? read_reply(a, r, reply, bytes) : NULL;
}

/* Asks LLVM, and keeps what it says if that can be read. */
static const struct lowered *ask_llvm(struct arena *a, const struct lower_request *r,
                                      const char *request, const char *key,
                                      struct diags *d)
{
    const char *reply;
    size_t bytes;
    const struct lowered *l;
    switch (worker_ask(a, request, &reply, &bytes)) {
    case WORKER_DONE:
        l = read_reply(a, r, reply, bytes);
        if (l) {
            lower_cache_keep(key, reply, bytes);
            return l;
        }
        reply = "the answer is damaged; the library and the program are of different "
                "age";
        break;
    case WORKER_ABSENT:
        diag_add(d, DIAG_EPILOGUE_NO_LLVM, r->loc, worker_library(a), reply);
        return NULL;
    case WORKER_REFUSED:
        break;
    }
    diag_add(d, DIAG_EPILOGUE_LLVM, r->loc, r->target->name, reply);
    return NULL;
}

const struct lowered *lower_epilogue(struct arena *a, const struct lower_request *r,
                                     struct diags *d)
{
    if (!check_chunk(r, d) || !check_paths(r, d))
        return NULL;
    /* Threads in turn: the file's lock is the process's. */
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    struct buf request, key;
    buf_init(&request, a);
    buf_init(&key, a);
    const struct lower_names *n = &r->names;
    buf_printf(&request, "target %s\nptx %d\nchunk %d\nstep %d\nprefix %s\n",
               r->target->name, r->ptx_version, r->chunk, r->step, r->prefix);
    buf_printf(&request, "names %s %s %s %s %s %s\n", n->v ? n->v : "v",
               n->alpha ? n->alpha : "alpha", n->row ? n->row : "row",
               n->col ? n->col : "col", n->m ? n->m : "m", n->n ? n->n : "n");
    expr_write(r->e, &request);
    buf_printf(&key, "revision %d library %016llx\n%s", LOWER_REVISION,
               (unsigned long long)library_hash(a), request.data);
    const struct lowered *l = find_kept(a, r, key.data);
    if (l)
        return l;
    pthread_mutex_lock(&turn);
    int handle = lower_cache_lock(key.data);
    l = find_kept(a, r, key.data);
    if (!l)
        l = ask_llvm(a, r, request.data, key.data, d);
    lower_cache_unlock(handle);
    pthread_mutex_unlock(&turn);
    return l;
}

double lower_insns_per_value(const struct expr *e, const struct lowered *l)
{
    int values = expr_out_cols(&e->outputs[0], l->chunk_cols);
    return (double)(l->chunk.insns - l->chunk.rare_insns) / values;
}
