#include "core/ptx_form.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/ptx_names.h"

/* Sets that the table names with a `$`. */
static const struct {
    const char *name, *members;
} sets[] = {
    {"int", "u16|u32|u64|s16|s32|s64"},
    {"int8", "u8|u16|u32|u64|s8|s16|s32|s64"},
    {"mem", "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"},
    {"rnd", "rn|rz|rm|rp"},
    {"irnd", "rni|rzi|rmi|rpi"},
    {"bool", "and|or|xor"},
    {"cmp", "eq|ne|lt|le|gt|ge"},
    {"fcmp", "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"},
    {"sem", "relaxed|acquire|release|acq_rel"},
    {"scope", "cta|cluster|gpu|sys"},
    {"ldspace",
     "global|shared|shared::cta|shared::cluster|local|const|param|param::entry|"
     "param::func"},
    {"stspace", "global|shared|shared::cta|shared::cluster|local|param|param::func"},
    {"atspace", "global|shared|shared::cta|shared::cluster"},
    {"ldcache", "ca|cg|cs|lu|cv"},
    {"l1", "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|"
           "L1::no_allocate"},
    {"l2", "L2::evict_normal|L2::evict_first|L2::evict_last"},
    {"pre", "L2::64B|L2::128B|L2::256B"},
    {"pol", "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged"},
    {"nd", "1d|2d|3d|4d|5d"},
    {"group", "cta_group::1|cta_group::2"},
    {"scale", "block16|block32|scale_vec::1X|scale_vec::2X|scale_vec::4X"},
    {"col_a", "collector::a::fill|collector::a::use|collector::a::lastuse|"
              "collector::a::discard"},
    {"col_b", "collector::b0::fill|collector::b0::use|collector::b0::lastuse|"
              "collector::b0::discard|collector::b1::fill|collector::b1::use|"
              "collector::b1::lastuse|collector::b1::discard|collector::b2::fill|"
              "collector::b2::use|collector::b2::lastuse|collector::b2::discard|"
              "collector::b3::fill|collector::b3::use|collector::b3::lastuse|"
              "collector::b3::discard"},
    {"x4", "x1|x2|x4"},
    {"x128", "x1|x2|x4|x8|x16|x32|x64|x128"},
    {"mma",
     "m8n8k4|m8n8k16|m8n8k32|m8n8k128|m16n8k4|m16n8k8|m16n8k16|m16n8k32|m16n8k64|"
     "m16n8k128|m16n8k256"},
    {"wmma", "m16n16k16|m32n8k16|m8n32k16|m16n16k8|m8n8k4|m8n8k32|m8n8k128"},
};

static const struct {
    const char *name;
    uint32_t bit;
} features[] = {
    {"SM_80", FEAT_SM_80},         {"SM_89", FEAT_SM_89},
    {"SM_90", FEAT_SM_90},         {"SM_100", FEAT_SM_100},
    {"CVT_E2M1", FEAT_CVT_E2M1},   {"CVT_RS", FEAT_CVT_RS},
    {"REDUX_F32", FEAT_REDUX_F32}, {"MMA_BLOCK", FEAT_MMA_BLOCK},
    {"TCGEN05", FEAT_TCGEN05},
};

/* ---- reading the table: its mistakes are ours, so they are asserted */

#define MAX_FORMS 40
#define MAX_GROUPS 16
#define MAX_SPECS 10

struct word {
    const char *s;
    int bytes;
};

static bool is(struct word w, const char *text)
{
    return (int)strlen(text) == w.bytes && memcmp(w.s, text, (size_t)w.bytes) == 0;
}

/* The part of *rest before `sep`; *rest moves behind it.  False: nothing is left. */
static bool cut(struct word *rest, const char *sep, struct word *part)
{
    if (!rest->s)
        return false;
    size_t n = strlen(sep);
    *part = *rest;
    for (int i = 0; i + (int)n <= rest->bytes; i++) {
        if (memcmp(rest->s + i, sep, n) == 0) {
            part->bytes = i;
            *rest = (struct word){rest->s + i + n, rest->bytes - i - (int)n};
            return true;
        }
    }
    rest->s = NULL;
    return true;
}

