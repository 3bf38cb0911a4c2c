#include "core/ptx_names.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "core/ptx_lex.h"

enum {
    EMU = 1,
    NO_EMU = 0,
};

static const struct ptx_op_info ops[] = {
#define PTX_OP(id, spelling, isa, needs, mods, operands, emulated)                     \
    {spelling, isa, needs, mods, operands, emulated},
#include "core/ptx_ops.def"
#undef PTX_OP
};

static const struct {
    const char *spelling;
    int bits;
} types[] = {
    {"", 0},
#define PTX_TYPE(id, spelling, bits) {spelling, bits},
#include "core/ptx_types.def"
#undef PTX_TYPE
};

static const char *const mods[] = {
    "",
#define PTX_MOD(id, spelling) spelling,
#include "core/ptx_mods.def"
#undef PTX_MOD
};

static const struct {
    const char *spelling;
    enum ptx_type type;
} sregs[] = {
#define PTX_SREG(id, spelling, type) {spelling, PTX_T_##type},
#include "core/ptx_sregs.def"
#undef PTX_SREG
};

/* One open hash per kind of name, filled once per process. */
#define SLOTS 1024
struct index {
    int16_t ids[SLOTS]; /* id + 1; 0: free */
    uint32_t hashes[SLOTS];
};

static_assert(COUNT_OF(mods) < SLOTS * 3 / 4, "the index of modifiers is too full");

static struct index op_index, type_index, mod_index, sreg_index;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void add(struct index *x, const char *spelling, int id)
{
    uint32_t h = lex_hash(spelling, (int)strlen(spelling)), i = h % SLOTS;
    while (x->ids[i])
        i = (i + 1) % SLOTS;
    x->ids[i] = (int16_t)(id + 1);
    x->hashes[i] = h;
}

static void fill(void)
{
    for (int i = 0; i < PTX_OP_COUNT; i++)
        add(&op_index, ops[i].spelling, i);
    for (int i = 1; i < PTX_TYPE_COUNT; i++)
        add(&type_index, types[i].spelling, i);
    for (int i = 1; i < PTX_MOD_COUNT; i++)
        add(&mod_index, mods[i], i);
    for (int i = 0; i < PTX_SREG_COUNT; i++)
        add(&sreg_index, sregs[i].spelling, i);
}

static bool equal(const char *spelling, const char *s, int bytes)
{
    return strncmp(spelling, s, (size_t)bytes) == 0 && spelling[bytes] == '\0';
}

/* Walks the candidates for one hash: *i is where to look, the result an id or -1. */
static int candidate(const struct index *x, uint32_t h, uint32_t *i)
{
    for (; x->ids[*i % SLOTS]; ++*i) {
        if (x->hashes[*i % SLOTS] == h)
            return x->ids[(*i)++ % SLOTS] - 1;
    }
    return -1;
}

int ptx_find_op(const char *s, int bytes)
{
    pthread_once(&once, fill);
    uint32_t h = lex_hash(s, bytes), i = h % SLOTS;
    int id;
    while ((id = candidate(&op_index, h, &i)) >= 0 &&
           !equal(ops[id].spelling, s, bytes))
        ;
    return id;
}

enum ptx_type ptx_find_type(const char *s, int bytes)
{
    pthread_once(&once, fill);
    uint32_t h = lex_hash(s, bytes), i = h % SLOTS;
    int id;
    while ((id = candidate(&type_index, h, &i)) >= 0 &&
           !equal(types[id].spelling, s, bytes))
        ;
    return id < 0 ? PTX_NO_TYPE : (enum ptx_type)id;
}

enum ptx_mod ptx_find_mod(const char *s, int bytes)
{
    pthread_once(&once, fill);
    uint32_t h = lex_hash(s, bytes), i = h % SLOTS;
    int id;
    while ((id = candidate(&mod_index, h, &i)) >= 0 && !equal(mods[id], s, bytes))
        ;
    return id < 0 ? PTX_NO_MOD : (enum ptx_mod)id;
}