static struct word set_named(struct word w)
{
    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        if (is(w, sets[i].name))
            return (struct word){sets[i].members, (int)strlen(sets[i].members)};
    }
    assert(false && "a $set of ptx_ops.def is unknown");
    return (struct word){"", 0};
}

static int log_2(int n)
{
    int bits = 0;
    while (n > 1) {
        n /= 2;
        bits++;
    }
    return bits;
}

static int part_named(struct word w)
{
    char digits[8] = "";
    if (w.bytes > 1 && w.bytes < 5 && (w.s[0] == 'v' || w.s[0] == 'x')) {
        memcpy(digits, w.s + 1, (size_t)w.bytes - 1);
        if (digits[0] >= '1' && digits[0] <= '9')
            return (w.s[0] == 'v' ? PART_V1 : PART_X1) + log_2(atoi(digits));
    }
    int mod = (int)ptx_find_mod(w.s, w.bytes);
    assert(mod && "a modifier of ptx_ops.def is not in ptx_mods.def");
    return mod;
}

static uint16_t id_named(struct word w, bool is_type)
{
    int id = is_type ? (int)ptx_find_type(w.s, w.bytes) : part_named(w);
    assert(id && "a type of ptx_ops.def is not in ptx_types.def");
    return (uint16_t)id;
}

/* `a|b|$set` to ids. */
static int read_any(struct arena *a, struct word w, bool is_type, const uint16_t **any)
{
    uint16_t ids[64];
    int count = 0;
    struct word member, inner;
    while (cut(&w, "|", &member)) {
        struct word list = member;
        if (member.bytes && member.s[0] == '$')
            list = set_named((struct word){member.s + 1, member.bytes - 1});
        while (cut(&list, "|", &inner)) {
            assert(count < (int)COUNT_OF(ids));
            ids[count++] = id_named(inner, is_type);
        }
    }
    uint16_t *kept = ARENA_ARRAY(a, uint16_t, (size_t)count);
    memcpy(kept, ids, (size_t)count * sizeof *ids);
    *any = kept;
    return count;
}

/* All wgmma shapes, of which there are too many for a set in text. */
static int read_wgmma(struct arena *a, const uint16_t **any)
{
    int count = PTX_M_M64N256K256 - PTX_M_M64N8K8 + 1;
    uint16_t *kept = ARENA_ARRAY(a, uint16_t, (size_t)count);
    for (int i = 0; i < count; i++)
        kept[i] = (uint16_t)(PTX_M_M64N8K8 + i);
    *any = kept;
    return count;
}

static struct ptx_group read_group(struct arena *a, struct word w, bool is_type)
{
    struct ptx_group g = {0};
    if (w.s[w.bytes - 1] == '?') {
        g.optional = true;
        w.bytes--;
    }
    g.count = is(w, "$wgmma") ? read_wgmma(a, &g.any) : read_any(a, w, is_type, &g.any);
    return g;
}

static uint32_t feature_named(struct word w)
{
    for (size_t i = 0; i < COUNT_OF(features); i++) {
        if (is(w, features[i].name))
            return features[i].bit;
    }
    assert(false && "a +FEATURE of ptx_ops.def is unknown");
    return 0;
}

static struct ptx_form read_form(struct arena *a, struct word text)
{
    struct ptx_form f = {0};
    struct ptx_group groups[MAX_GROUPS], types[PTX_MAX_TYPES];
    bool is_type = false;
    struct word w;
    while (cut(&text, " ", &w)) {
        if (!w.bytes) {
            continue;
        } else if (is(w, ":")) {
            is_type = true;
        } else if (*w.s == '@') {
            f.isa = atoi(w.s + 1);
        } else if (*w.s == '+') {
            f.needs |= feature_named((struct word){w.s + 1, w.bytes - 1});
        } else if (is_type) {
            assert(f.type_count < PTX_MAX_TYPES);
            types[f.type_count++] = read_group(a, w, true);
        } else {
            assert(f.group_count < MAX_GROUPS);
            groups[f.group_count++] = read_group(a, w, false);
        }
    }
    struct ptx_group *kept =
        ARENA_ARRAY(a, struct ptx_group, (size_t)f.group_count + 1);
    memcpy(kept, groups, (size_t)f.group_count * sizeof *kept);
    f.groups = kept;
    kept = ARENA_ARRAY(a, struct ptx_group, (size_t)f.type_count + 1);
    memcpy(kept, types, (size_t)f.type_count * sizeof *kept);
    f.types = kept;
    return f;
}

static struct ptx_spec_alt read_alt(struct word w)
{
    assert(w.bytes > 0 && strchr("deDqQErRizpPatlvV_mnx", *w.s));
    struct ptx_spec_alt alt = {.kind = *w.s};
    for (int i = 1; i < w.bytes; i++) {
        if (w.s[i] >= '1' && w.s[i] <= '5') {
            alt.position = (uint8_t)(w.s[i] - '0');
        } else if (w.s[i] == 'w') {
            alt.wide = true;
        } else if (w.s[i] == '+') {
            alt.wider = true;
        } else if (w.s[i] == '.') {
            alt.type = (enum ptx_type)id_named(
                (struct word){w.s + i + 1, w.bytes - i - 1}, true);
            break;
        } else {
            assert(w.s[i] == '*');
        }
    }
    return alt;
}

static struct ptx_spec read_spec(struct arena *a, struct word w)
{
    struct ptx_spec spec = {0};
    struct word condition = {0}, alt;
    for (int i = 0; i < w.bytes; i++) {
        if (w.s[i] == '{') {
            condition = (struct word){w.s + i + 1, w.bytes - i - 2};
            spec.when_count = read_any(a, condition, false, &spec.when);
            w.bytes = i;
        }
    }
    if (w.s[w.bytes - 1] == '?') {
        spec.optional = true;
        w.bytes--;
    }
    while (cut(&w, "|", &alt)) {
        assert(spec.alt_count < (int)COUNT_OF(spec.alts));
        spec.alts[spec.alt_count++] = read_alt(alt);
    }
    return spec;
}

static int read_specs(struct arena *a, struct word text, const struct ptx_spec **kept)
{
    struct ptx_spec specs[MAX_SPECS];
    int count = 0;
    struct word w;
    while (text.bytes && cut(&text, ", ", &w)) {
        assert(count < MAX_SPECS);
        specs[count++] = read_spec(a, w);
    }
    struct ptx_spec *k = ARENA_ARRAY(a, struct ptx_spec, (size_t)count + 1);
    memcpy(k, specs, (size_t)count * sizeof *k);
    *kept = k;
    return count;
}

static struct {
    const struct ptx_form *forms;
    int count;
} families[PTX_OP_COUNT];