int ptx_find_sreg(const char *s, int bytes)
{
    pthread_once(&once, fill);
    uint32_t h = lex_hash(s, bytes), i = h % SLOTS;
    int id;
    while ((id = candidate(&sreg_index, h, &i)) >= 0 &&
           !equal(sregs[id].spelling, s, bytes))
        ;
    return id;
}

/* ---- opcodes */

/* Where the family's own words end: the longest start that is a family.  Words are
 * parted by `.` and by `::` (tcgen05.wait::ld). */
static int family_bytes(const char *text, int bytes, int *op)
{
    int best = 0, words = 0;
    for (int i = 1; i <= bytes && words < 5; i++) {
        if (i < bytes && text[i] != '.' && !(text[i] == ':' && text[i - 1] != ':'))
            continue;
        words++;
        int id = ptx_find_op(text, i);
        if (id >= 0) {
            best = i;
            *op = id;
        }
    }
    return best;
}

/* 4 for "v4" and "x4" with first = 'v' and 'x'; 0: not such a part. */
static int part_number(const char *s, int bytes, char first, int most)
{
    if (bytes < 2 || bytes > 4 || s[0] != first || s[1] == '0')
        return 0;
    int n = 0;
    for (int i = 1; i < bytes; i++) {
        if (s[i] < '0' || s[i] > '9')
            return 0;
        n = n * 10 + (s[i] - '0');
    }
    return n <= most && (n & (n - 1)) == 0 ? n : 0;
}

static enum ptx_opcode_error add_part(struct ptx_opcode *o, const char *s, int bytes)
{
    int n = part_number(s, bytes, 'v', 8);
    if (n > 1 && o->vector == 1) {
        o->vector = n;
        return PTX_OPCODE_OK;
    }
    n = part_number(s, bytes, 'x', 128);
    if (n > 0 && o->repeat == 0) {
        o->repeat = n;
        return PTX_OPCODE_OK;
    }
    enum ptx_type type = ptx_find_type(s, bytes);
    if (type) {
        if (o->type_count == PTX_MAX_TYPES)
            return PTX_OPCODE_LONG;
        o->types[o->type_count++] = (uint8_t)type;
        return PTX_OPCODE_OK;
    }
    enum ptx_mod mod = ptx_find_mod(s, bytes);
    if (!mod)
        return PTX_OPCODE_PART;
    if (o->mod_count == PTX_MAX_MODS)
        return PTX_OPCODE_LONG;
    o->mods[o->mod_count++] = (uint16_t)mod;
    return PTX_OPCODE_OK;
}

enum ptx_opcode_error ptx_opcode_read(const char *text, int bytes,
                                      struct ptx_opcode *out, const char **part,
                                      int *part_bytes)
{
    int op = 0;
    int at = family_bytes(text, bytes, &op);
    *out = (struct ptx_opcode){.op = (enum ptx_op)op, .vector = 1};
    if (!at)
        return PTX_OPCODE_UNKNOWN;
    while (at < bytes) {
        if (text[at] == '.')
            at++;
        int from = at;
        while (at < bytes && text[at] != '.')
            at++;
        enum ptx_opcode_error e = add_part(out, text + from, at - from);
        if (e != PTX_OPCODE_OK) {
            *part = text + from;
            *part_bytes = at - from;
            return e;
        }
    }
    return PTX_OPCODE_OK;
}

/* ---- what the tables say */

bool ptx_has(const struct ptx_insn *i, enum ptx_mod mod)
{
    for (int m = 0; m < i->mod_count; m++) {
        if (i->mods[m] == mod)
            return true;
    }
    return false;
}

int ptx_type_bits(enum ptx_type t)
{
    return types[t].bits;
}

const char *ptx_op_spelling(enum ptx_op op)
{
    return ops[op].spelling;
}

const char *ptx_type_spelling(enum ptx_type t)
{
    return types[t].spelling;
}

const char *ptx_mod_spelling(enum ptx_mod m)
{
    return mods[m];
}

enum ptx_type ptx_sreg_type(int sreg)
{
    return sregs[sreg].type;
}

const struct ptx_op_info *ptx_op_info(enum ptx_op op)
{
    return &ops[op];
}