static void read_family(struct arena *a, enum ptx_op op)
{
    const struct ptx_op_info *info = ptx_op_info(op);
    struct ptx_form forms[MAX_FORMS];
    struct word text = {info->mods, (int)strlen(info->mods)}, form;
    struct word operands = {info->operands, (int)strlen(info->operands)}, list;
    int count = 0, same = 0; /* forms that still have the list of the one before */
    while (cut(&text, " / ", &form)) {
        assert(count < MAX_FORMS);
        struct ptx_form *f = &forms[count];
        *f = read_form(a, form);
        bool fresh = false;
        if (same > 0) {
            same--;
        } else if (cut(&operands, " / ", &list)) {
            fresh = list.bytes == 0 || *list.s != '=';
            same = fresh || list.bytes == 1 ? 0 : atoi(list.s + 1) - 1;
        }
        if (fresh) {
            f->spec_count = read_specs(a, list, &f->specs);
        } else {
            assert(count > 0);
            f->specs = forms[count - 1].specs;
            f->spec_count = forms[count - 1].spec_count;
        }
        count++;
    }
    assert(!operands.s && "more operand lists than forms");
    struct ptx_form *kept = ARENA_ARRAY(a, struct ptx_form, (size_t)count);
    memcpy(kept, forms, (size_t)count * sizeof *kept);
    families[op].forms = kept;
    families[op].count = count;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct arena *table; /* lives as long as the process */

static void free_table(void)
{
    arena_free(table);
}

static void read_table(void)
{
    table = arena_new();
    atexit(free_table);
    for (int op = 0; op < PTX_OP_COUNT; op++)
        read_family(table, (enum ptx_op)op);
}

const struct ptx_form *ptx_forms(enum ptx_op op, int *count)
{
    pthread_once(&once, read_table);
    *count = families[op].count;
    return families[op].forms;
}

/* ---- fitting */

static bool has(const struct ptx_group *g, int id)
{
    for (int i = 0; i < g->count; i++) {
        if (g->any[i] == id)
            return true;
    }
    return false;
}

static int parts_of(const struct ptx_insn *insn, uint16_t parts[PTX_MAX_MODS + 2])
{
    int count = 0;
    for (int i = 0; i < insn->mod_count; i++)
        parts[count++] = insn->mods[i];
    if (insn->vector > 1)
        parts[count++] = (uint16_t)(PART_V1 + log_2(insn->vector));
    if (insn->repeat)
        parts[count++] = (uint16_t)(PART_X1 + log_2(insn->repeat));
    return count;
}

static bool types_fit(const struct ptx_form *f, const struct ptx_insn *insn)
{
    int at = 0;
    for (int i = 0; i < f->type_count; i++) {
        if (at < insn->type_count && has(&f->types[i], insn->types[at]))
            at++;
        else if (!f->types[i].optional)
            return false;
    }
    return at == insn->type_count;
}

/* How far `f` is from the opcode; 0 fits.  Types weigh most and what is missing least,
 * so that the closest form is the one that the writer meant. */
static int distance(const struct ptx_form *f, const struct ptx_insn *insn,
                    const uint16_t *parts, int count, struct ptx_fit *fit)
{
    bool used[PTX_MAX_MODS + 2] = {false};
    int far = 0;
    *fit = (struct ptx_fit){.form = f};
    for (int g = 0; g < f->group_count; g++) {
        int i = 0;
        while (i < count && (used[i] || !has(&f->groups[g], parts[i])))
            i++;
        if (i < count) {
            used[i] = true;
        } else if (!f->groups[g].optional) {
            fit->misfit = MISFIT_LACKS;
            if (!fit->group)
                fit->group = &f->groups[g];
            far += 2;
        }
    }
    for (int i = count - 1; i >= 0; i--) {
        if (!used[i]) {
            fit->misfit = MISFIT_PART;
            fit->part = parts[i];
            far += 3;
        }
    }
    if (!types_fit(f, insn)) {
        if (!far)
            fit->misfit = MISFIT_TYPES;
        far += 6;
    }
    return far;
}

struct ptx_fit ptx_fit(const struct ptx_insn *insn, ptx_rank_fn *rank,
                       const void *context)
{
    uint16_t parts[PTX_MAX_MODS + 2];
    int count = parts_of(insn, parts), form_count, least = 1 << 20, best_rank = -1;
    const struct ptx_form *forms = ptx_forms(insn->op, &form_count);
    struct ptx_fit best = {.misfit = MISFIT_TYPES, .form = forms};
    for (int i = 0; i < form_count; i++) {
        struct ptx_fit fit;
        int far = distance(&forms[i], insn, parts, count, &fit);
        if (far > least)
            continue;
        int r = far == 0 ? rank(context, insn, &forms[i]) : 0;
        if (far < least || r > best_rank) {
            best = fit;
            best_rank = r;
        }
        least = far;
    }
    return best;
}

const char *ptx_part_spelling(struct arena *a, int part)
{
    if (part >= PART_X1)
        return arena_printf(a, "x%d", 1 << (part - PART_X1));
    if (part >= PART_V1)
        return arena_printf(a, "v%d", 1 << (part - PART_V1));
    return ptx_mod_spelling((enum ptx_mod)part);
}
